"""`oomph explain LOG...`: why did it die, and what really fixes it."""

import os
import sys
from typing import TYPE_CHECKING

import click

from oomph.cli.options import BesideCommand, html_option, write_html
from oomph.errors import InputError

if TYPE_CHECKING:
    from oomph.doctor.posts import Thread
    from oomph.doctor.thread import ThreadExplanation

_LARGEST_THREAD = 16 << 20


@click.command("explain", cls=BesideCommand, short_help="Why did it die? What really fixes it?")
@click.argument("logs", nargs=-1, metavar="LOG...")
@click.option("--json", "as_json", is_flag=True, help="Print the explanation as JSON.")
@click.option("--gpu", help='The GPUs, if the log does not tell: "2x RTX 5070 Ti".')
@click.option("--engine", help="The engine and its version, if the log does not tell: vllm==0.21.0.")
@click.option("--all", "everything", is_flag=True, help="Every remedy, every rejected advice, every candidate.")
@click.option("--no-plan", is_flag=True, help="Do not plan the remedies.")
@html_option
@click.option("--rule", metavar="ID", help="Print the page of a rule, such as P05, instead.")
@click.pass_context
def explain(
    ctx: click.Context,
    logs: tuple[str, ...],
    as_json: bool,
    gpu: str | None,
    engine: str | None,
    everything: bool,
    no_plan: bool,
    html: str | None,
    rule: str | None,
) -> None:
    """Understand the log of a run that died (or did not).

    LOG is a file, a .gz, several of them in order, or - for standard input. What the log does not say can be given:
    --gpu, --engine, and the command behind --. A GitHub issue as it was saved (its JSON, or the copied page) will do
    too: every post's log is explained, and the answer is a comment to paste.

        oomph explain server.log --gpu "RTX 5090" -- vllm serve MODEL ...
    """
    if rule:
        from oomph.cli.commands.rule import rule_page

        print(rule_page(rule), end="")
        return
    from oomph.doctor.beside import read_command
    from oomph.doctor.explain import explain_raw
    from oomph.logs.reader import read_paths

    command = ctx.meta.get("oomph.command") or ()
    thread = _thread(logs)
    if thread is not None:
        from oomph.doctor.thread import explain_thread

        about = explain_thread(thread, gpus=gpu or "", engine=engine, command=command, plan=not no_plan)
        print(about.to_json(indent=1) if as_json else _shown(about, everything), end="\n" if as_json else "")
        return
    raw = read_paths(_paths(logs))
    deployment, notes = read_command(command, engine) if command or engine else (None, ())
    result = explain_raw(raw, deployment=deployment, gpus=gpu or "", notes=notes, plan=not no_plan)
    if html is not None:
        from oomph.doctor.runs import explain_raw_runs

        runs = explain_raw_runs(raw, deployment=deployment, gpus=gpu or "", notes=notes, plan=not no_plan)
        write_html(html, "runs", runs, "oomph explain")
    if as_json:
        print(result.to_json(indent=1))
        return
    from oomph.report.screens.explain import text
    from oomph.report.terminal import columns

    width = columns()
    print(text(result, width=width, everything=everything), end="")


def _thread(logs: tuple[str, ...]) -> "Thread | None":
    """A saved issue instead of a log: its JSON, or the page as it was copied. Small files only; a log is never read."""
    names = [name for name in logs if name != "-" and os.path.isfile(name) and os.path.getsize(name) < _LARGEST_THREAD]
    if not names or len(names) < len(logs):
        return None
    from oomph.doctor.posts import read_thread

    texts = []
    for name in names:
        try:
            with open(name, encoding="utf-8", errors="replace") as file:
                texts.append(file.read(_LARGEST_THREAD))
        except OSError:
            return None
    return read_thread(texts)


def _shown(about: "ThreadExplanation", everything: bool) -> str:
    from oomph.report.terminal import columns

    return about.text(width=columns(), everything=everything)


def _paths(logs: tuple[str, ...]) -> tuple[str, ...]:
    if not logs and sys.stdin.isatty():
        raise InputError("no log given: name a file, or - for standard input", hint="oomph explain server.log")
    return logs or ("-",)


command = explain
