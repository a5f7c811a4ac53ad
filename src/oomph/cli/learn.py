"""`oomph learn LOG...`: what a start that worked measured here counts in later plans of its kind."""

from __future__ import annotations

import sys

import click

from oomph.errors import CommandError, OomphError


@click.command(context_settings={"allow_interspersed_args": True})
@click.option("--gpu", metavar="GPUS", help="The GPUs of those starts; the live ones by default.")
@click.option("--engine", metavar="NAME==VERSION", default="", help="The engine's release, if the log does not say.")
@click.option("--command", "words", metavar="COMMAND", default="", help="What was started, if the log does not say.")
@click.option("--list", "show", is_flag=True, help="What was learnt, newest first.")
@click.option("--forget", metavar="NUMBERS|all", default="", help="Unlearn: numbers as --list shows them, or all.")
@click.argument("logs", nargs=-1, metavar="LOG...")
def command(gpu: str | None, engine: str, words: str, show: bool, forget: str, logs: tuple[str, ...]) -> int:
    """Count what a start here measured. Takes logs, vLLM's startup plans and its /metrics.

    \b
    oomph learn server.log
    oomph learn --gpu H200 --command "vllm serve Qwen/Qwen3-8B" metrics.txt
    oomph learn --list
    oomph learn --forget 3
    """
    from oomph.learn import store

    if forget:
        print(f"{store.forget(forget)} starts forgotten")
        return 0
    if show:
        from oomph.report.learn_text import list_lines

        sys.stdout.write("\n".join(list_lines(store.starts())) + "\n")
        return 0
    if not logs:
        raise CommandError("no log to learn from", hint="oomph learn server.log, oomph learn --list")
    return max(_learn(log, gpu, engine, words) for log in logs)


def _learn(log: str, gpu: str | None, engine: str, words: str) -> int:
    """0: learnt; 3: not, and why."""
    from oomph.commands import files
    from oomph.learn import place, store
    from oomph.learn.start import read_metrics, read_start
    from oomph.plan import parse
    from oomph.report.learn_text import start_lines
    from oomph.sources.gpu import parse_gpus

    try:
        text = files.read(log)
        cards = parse_gpus(gpu or "auto")
        deployment = parse(words, engine) if words else None
        start = read_metrics(text, deployment, cards, log) if deployment is not None else None
        start = start or read_start(text, cards, deployment, log)
    except OomphError as refused:
        print(f"{log}: not learnt: {refused.message}", file=sys.stderr)
        if refused.hint:
            print(f"  hint: {refused.hint}", file=sys.stderr)
        return refused.exit_code
    if not store.remember(start):
        raise CommandError(f"{place.path()} cannot be written")
    sys.stdout.write("\n".join(start_lines(start)) + "\n")
    return 0
