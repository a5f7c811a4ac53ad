"""`oomph what-if [options] -- vllm serve MODEL FLAGS`: every change that moves memory, made alone and planned."""

from typing import Any

import click

from oomph.cli.answers import answer_what_if
from oomph.cli.options import declared


@click.command(context_settings={"allow_interspersed_args": False})
@declared("what-if")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND | FILE | -")
def command(**options: Any) -> int:
    """What each flag would do to this command, alone: the advice of the guides, planned.

    \b
    oomph what-if --gpu "RTX 4090" -- vllm serve meta-llama/Llama-3.1-8B-Instruct
    """
    return answer_what_if(**{name: value for name, value in options.items() if value is not None})
