"""A plan that knows what was measured before: terms pinned to what starts of the same kind showed."""

from collections.abc import Sequence
from statistics import median

from msgspec.structs import replace

from oomph.ir import Deployment, Device, Measured, Model, Plan, Term
from oomph.machine.learn.start import OVERHEAD, ROUNDING, Start, class_of, is_plausible, machine_of, settings_of
from oomph.machine.learn.store import starts

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
        measured |= _from_sum(terms, same)
    if not measured:
        return plan.deployment
    counted = max(value.starts for value in measured.values())
    names = ", ".join(_WORDS[name] for name in measured)
    note = f"as measured here on {counted} start{'s' if counted > 1 else ''}: {names} (oomph learn --list)"
    notes = (*plan.deployment.notes, note, *_doubts(doubted))
    return replace(plan.deployment, measured={**plan.deployment.measured, **measured}, notes=notes)


_WORDS = {
    "context": "CUDA context", "non_torch": "memory outside PyTorch", "activation_peak": "activations",
    "cudagraph": "CUDA graphs",
}  # fmt: skip


def _doubts(doubted: dict[str, int]) -> list[str]:
    doubt = "far outside this plan's interval, not trusted"
    return [f"measured here, {doubt}: {count} of the {_WORDS[name]}" for name, count in doubted.items()]


def _pinned(term: Term, candidates: Sequence[Start]) -> tuple[Measured | None, int]:
    """The median of what is plausible for this plan, and how many figures are not."""
    sizes = [figure.bytes for start in candidates for figure in start.figures if figure.term == term.name]
    plausible = [size for size in sizes if is_plausible(size, term.low, term.high)]
    if not plausible:
        return None, len(sizes)
    middle = round(median(plausible))
    low, high = min(*plausible, middle) - ROUNDING, max(*plausible, middle) + ROUNDING
    return Measured(middle, max(0, low), high, len(plausible)), len(sizes) - len(plausible)


def _from_sum(terms: dict[str, Term], candidates: Sequence[Start]) -> dict[str, Measured]:
    """Activations and memory outside PyTorch from their sum: the second as planned, the first takes the difference."""
    activation, outside = terms["activation_peak"], terms["non_torch"]
    low, high = activation.low + outside.low, activation.high + outside.high
    sums = [figure.bytes for start in candidates for figure in start.figures if figure.term == OVERHEAD]
    plausible = [size for size in sums if is_plausible(size, low, high)]
    if not plausible:
        return {}
    middle, rounding = round(median(plausible)), 2 * ROUNDING
    rest = max(0, middle - outside.bytes)
    own = Measured(rest, max(0, min(plausible) - outside.bytes - rounding), max(plausible) - outside.bytes + rounding,
                   len(plausible))  # fmt: skip
    other = middle - rest
    return {"activation_peak": own, "non_torch": Measured(other, other, other, len(plausible))}
