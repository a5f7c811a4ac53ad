"""`oomph run -- vllm serve ...`: plan, start, show predicted next to actual, and on failure explain at once."""

import os
import sys
from typing import Any

import click

from oomph.errors import CommandError, OomphError


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--gpu", metavar="GPUS", help="The GPUs; the live ones by default.")
@click.option("--engine", metavar="NAME==VERSION", default="", help="The engine's release, if it cannot be seen.")
@click.option("--force", is_flag=True, help="Start even what cannot fit.")
@click.option(
    "--snapshot", metavar="FILE", help="Where vLLM dies, PyTorch's record of what was allocated (oomph-vllm)."
)
@click.option("--retry", is_flag=True, help="After a failure start again with the best verified remedy, once.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND")
def command(
    gpu: str | None, engine: str, force: bool, snapshot: str | None, retry: bool, words: tuple[str, ...]
) -> int:
    """Start a server with its memory foreseen.

    \b
    oomph run -- vllm serve Qwen/Qwen3-8B --max-model-len 32768
    """
    if not words:
        raise CommandError("no command to run", hint="oomph run -- vllm serve MODEL")
    if not hasattr(os, "killpg"):
        hint = (
            "in WSL, where vLLM runs, it does; here: oomph plan -- COMMAND before the start, oomph explain LOG after it"
        )
        raise CommandError(
            "oomph run passes signals on to a group of processes, which Windows does not have", hint=hint
        )
    plan = _plan(list(words), gpu, engine)
    if plan is not None and not plan.fits:
        if not force:
            from oomph.report.views import print_answer

            print_answer(plan, sys.stderr)
            _say("not started; --force starts it all the same")
            return 1
        from oomph.ir.timeline import STAGE_WORDS

        _say(f"will not start, it dies {STAGE_WORDS[plan.verdict.stage or 'other'][1]}; started all the same (--force)")
    if snapshot:
        _record(snapshot)
    code, text = _start(list(words), plan)
    if code == 0 or code in (130, 143):
        return code
    if snapshot:
        _say_recorded(snapshot)
    remedy = _explain(text, plan)
    if retry and remedy:
        import shlex

        _say(f"again with: {remedy}")
        code, text = _start(shlex.split(remedy), None)
        if code not in (0, 130, 143):
            _explain(text, None)
    return code


_VARIABLE = "OOMPH_SNAPSHOT"  # which the plugin inside of vLLM reads


def _record(path: str) -> None:
    """The engine records its own memory: its plugin has to be where the engine is."""
    from importlib.util import find_spec

    os.environ[_VARIABLE] = os.path.abspath(path)
    if find_spec("oomph_vllm") is None:
        _say("--snapshot needs oomph-vllm beside vLLM: pip install oomph-vllm (not seen here; started all the same)")


def _say_recorded(path: str) -> None:
    if os.path.exists(path):
        _say(f"its memory when it died: oomph explain {path}")
    else:
        _say(f"no snapshot was written to {path}: nothing of the engine recorded it")


def _plan(words: list[str], gpu: str | None, engine: str) -> Any:
    """A command that cannot be planned is started all the same, and said to be so."""
    from oomph.answers.plan import plan
    from oomph.machine.learn.apply import learned

    try:
        foreseen = plan(words, gpu=gpu, engine=engine)
        again = learned(foreseen)
        foreseen = plan(again) if again is not foreseen.deployment else foreseen
    except OomphError as refused:
        _say(f"not planned: {refused.message}")
        return None
    if foreseen.fits and foreseen.kv is not None:
        _say(f"fits: {foreseen.kv.logged_tokens:,} tokens of KV cache foreseen")
    for note in foreseen.warnings:
        _say(note)
    return foreseen


def _start(words: list[str], plan: Any) -> tuple[int, str]:
    from oomph.machine.launch.child import Kept, run_child
    from oomph.machine.launch.watch import Watch

    record, watch = Kept(), Watch(plan, _say)

    def on_line(line: bytes) -> None:
        record.add(line)
        watch.line(line)

    code = run_child(words, on_line)
    if plan is not None:
        _learn(record.text(), plan)
    return code, record.text()


def _learn(text: str, plan: Any) -> None:
    """Of a start that worked; never in the way of anything."""
    from oomph.machine.learn import store
    from oomph.machine.learn.start import read_start

    try:
        start = read_start(text, plan.deployment.gpus, plan.deployment, "oomph run")
    except OomphError:
        return
    store.remember(start)


def _explain(text: str, plan: Any) -> str:
    """Print why it died; the command of the best verified remedy, "" where there is none."""
    from oomph.doctor.explain import explain

    deployment = plan.deployment if plan is not None else None
    try:
        explanation = explain(text, deployment=deployment, gpus=deployment.gpus if deployment else ())
    except OomphError as unknown:
        _say(f"the log does not tell why: {unknown.message}")
        return ""
    sys.stderr.write(explanation.text(width=100) + "\n")
    return next((r.command for r in explanation.remedies if r.verified and r.command), "")


def _say(sentence: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(f"oomph: {sentence}\n")
    sys.stderr.flush()
