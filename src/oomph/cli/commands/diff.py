"""`oomph diff`: two releases, two flag sets, two GPUs or two models side by side."""

import click

from oomph.cli.options import html_option
from oomph.cli.show import show
from oomph.errors import CommandError


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--from", "--engine", "before", metavar="NAME==VERSION", default="", help="The release now: vllm==0.21.0."
)
@click.option("--to", "after", metavar="NAME==VERSION", default="", help="The release to go to: vllm==0.32.0.")
@click.option("--gpu", metavar="GPUS", help="The GPUs.")
@click.option("--to-gpu", metavar="GPUS", help="The GPUs to go to.")
@click.option("--with", "changed", metavar="'FLAGS'", default="", help="Flags to add or change on the second side.")
@click.option("--to-model", metavar="MODEL", default="", help="The model of the second side.")
@click.option("--users", "load", metavar="PROMPT,OUTPUT", help="Simulate too: the users held with such requests.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@html_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND | FILE | -")
def command(
    before: str,
    after: str,
    gpu: str | None,
    to_gpu: str | None,
    changed: str,
    to_model: str,
    load: str | None,
    as_json: bool,
    html: str | None,
    words: tuple[str, ...],
) -> int:
    """What changes, and which release changes it?

    \b
    oomph diff --gpu "2x RTX 3090" --from vllm==0.21.0 --to vllm==0.32.0 -- vllm serve MODEL -tp 2
    oomph diff --gpu H100 --with "--kv-cache-dtype fp8" -- vllm serve MODEL
    oomph diff --gpu H100 --to-gpu H200 -- vllm serve MODEL
    """
    if not words:
        raise CommandError(
            "no command to compare", hint="oomph diff --from vllm==0.21.0 --to vllm==0.32.0 -- vllm serve MODEL"
        )
    from oomph.api import diff
    from oomph.cli.words import deployment, exit_code

    difference = diff(
        deployment(words, before),
        gpu=gpu,
        after=after,
        to_gpu=to_gpu,
        flags=changed,
        to_model=to_model,
        users=load or "",
    )
    show(difference, as_json=as_json, html=html)
    return exit_code(difference.after.verdict)
