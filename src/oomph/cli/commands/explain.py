"""`oomph explain LOG...`: why did it die, and what really fixes it."""

import os
import sys
from typing import TYPE_CHECKING

import click

from oomph.cli.options import BesideCommand, html_option
from oomph.cli.show import show
from oomph.errors import InputError
from oomph.ir.timeline import STAGES, StageName

if TYPE_CHECKING:
    from oomph.doctor.explanation import Explanation
    from oomph.doctor.threads.posts import Thread

_LARGEST_THREAD = 16 << 20
_LONGEST_REPLY = 100  # characters


@click.command("explain", cls=BesideCommand, short_help="Why did it die? What really fixes it?")
@click.argument("logs", nargs=-1, metavar="LOG...")
@click.option("--json", "as_json", is_flag=True, help="Print the explanation as JSON.")
@click.option("--gpu", help='The GPUs, if the log does not tell: "2x RTX 5070 Ti".')
@click.option("--engine", help="The engine and its version, if the log does not tell: vllm==0.21.0.")
@click.option("--all", "everything", is_flag=True, help="Every remedy, every rejected advice, every candidate.")
@click.option("--stage", type=click.Choice(STAGES), help="Where it failed, if you know: the answer to the question.")
@click.option("--no-input", is_flag=True, help="Ask nothing, also on a terminal.")
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
    stage: StageName | None,
    no_input: bool,
    no_plan: bool,
    html: str | None,
    rule: str | None,
) -> None:
    """Understand the log of a run that died (or did not).

    LOG is a file, a .gz, several of them in order, or - for standard input. What the log does not say can be given:
    --gpu, --engine, and the command behind --. A GitHub issue as it was saved (its JSON, or the copied page) will do
    too: every post's log is explained, and the answer is a comment to paste. So will a memory snapshot of PyTorch
    (torch.cuda.memory._dump_snapshot): it says what was allocated where.

        oomph explain server.log --gpu "RTX 5090" -- vllm serve MODEL ...
    """
    if rule:
        from oomph.cli.commands.rule import rule_page

        print(rule_page(rule), end="")
        return
    from oomph.doctor.beside import read_command
    from oomph.doctor.explain import explain_raw, explain_snapshot
    from oomph.logs.reader import read_paths
    from oomph.logs.snapshot import is_snapshot

    command = ctx.meta.get("oomph.command") or ()
    from_torch = len(logs) == 1 and is_snapshot(logs[0])
    thread = None if from_torch else _thread(logs)
    if thread is not None:
        from oomph.doctor.threads.thread import explain_thread

        about = explain_thread(thread, gpus=gpu or "", engine=engine, command=command, plan=not no_plan)
        show(about, as_json=as_json, everything=everything)
        return
    deployment, notes = read_command(command, engine) if command or engine else (None, ())
    if from_torch:
        about_memory = explain_snapshot(logs[0], deployment=deployment, gpus=gpu or "", notes=notes, plan=not no_plan)
        show(about_memory, as_json=as_json, everything=everything)
        return
    raw = read_paths(_paths(logs))

    def explain_at(stage: StageName | None) -> "Explanation":
        return explain_raw(raw, deployment=deployment, gpus=gpu or "", notes=notes, plan=not no_plan, stage=stage)

    result = explain_at(stage)
    if html is not None:
        from oomph.doctor.runs import explain_raw_runs
        from oomph.report.screens.explain import answers
        from oomph.web.document import write_answers

        runs = explain_raw_runs(raw, deployment=deployment, gpus=gpu or "", notes=notes, plan=not no_plan, stage=stage)
        write_answers(answers(runs), html)
    show(result, as_json=as_json, everything=everything)
    if as_json or no_input or "-" in logs or not logs:
        return
    if (decided := _ask(result)) is not None:
        show(explain_at(decided), as_json=False, everything=everything)


def _ask(result: "Explanation") -> StageName | None:
    """The stage that the user's answer decides. Only where somebody sits before a terminal: nothing else ever waits."""
    if result.question is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    print(f"\n  {result.question.text} [y/n, Enter skips] ", end="", flush=True)
    try:
        reply = sys.stdin.readline(_LONGEST_REPLY).strip().lower()
    except (KeyboardInterrupt, OSError, ValueError):
        print()
        return None
    return next((stage for word, stage in result.question.answers.items() if reply in (word, word[:1])), None)


def _thread(logs: tuple[str, ...]) -> "Thread | None":
    """A saved issue instead of a log: its JSON, or the page as it was copied. Small files only; a log is never read."""
    names = [name for name in logs if name != "-" and os.path.isfile(name) and os.path.getsize(name) < _LARGEST_THREAD]
    if not names or len(names) < len(logs):
        return None
    from oomph.doctor.threads.posts import read_thread

    texts = []
    for name in names:
        try:
            with open(name, encoding="utf-8", errors="replace") as file:
                texts.append(file.read(_LARGEST_THREAD))
        except OSError:
            return None
    return read_thread(texts)


def _paths(logs: tuple[str, ...]) -> tuple[str, ...]:
    if not logs and sys.stdin.isatty():
        raise InputError("no log given: name a file, or - for standard input", hint="oomph explain server.log")
    return logs or ("-",)


command = explain
