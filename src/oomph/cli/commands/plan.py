"""`oomph plan [options] -- vllm serve MODEL FLAGS`: will it fit, where does each GiB go, how many tokens and users."""

from typing import Any

import click

from oomph.cli.answers import answer_plan
from oomph.cli.options import html_option


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--gpu", metavar="GPUS", help='The GPUs: "2x RTX 5070 Ti", "RTX 3090 used 1.2GiB", auto (default).')
@click.option("--engine", metavar="NAME==VERSION", default="", help="The engine's release: vllm==0.21.0.")
@click.option(
    "--given",
    "pins",
    metavar="TERM=SIZE",
    multiple=True,
    help="Pin a term to an observed value: available_kv=11.54GiB.",
)
@click.option(
    "--compile-cache", type=click.Choice(["cold", "warm"]), help="Is torch.compile's cache empty? Default cold."
)
@click.option("--margin", metavar="SIZE|PERCENT", default="", help="Room to be left at every stage: 1GiB, 5%.")
@click.option("--ram", metavar="SIZE", default="", help="Host memory of one node, such as 64GB.")
@click.option(
    "--emit", "form", metavar="FORM", default="", help="Write it: docker, compose, kubernetes, nodes, lws, rayservice."
)
@click.option("--no-advice", is_flag=True, help="Leave out what would help: the plan alone, faster.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@html_option
@click.option("--all", "show_all", is_flag=True, help="The whole ledger: stages, parts, the basis of each term.")
@click.option("--batch", metavar="FILE", help="Plan one JSON object a line (- for standard input); one plan a line.")
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
    return answer_plan(**options)
