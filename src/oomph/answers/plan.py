"""plan(): a serve command on some GPUs, foreseen.

plan("vllm serve meta-llama/Llama-3.1-8B-Instruct", gpu="RTX 4090")
plan(deployment)                      what the command parsers or explain() have built
plan(deployment, model=model)         with a model that is loaded already
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from oomph.answers.bare_plan import capability_notes, load, parse, parse_given, run, with_gpus, with_margin
from oomph.answers.host import with_ram
from oomph.engines.protocol import fills
from oomph.engines.registry import DEFAULT, engine_of
from oomph.errors import CommandError, OomphError
from oomph.ir import Advice, Deployment, Device, Engine, Lever, Model, Plan
from oomph.sources.gpu import live_gpu_here
from oomph.sources.place import looking, unknown_to_the_hub
from oomph.units import MIB, parse_ram

if TYPE_CHECKING:
    from oomph.advice.judge import Judge
    from oomph.advice.what_if import WhatIf

Planner = Callable[[Deployment], Plan]


def plan(
    command: str | Sequence[str] | Deployment,
    *,
    gpu: object = None,
    engine: str = "",
    given: Mapping[str, int | str] | None = None,
    compile_cache: str = "",
    model: Model | None = None,
    margin: int | str = 0,
    ram: int | str = 0,
    own_build: bool = False,
    advise: bool = True,
) -> Plan:
    """`gpu`: as --gpu takes it, or the JSON form; None = the live GPUs, or those the deployment has.

    `advise` also plans what would help: Plan.advice.
    `ram`: host memory of one node, "64GB"; by default this machine's where the GPUs are this machine's.
    `own_build`: the engine was built from source, with code for cards that its published packages have none for.
    `margin` is room that must be left at every stage, whatever the intervals: bytes, "1GiB", or "5%" of the card.
    """
    deployment = command if isinstance(command, Deployment) else _read(command, engine, gpu)
    stated = deployment.gpus or deployment.gpu_name or (deployment.gpu_mention and not live_gpu_here())
    live = gpu is None and not stated
    if gpu is not None or not deployment.gpus:
        deployment = with_gpus(deployment, gpu)
    if given:
        deployment = replace(deployment, given={**deployment.given, **parse_given(given, engine_of(deployment).terms)})
    if compile_cache:
        if compile_cache not in ("cold", "warm"):
            raise CommandError(f"compile cache {compile_cache!r}: it is cold or warm")
        deployment = replace(deployment, compile_cache=compile_cache)
    if own_build:
        deployment = replace(deployment, own_build=True)
    size = parse_ram(ram) if isinstance(ram, str) and ram else int(ram or 0)
    plan = run(with_ram(deployment, size, live=live), model)
    plan = with_margin(plan, margin) if margin else plan
    return with_advice(plan, model) if advise else plan


def _read(command: str | Sequence[str], engine: str, gpu: object) -> Deployment:
    try:
        return parse(command, engine)
    except CommandError as error:
        from oomph.answers.respelled import with_right_spelling

        def planner(words: list[str]) -> Plan:
            return plan(words, gpu=gpu, engine=engine, advise=False)

        words = command.split() if isinstance(command, str) else command
        raise with_right_spelling(error, words, planner) from None


def with_advice(plan: Plan, model: Model | None = None) -> Plan:
    """The plan with what would help."""
    with looking(plan.deployment.place):
        return _with_advice(plan, model)


def _with_advice(plan: Plan, model: Model | None) -> Plan:
    from oomph.advice.advise import advise as give_advice, is_usable

    engine = engine_of(plan.deployment)
    if not plan.ranks:
        return replace(plan, advice=_way_out(plan, model))
    levers, why = tuple(engine.levers(plan, model)), engine.reasons(plan, model)
    judge = _judge(plan, model)
    advice = give_advice(judge, levers, why, next_step(plan))
    if plan.verdict.outcome != "fits":
        from oomph.search.offer import context_asked

        if not is_usable(judge, advice.fixes, context_asked(plan.deployment)):
            advice = _with_fits_answer(judge, advice)
    return replace(plan, advice=advice)


def _way_out(plan: Plan, model: Model | None) -> Advice:
    """Of a refusal: what is nearest to the command; where nothing is, the command that searches further."""
    from oomph.advice.refused import refusal_advice
    from oomph.search.offer import change_of_engine

    engine, judge = engine_of(plan.deployment), _judge(plan, model)

    def memory_levers(after: Plan) -> Iterable[Lever]:
        return engine.levers(after, model if after.deployment.model == plan.deployment.model else None)

    advice = refusal_advice(judge, model or _readable(plan.deployment.model), memory_levers)
    is_named = not unknown_to_the_hub(plan.deployment.model)
    if is_named and not advice.fixes and engine.asks_the_hub and plan.deployment.gpus:
        change = change_of_engine(plan)
        if change is not None and (judged := judge.judge(change)).effect == "fixes":
            return replace(advice, fixes=(judged,))
    return replace(advice, next_step=next_step(plan)) if is_named and not advice.fixes else advice


def _readable(name: str) -> Model | None:
    try:
        return load(name)
    except OomphError:
        return None


def _with_fits_answer(judge: "Judge", advice: Advice) -> Advice:
    """Where no flag, or only other hardware or slower steps would do: what fit finds on the same GPUs, first."""
    from oomph.search.offer import change_by_fit

    if judge.before.verdict.first_to_break == "host_ram":
        return advice
    change = change_by_fit(judge.before)
    if change is None or (judged := judge.judge(change)).effect != "fixes":
        return advice
    others = [fix for fix in advice.fixes if fix.command != judged.command]
    return replace(advice, fixes=(judged, *others), next_step="")


def try_changes(plan: Plan) -> "WhatIf":
    """Every setting of every lever, planned alone."""
    from oomph.advice.what_if import what_if

    with looking(plan.deployment.place):
        return what_if(_judge(plan, None), tuple(engine_of(plan.deployment).levers(plan)))


def _judge(plan: Plan, model: Model | None) -> "Judge":
    from oomph.advice.ceiling import share_ceiling
    from oomph.advice.judge import Judge
    from oomph.commands import to_shell

    def run_changed(deployment: Deployment) -> Plan:
        return run(deployment, model if deployment.model == plan.deployment.model else None)

    return Judge(plan, run_changed, to_shell, share_ceiling(plan))


def _card_words(device: Device) -> str:
    """The card as --gpu takes it, with what else is on it."""
    return f"{device.name} used {device.reading // MIB}MiB" if device.reading else device.name


def next_step(plan: Plan) -> str:
    """Where no change of this command is enough: the command that searches further."""
    from oomph.commands.call import quote

    cards = Counter(map(_card_words, plan.deployment.gpus))
    gpus = " + ".join(f"{number}x {name}" if number > 1 else name for name, number in cards.items())
    model, own = quote(plan.deployment.model), engine_of(plan.deployment)
    is_searched = any(fills(own, method) for method in ("fit_knobs", "ways"))
    engine = f" --engine {own.name}" if own.name != DEFAULT and is_searched else ""
    return f"oomph fit {model} --gpu {quote(gpus)}{engine}, or oomph gpus {model}{engine}"


__all__ = ["Device", "Engine", "Plan", "capability_notes", "load", "parse", "plan", "run", "with_gpus"]
