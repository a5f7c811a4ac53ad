"""`oomph compare MODEL --gpu GPUS [--context N] [--users N]`: the same job on every engine that can be planned."""

import click

from oomph.cli.options import html_option, write_html
from oomph.cli.show import show


@click.command()
@click.option("--gpu", metavar="GPUS", help='The GPUs: "2x RTX 5070 Ti", auto (default).')
@click.option("--context", metavar="TOKENS", default="", help="Context of one request. Default 8192.")
@click.option(
    "--users", type=click.IntRange(1, 4096), default=1, metavar="N", help="Requests of that context at once. Default 1."
)
@click.option("--engines", metavar="LIST", default="", help="Which engines to compare: vllm,llamacpp.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@html_option
@click.argument("model")
def command(
    gpu: str | None, context: str, users: int, engines: str, as_json: bool, html: str | None, model: str
) -> int:
    """Which engine for this model here? vLLM, SGLang, TensorRT-LLM, llama.cpp, Ollama.

    \b
    oomph compare google/gemma-4-31B-it --gpu "2x RTX 5070 Ti" --context 32k
    oomph compare Qwen/Qwen3-30B-A3B --gpu "RTX 4090" --users 4
    """
    from oomph.answers.compare import compare
    from oomph.cli.progress import progress
    from oomph.engines.registry import name_of
    from oomph.units import parse_tokens

    words = filter(None, map(str.strip, engines.split(",")))
    chosen = [name_of(word) or word for word in words]
    tokens = parse_tokens(context, what="--context") if context else 0
    with progress("compare") as step:
        comparison = compare(model, gpu=gpu, context=tokens, users=users, engines=chosen, progress=step)
    show(comparison, as_json=as_json)
    write_html(html, "compare", comparison)
    return 0 if any(r.fits for r in comparison.rows) else 1
