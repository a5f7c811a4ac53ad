"""`oomph pack FILE...`: do several services fit on one machine, on which card, in which order, with which share?"""

import click

from oomph.cli.options import html_option
from oomph.cli.show import show
from oomph.errors import CommandError


@click.command()
@click.option("--gpu", metavar="GPUS", help='The GPUs: "2x H100", "RTX 4090 used 2GiB"; the live ones by default.')
@click.option("--engine", metavar="NAME==VERSION", default="", help="The engine's release, if the files do not say.")
@click.option("--ram", metavar="SIZE", default="", help="Host memory of the machine, such as 128GB.")
@click.option("--asleep", metavar="NAME", multiple=True, help="A service that sleeps while the others run.")
@click.option("--solver", type=click.Choice(["cp-sat", "plain"]), help="How to search; the best there is by default.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@html_option
@click.argument("words", nargs=-1, metavar="FILE | COMMAND...")
def command(
    gpu: str | None, engine: str, ram: str, asleep: tuple[str, ...], solver: str | None, as_json: bool,
    html: str | None, words: tuple[str, ...],
) -> int:  # fmt: skip
    """Several services on one machine.

    \b
    oomph pack --gpu "2x RTX 4090" compose.yaml
    oomph pack --gpu H200 "vllm serve Qwen/Qwen3-8B" "vllm serve Qwen/Qwen3-Embedding-0.6B"
    oomph pack --gpu L40S --ram 64GB llama-swap.yaml --asleep coder
    """
    if not words:
        raise CommandError(
            "nothing to pack", hint='oomph pack --gpu H100 compose.yaml, or commands: "vllm serve MODEL"'
        )
    from oomph.api import pack
    from oomph.cli.progress import progress

    memory = ram or (_own_memory() if gpu is None else 0)
    with progress("pack") as step:
        packed = pack(
            words, gpu=gpu or "auto", engine=engine, ram=memory, asleep=asleep, solver=solver or "", progress=step
        )
    show(packed, as_json=as_json, html=html)
    return {"fits": 0, "fails": 1}.get(packed.outcome, 4)


def _own_memory() -> int:
    import psutil  # type: ignore[import-untyped]

    return int(psutil.virtual_memory().available)
