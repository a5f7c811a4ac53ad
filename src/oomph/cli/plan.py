"""`oomph plan [options] -- vllm serve MODEL FLAGS`: will it fit, where does each GiB go, how many tokens and users."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from oomph.cli.options import html_option, write_html
from oomph.errors import CommandError

if TYPE_CHECKING:
    from oomph.commands import Entry
    from oomph.ir.plan import Plan


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--gpu", metavar="GPUS", help='The GPUs: "2x RTX 5070 Ti", "RTX 3090 used 1.2GiB", auto (default).')
@click.option("--engine", metavar="NAME==VERSION", default="", help="The engine's release: vllm==0.21.0.")
@click.option(
    "--given", metavar="TERM=SIZE", multiple=True, help="Pin a term to an observed value: available_kv=11.54GiB."
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
def command(
    gpu: str | None, engine: str, given: tuple[str, ...], compile_cache: str | None, margin: str, ram: str, form: str,
    no_advice: bool, as_json: bool, html: str | None, show_all: bool, batch: str | None, words: tuple[str, ...],
) -> int:  # fmt: skip
    """Will it fit? Takes the command you were about to run.

    \b
    oomph plan --gpu "2x RTX 5070 Ti" -- vllm serve nvidia/Gemma-4-31B-IT-NVFP4 -tp 2
    oomph plan --gpu H100 -- docker run vllm/vllm-openai:v0.21.0 --model Qwen/Qwen3-8B
    oomph plan --gpu "RTX 4090" compose.yaml       or manifest, Makefile, notebook
    oomph plan --gpu g5.12xlarge start.sh MODEL    a script and its arguments
    cat post.txt | oomph plan --gpu H100 -
    """
    if batch is not None:
        from oomph.cli.batch import run_batch

        return run_batch(batch)
    if not words:
        raise CommandError("no command to plan", hint="oomph plan --gpu H100 -- vllm serve MODEL")
    from oomph.cli.words import entries, exit_code, late_gpu

    gpu, words = late_gpu(gpu, words)
    deployments, where = entries(words, engine)
    if len(deployments) > 1:
        if given:
            first = deployments[0].name
            raise CommandError(
                f"{where} holds {len(deployments)} deployments: --given is about one",
                hint=f"oomph plan {where}:{first}",
            )
        return _several(deployments, where, gpu, margin, compile_cache or "", as_json, html, advise=not no_advice)
    from oomph.commands.deployments import only_one
    from oomph.plan import plan, with_advice

    answer = plan(
        only_one(deployments, where),
        gpu=gpu,
        given=_given(given),
        compile_cache=compile_cache or "",
        margin=margin,
        ram=ram,
        advise=False,
    )
    answer = _as_measured(answer, margin)
    if not no_advice:
        answer = with_advice(answer)
    if form:
        from oomph.emit import emit

        sys.stdout.write(emit(answer, form))
        return exit_code(answer.verdict)
    if as_json:
        print(answer.to_json(indent=1))
    else:
        from oomph.report.text import print_plan

        print_plan(answer, everything=show_all)
    write_html(html, "plan", answer, f"oomph plan: {answer.model}")
    return exit_code(answer.verdict)


def _as_measured(answer: Plan, margin: str) -> Plan:
    """The plan with what starts on such a machine showed (oomph learn); itself where nothing was learnt."""
    from oomph.learn import place

    if not os.path.exists(place.path()):
        return answer
    from oomph.learn.apply import learned
    from oomph.plan import plan

    deployment = learned(answer)
    return answer if deployment is answer.deployment else plan(deployment, margin=margin, advise=False)


def _several(
    deployments: list[Entry],
    where: str,
    gpu: str | None,
    margin: str,
    cache: str,
    as_json: bool,
    html: str | None,
    *,
    advise: bool,
) -> int:
    """A file with several deployments: all of them, and the exit code of the worst."""
    from oomph.check import Check, plan_entries

    items = plan_entries(
        deployments,
        file=where,
        gpu=gpu,
        margin=margin,
        compile_cache=cache,
        advise=advise and (as_json or html is not None),
    )
    reasons = {item.error.message if item.error else "" for item in items}
    if len(reasons) == 1 and all(item.model for item in items) and (error := items[0].error) is not None:
        raise error  # no GPU is named: once is enough
    check = Check(tuple(items), files=1)
    if as_json:
        from oomph.report.check_json import check_json
        from oomph.report.json import dumps

        sys.stdout.write(dumps(check_json(check, where=where)) + "\n")
    else:
        from oomph.report.check_text import print_check

        print_check(check, where=where)
    write_html(html, "check", check)
    return check.exit_code


def _given(pairs: tuple[str, ...]) -> dict[str, int | str]:
    out: dict[str, int | str] = {}
    for pair in pairs:
        name, equals, size = pair.partition("=")
        if not equals:
            raise CommandError(f"--given {pair!r} is not TERM=SIZE, such as available_kv=11.54GiB")
        out[name.strip()] = size
    return out
