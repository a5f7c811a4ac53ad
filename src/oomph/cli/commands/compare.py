"""`oomph compare MODEL --gpu GPUS [--context N] [--users N]`: the same job on every engine that can be planned."""

import click

from oomph.cli.options import html_option
from oomph.cli.show import show


@click.command()
@click.option("--gpu", metavar="GPUS", help='The GPUs: "2x RTX 5070 Ti", auto (default).')
@click.option("--context", metavar="TOKENS", default="", help="Context of one request. Default 8192.")
@click.option(
    "--users", type=click.IntRange(1, 4096), default=1, metavar="N", help="Requests of that context at once. Default 1."
)
@click.option("--engines", metavar="LIST", default="", help="Which engines to compare: vllm,llamacpp.")
@click.option(
    "--prompt", metavar="TOKENS", default="", help="Tokens that each user sends: the same load on every engine."
)
@click.option("--output", metavar="TOKENS", default="", help="Tokens of each answer. Default 250.")
@click.option("--ttft", type=float, default=2.0, help="Users are held while P95 time to first token is below (2 s).")
@click.option("--tpot", type=float, default=50.0, help="... and P95 milliseconds per token; 50, 0 for any.")
@click.option("--headless", is_flag=True, help="No card drives a screen: keep no room for one.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@html_option
@click.argument("model")
def command(
    gpu: str | None, context: str, users: int, engines: str, prompt: str, output: str, ttft: float, tpot: float,
    headless: bool, as_json: bool, html: str | None, model: str,
) -> int:  # fmt: skip
    """Which engine for this model here? vLLM, SGLang, TensorRT-LLM, llama.cpp, Ollama.

    \b
    oomph compare google/gemma-4-31B-it --gpu "2x RTX 5070 Ti" --context 32k
    oomph compare Qwen/Qwen3-30B-A3B --gpu "RTX 4090" --users 4
    oomph compare Qwen/Qwen3-8B --gpu H100 --users 100 --prompt 1k --output 250 --tpot 30
    """
    from oomph.answers.compare import compare
    from oomph.cli.progress import progress
    from oomph.engines.registry import names_in
    from oomph.units import parse_tokens

    tokens = parse_tokens(context, what="--context") if context else 0
    prompt_tokens, output_tokens = (
        parse_tokens(text, what=option) if text else 0 for text, option in ((prompt, "--prompt"), (output, "--output"))
    )
    with progress("compare") as step:
        comparison = compare(
            model, gpu=gpu, context=tokens, users=users, engines=names_in(engines), prompt=prompt_tokens,
            output=output_tokens, ttft=ttft, tpot=tpot / 1000, headless=headless, progress=step,
        )  # fmt: skip
    show(comparison, as_json=as_json, html=html)
    return 0 if any(r.fits for r in comparison.rows) else 1
