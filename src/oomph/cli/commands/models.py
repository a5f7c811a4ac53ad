"""`oomph models --gpu GPUS`: what should I run? The models that run well on a machine, the best first."""

from typing import Any

import click

from oomph.cli.options import html_option
from oomph.cli.show import show
from oomph.errors import CommandError


@click.command()
@click.argument("words", nargs=-1, metavar="[NAME]...")
@click.option("--gpu", metavar="GPUS", default="auto", help='The GPUs at hand: "RTX 3090", "8x B200", auto (default).')
@click.option(
    "--for", "purpose", type=click.Choice(["chat", "code", "reasoning", "vision", "embedding"]), default="chat",
    help="What it is for; chat.",
)  # fmt: skip
@click.option("--context", metavar="TOKENS", default="", help="Tokens of one request that must fit: 32k, 131072.")
@click.option("--users", metavar="N", type=click.IntRange(1, 4096), help="Requests of that context at once; 1.")
@click.option("--prefer", type=click.Choice(["quality", "speed", "context", "users"]), help="What decides; quality.")
@click.option("--engine", metavar="NAME", multiple=True, help="vllm, sglang, llamacpp, ollama; repeat it. All.")
@click.option("--licence", "--license", metavar="NAME", default="", help="open, or a licence: apache-2.0, mit.")
@click.option("--since", metavar="DATE", default="", help="Published since: 2026, 2026-03.")
@click.option("--largest", metavar="N", type=click.FloatRange(0), default=0.0, help="Billions of parameters at most.")
@click.option("--smallest", metavar="N", type=click.FloatRange(0), default=0.0, help="Billions of parameters at least.")
@click.option("--headless", is_flag=True, help="No card drives a screen: keep no room for one.")
@click.option("--limit", metavar="N", type=click.IntRange(0, 1000), default=10, help="Lines; 0 = all. 10.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; bytes are integers.")
@html_option
def command(words: tuple[str, ...], gpu: str, context: str, **options: Any) -> int:
    """What should I run? The models that run well on these GPUs, with checkpoint, quantisation, engine and command.

    \b
    oomph models --gpu "RTX 3090"
    oomph models --gpu "RTX 4060 Ti 16GB" --for code --context 32k
    oomph models --gpu "2x H100" --users 32 --engine vllm
    oomph models qwen --gpu "RTX 5090" --prefer speed
    """
    return run(words, gpu, context, options)


def run(words: tuple[str, ...], gpu: str, context: str, options: dict[str, Any]) -> int:
    from oomph.cli.progress import progress
    from oomph.search.models import models
    from oomph.units import parse_tokens

    tokens = parse_tokens(context, what="--context") if context else 0
    if context and not 1 <= tokens <= 1 << 30:
        raise CommandError(f"--context {context!r}: it is a number of tokens such as 32k")
    with progress("models") as step:
        answer = models(
            gpu, purpose=options["purpose"], context=tokens, users=options["users"] or 0,
            prefer=options["prefer"] or "", words=words, engines=options["engine"], licence=options["licence"],
            since=options["since"], largest=options["largest"], smallest=options["smallest"],
            limit=options["limit"], headless=bool(options.get("headless")), progress=step,
        )  # fmt: skip
    show(answer, as_json=options["as_json"], indent=2, html=options["html"])
    return 130 if answer.interrupted and not answer.picks else 0 if answer.picks else 1
