"""`oomph plan [options] -- vllm serve MODEL FLAGS`: will it fit, where does each GiB go, how many tokens and users."""

from typing import Any

import click

from oomph.cli.answers import answer_plan
from oomph.cli.options import declared


@click.command(context_settings={"allow_interspersed_args": False})
@declared("plan")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND | FILE | -")
def command(**options: Any) -> int:
    """Will it fit? Takes the command you were about to run.

    \b
    oomph plan --gpu "2x RTX 5070 Ti" -- vllm serve nvidia/Gemma-4-31B-IT-NVFP4 -tp 2
    oomph plan --gpu H100 -- docker run vllm/vllm-openai:v0.21.0 --model Qwen/Qwen3-8B
    oomph plan --gpu "RTX 4090" compose.yaml       or manifest, Makefile, notebook
    oomph plan --gpu g5.12xlarge start.sh MODEL    a script and its arguments
    cat post.txt | oomph plan --gpu H100 -
    """
    return answer_plan(**{name: value for name, value in options.items() if value is not None})
