"""`oomph pack FILE...`: do several services fit on one machine, on which card, in which order, with which share?"""

from __future__ import annotations

import sys

import click

from oomph.errors import CommandError


@click.command()
@click.option("--gpu", metavar="GPUS", help='The GPUs: "2x H100", "RTX 4090 used 2GiB"; the live ones by default.')
@click.option("--engine", metavar="NAME==VERSION", default="", help="The engine's release, if the files do not say.")
@click.option("--ram", metavar="SIZE", default="", help="Host memory of the machine, such as 128GB.")
@click.option("--asleep", metavar="NAME", multiple=True, help="A service that sleeps while the others run.")
@click.option("--solver", type=click.Choice(["cp-sat", "plain"]), help="How to search; the best there is by default.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("words", nargs=-1, metavar="FILE | COMMAND...")
def command(
    gpu: str | None, engine: str, ram: str, asleep: tuple[str, ...], solver: str | None, as_json: bool,
    words: tuple[str, ...],
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
    from oomph.host import parse_ram
    from oomph.pack.pack import pack
    from oomph.pack.read import read_services
    from oomph.sources.gpu import parse_gpus

    services = read_services(words, engine)
    unknown = [name for name in asleep if name not in services.deployments]
    if unknown:
        known = ", ".join(services.deployments)
        raise CommandError(f"--asleep {unknown[0][:60]!r} is none of the services: {known}")
    cards = parse_gpus(gpu or "auto")
    memory = parse_ram(ram) if ram else _own_memory() if gpu is None else 0
    packed = pack(services.deployments, cards, ram=memory, asleep=asleep, solver=solver or "")
    from msgspec.structs import replace

    packed = replace(packed, notes=(*services.notes, *packed.notes))
    if as_json:
        import msgspec

        from oomph.report.pack_text import pack_json

        sys.stdout.write(msgspec.json.format(msgspec.json.encode(pack_json(packed)), indent=1).decode() + "\n")
    else:
        from oomph.report.pack_text import render
        from oomph.report.terminal import Style, columns

        sys.stdout.write(render(packed, Style(sys.stdout), width=columns()))
    return {"fits": 0, "fails": 1}.get(packed.outcome, 4)


def _own_memory() -> int:
    import psutil  # type: ignore[import-untyped]

    return int(psutil.virtual_memory().available)
