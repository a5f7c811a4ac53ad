"""`oomph diff`: two releases, two flag sets, two GPUs or two models side by side."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from oomph.errors import CommandError

if TYPE_CHECKING:
    from oomph.diff import Change
    from oomph.ir.deployment import Deployment


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--from", "before", metavar="NAME==VERSION", default="", help="The release now: vllm==0.21.0.")
@click.option("--to", "after", metavar="NAME==VERSION", default="", help="The release to go to: vllm==0.32.0.")
@click.option("--gpu", metavar="GPUS", help="The GPUs.")
@click.option("--to-gpu", metavar="GPUS", help="The GPUs to go to.")
@click.option("--with", "changed", metavar="'FLAGS'", default="", help="Flags to add or change on the second side.")
@click.option("--to-model", metavar="MODEL", default="", help="The model of the second side.")
@click.option("--users", "load", metavar="PROMPT,OUTPUT", help="Simulate too: the users held with such requests.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
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
    import shlex

    from msgspec.structs import replace

    from oomph.cli.words import deployment, exit_code
    from oomph.commands.call import choose_release
    from oomph.diff import diff
    from oomph.engines.registry import engine_of
    from oomph.plan import with_gpus

    first = with_gpus(deployment(words, before), gpu)
    try:
        more = shlex.split(changed)
    except ValueError as bad:
        raise CommandError(f"--with {changed!r}: {bad}") from None
    second = with_gpus(_with(first, more), to_gpu or gpu)
    lost: tuple[str, ...] = ()
    if after:
        engine = engine_of(second)
        second, lost = engine.at_release(second, choose_release(engine, after)[0].version)
    if to_model:
        second = replace(second, model=to_model)
    difference = diff(first, second, lost)
    if load is not None:
        difference = replace(difference, changes=(*difference.changes, *_users(first, second, load)))
    if as_json:
        import msgspec

        sys.stdout.write(msgspec.json.format(msgspec.json.encode(_json(difference)), indent=1).decode() + "\n")
    else:
        from oomph.report.diff_text import print_diff

        print_diff(difference)
    return exit_code(difference.after.verdict)


def _with(first: Deployment, more: list[str]) -> Deployment:
    """The same command with further flags behind it, wherever it was read from."""
    from msgspec.structs import replace

    from oomph.commands import parse_command, to_command

    if not more:
        return first
    if first.usage == "llm":
        raise CommandError("--with adds flags to a command line; this one is Python", hint="change the call itself")
    second = parse_command([*to_command(first), *more], engine=first.engine)
    return replace(second, gpus=first.gpus, gpu_count=first.gpu_count, notes=(*first.notes, *second.notes))


def _users(first: Deployment, second: Deployment, load: str) -> tuple[Change, ...]:
    """How many users each side holds (P95 of the first token within 2 s, no preemption)."""
    from oomph.diff import Change
    from oomph.simulate import api
    from oomph.simulate.workloads import Arrivals, Shape
    from oomph.units import parse_count

    prompt, _, output = load.partition(",")
    shape = Shape(parse_count(prompt, what="--users"), parse_count(output or "250", what="--users"))

    def held(deployment: Deployment) -> int:
        return api.search(api.prepare(deployment), api.Load(shape, Arrivals()), api.Target()).users

    return (Change("users_held", held(first), held(second)),)


def _json(difference: Any) -> dict[str, Any]:
    from msgspec import to_builtins

    from oomph.report.plan_json import plan_json

    return {
        "schema": 1,
        "before": plan_json(difference.before),
        "after": plan_json(difference.after),
        "changes": to_builtins(difference.changes),
        "steps": to_builtins(difference.steps),
        "flags": list(difference.flags),
    }
