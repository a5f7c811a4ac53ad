"""`oomph what-if [options] -- vllm serve MODEL FLAGS`: every change that moves memory, made alone and planned."""

from __future__ import annotations

import click

from oomph.cli.options import html_option, write_html
from oomph.errors import CommandError


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--gpu", metavar="GPUS", help='The GPUs: "2x RTX 5070 Ti", auto (default).')
@click.option("--engine", metavar="NAME==VERSION", default="", help="The engine's release: vllm==0.21.0.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; bytes are integers.")
@html_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND | FILE | -")
def command(gpu: str | None, engine: str, as_json: bool, html: str | None, words: tuple[str, ...]) -> int:
    """What each flag would do to this command, alone: the advice of the guides, planned.

    \b
    oomph what-if --gpu "RTX 4090" -- vllm serve meta-llama/Llama-3.1-8B-Instruct
    """
    if not words:
        raise CommandError("no command to look at", hint="oomph what-if --gpu H100 -- vllm serve MODEL")
    from oomph.api import what_if
    from oomph.cli.words import deployment, exit_code, late_gpu

    gpu, words = late_gpu(gpu, words)
    table = what_if(deployment(words, engine), gpu=gpu)
    if as_json:
        print(table.to_json(indent=2))
    else:
        from oomph.report.what_if_text import print_what_if

        print_what_if(table)
    write_html(html, "what_if", table)
    return exit_code(table.plan.verdict)
