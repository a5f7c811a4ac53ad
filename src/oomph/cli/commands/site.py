"""`oomph site FOLDER`: the catalogue as a static site, every figure planned."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from oomph.cli.progress import Step
    from oomph.site.figures import Figure

    Planned = tuple[str, tuple[Figure, ...]]


@click.command(context_settings={"allow_interspersed_args": True})
@click.argument("folder", metavar="FOLDER")
@click.option("--match", "only", metavar="WORD", multiple=True, help="Checkpoints with this in their name. Repeat it.")
@click.option("--workers", metavar="N", type=click.IntRange(0, 256), default=0, help="Processes; one per core.")
def command(folder: str, only: tuple[str, ...], workers: int) -> int:
    """A static site: a page per model and per card, with the fewest cards, room, KV cache and command, per engine.

    \b
    oomph site build/catalogue
    oomph site build/qwen3 --match Qwen3-8B
    """
    import os
    from pathlib import Path

    from oomph.cli.progress import progress
    from oomph.errors import InputError
    from oomph.site.figures import cards, checkpoints, figures
    from oomph.site.pages import write_site

    names = checkpoints(only)
    if not names:
        raise InputError(f"no checkpoint of the catalogue has {' or '.join(only)!r} in its name")
    try:
        with progress("checkpoints") as step:
            planned = figures(names, workers or os.cpu_count() or 1)
            pages = write_site(Path(folder), names, _counted(planned, len(names), step), cards())
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror or error}") from None
    print(f"{folder}: {pages} pages of {len(names)} checkpoints and {len(cards())} cards")
    return 0


def _counted(planned: "Iterable[Planned]", total: int, step: "Step") -> "Iterator[Planned]":
    for number, (name, figures) in enumerate(planned):
        step(name, number, total)
        yield name, figures
