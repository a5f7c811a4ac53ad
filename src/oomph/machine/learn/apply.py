"""A plan that knows what was measured before: terms pinned to what starts of the same kind showed."""

from collections.abc import Sequence

from msgspec.structs import replace

from oomph.ir import Deployment, Device, Measured, Model, Plan, Term
from oomph.machine.learn.start import OVERHEAD, ROUNDING, Start, class_of, is_plausible, machine_of, settings_of
from oomph.machine.learn.statistics import AGREEING, summarised
from oomph.machine.learn.store import starts
from oomph.units import human

# What a machine and a release decide, whatever the model; the other terms need the same model class and settings.
_OF_MACHINE = ("context", "non_torch")


def learned(plan: Plan) -> Deployment:
    """The plan's deployment with what was measured here; itself where nothing was."""
    deployment = plan.deployment
    if not plan.ranks or not deployment.gpus or "available_kv" in deployment.given:
        return deployment
    engine = deployment.engine
    candidates = starts(machine_of(_empty(plan)), engine.name, engine.version)
    return with_measured(plan, candidates) if candidates else deployment


def _empty(plan: Plan) -> tuple[Device, ...]:
    gpus = plan.deployment.gpus
    return tuple(replace(card, used_bytes=0) if card.system is None else card for card in gpus)


def with_measured(plan: Plan, candidates: Sequence[Start], model: Model | None = None) -> Deployment:
    from oomph.sources.load import load_once

    model = model or load_once(plan.deployment.model)
    kind, settings = class_of(model), settings_of(plan)
    same = [start for start in candidates if start.model_class == kind and start.settings == settings]
    alike = [start for start in candidates if start.settings.split()[0] == settings.split()[0]]
    terms = plan.ranks[0].terms
    measured: dict[str, Measured] = {}
    doubted: dict[str, int] = {}
    for name in ("context", "non_torch", "activation_peak", "cudagraph"):
        if name in terms and name not in plan.deployment.given:
            value, ignored = _pinned(terms[name], alike if name in _OF_MACHINE else same)
            measured |= {name: value} if value is not None else {}
            doubted |= {name: ignored} if ignored else {}
    if "activation_peak" not in measured and "activation_peak" not in plan.deployment.given:
        values, ignored = _from_sum(terms, same)
        measured |= values
        doubted |= {"activation_peak": ignored} if ignored else {}
    if not measured:
        notes = (*plan.deployment.notes, *_doubts(doubted))
        return replace(plan.deployment, notes=notes) if doubted else plan.deployment
    counted = max(value.starts for value in measured.values())
    names = ", ".join(_WORDS[name] for name in measured)
    note = f"as measured here on {counted} start{'s' if counted > 1 else ''}: {names} (oomph learn --list)"
    notes = (*plan.deployment.notes, note, *_corrections(terms, measured), *_doubts(doubted))
    return replace(plan.deployment, measured={**plan.deployment.measured, **measured}, notes=notes)


_WORDS = {
    "context": "CUDA context", "non_torch": "memory outside PyTorch", "activation_peak": "activations",
    "cudagraph": "CUDA graphs",
}  # fmt: skip


def _corrections(terms: dict[str, Term], measured: dict[str, Measured]) -> list[str]:
    """Where starts agree with each other and not with the plan, they are right, and the plan says so."""
    return [
        f"{value.starts} starts here agree with each other and not with the formula, and count instead of it: "
        f"{_WORDS[name]} {human(value.bytes)}, not {human(terms[name].bytes)}"
        for name, value in measured.items()
        if value.starts >= AGREEING and not is_plausible(value.bytes, terms[name].low, terms[name].high)
    ]


def _doubts(doubted: dict[str, int]) -> list[str]:
    return [
        f"measured here, far outside this plan's interval and not counted: {_WORDS[name]} of {count} "
        f"start{'s' if count > 1 else ''} ({AGREEING} that agree with each other correct the plan)"
        for name, count in doubted.items()
    ]


def _pinned(term: Term, candidates: Sequence[Start]) -> tuple[Measured | None, int]:
    """What these starts prove of a term, and how many of their figures are not counted."""
    sizes = [figure.bytes for start in candidates for figure in start.figures if figure.term == term.name]
    return summarised(sizes, term.low, term.high)


def _from_sum(terms: dict[str, Term], candidates: Sequence[Start]) -> tuple[dict[str, Measured], int]:
    """Activations and memory outside PyTorch from their sum: the second as planned, the first takes the difference."""
    activation, outside = terms["activation_peak"], terms["non_torch"]
    sums = [figure.bytes for start in candidates for figure in start.figures if figure.term == OVERHEAD]
    both, ignored = summarised(sums, activation.low + outside.bytes, activation.high + outside.bytes, 2 * ROUNDING)
    if both is None:
        return {}, ignored
    rest = max(0, both.bytes - outside.bytes)
    own = Measured(rest, max(0, both.low - outside.bytes), max(rest, both.high - outside.bytes), both.starts)
    other = both.bytes - rest
    return {"activation_peak": own, "non_torch": Measured(other, other, other, both.starts)}, ignored
