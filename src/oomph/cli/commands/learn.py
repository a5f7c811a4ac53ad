"""`oomph learn LOG...`: what a start that worked measured here counts in later plans of its kind."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from oomph.errors import CommandError, OomphError

if TYPE_CHECKING:
    from oomph.machine.learn.start import Start


@click.command(context_settings={"allow_interspersed_args": True})
@click.option("--gpu", metavar="GPUS", help="The GPUs of those starts; the live ones by default.")
@click.option("--engine", metavar="NAME==VERSION", default="", help="The engine's release, if the log does not say.")
@click.option("--command", "words", metavar="COMMAND", default="", help="What was started, if the log does not say.")
@click.option("--list", "show", is_flag=True, help="What was learnt, newest first.")
@click.option("--forget", metavar="NUMBERS|all", default="", help="Unlearn: numbers as --list shows them, or all.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("logs", nargs=-1, metavar="LOG...")
def command(
    gpu: str | None, engine: str, words: str, show: bool, forget: str, as_json: bool, logs: tuple[str, ...]
) -> int:
    """Count what a start here measured. Takes logs, vLLM's startup plans and its /metrics.

    \b
    oomph learn server.log
    oomph learn --gpu H200 --command "vllm serve Qwen/Qwen3-8B" metrics.txt
    oomph learn --list
    oomph learn --forget 3
    """
    from oomph.machine.learn import store

    if forget:
        number = store.forget(forget)
        print(
            f'{{"schema": 1, "forgotten": {number}}}'
            if as_json
            else f"{number} start{'' if number == 1 else 's'} forgotten"
        )
        return 0
    if show:
        _print(store.starts(), as_json, listed=True)
        return 0
    if not logs:
        raise CommandError("no log to learn from", hint="oomph learn server.log, oomph learn --list")
    starts, codes = [], [0]
    for log in logs:
        start, code = _learn(log, gpu, engine, words)
        starts += [start] if start is not None else []
        codes.append(code)
    _print(starts, as_json)
    return max(codes)


def _learn(log: str, gpu: str | None, engine: str, words: str) -> "tuple[Start | None, int]":
    """A log that says nothing does not end the others: why, and 3."""
    from oomph.api import learn

    try:
        return learn(log, gpu=gpu or "auto", engine=engine, command=words), 0
    except OomphError as refused:
        print(f"{log}: not learnt: {refused.message}", file=sys.stderr)
        if refused.hint:
            print(f"  hint: {refused.hint}", file=sys.stderr)
        return None, refused.exit_code


def _print(starts: "Sequence[Start]", as_json: bool, *, listed: bool = False) -> None:
    if as_json:
        from oomph.report.contract.several import learn_output
        from oomph.report.json import dumps

        print(dumps(learn_output(starts)))
    elif listed:
        from oomph.report.screens.learn import list_lines

        print("\n".join(list_lines(starts)))
    else:
        print("".join(start.text() for start in starts), end="")
