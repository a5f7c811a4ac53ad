"""total = others + context + weights + activations + graphs + KV + free + unaccounted, from what the log says."""

from collections.abc import Sequence

from msgspec import Struct

from oomph.doctor.reading.meanings import ORDER
from oomph.doctor.reading.stages import Death
from oomph.ir.observation import Observation

# where each term of the budget may stand, the best source first
TERMS = (
    ("weights", (("weights", "weights"), ("ledger", "weights"), ("v0_terms", "weights"),
                 ("memory_profile", "weights"), ("tr_weights", "weights"), ("tr_created", "weights"))),
    ("consumed", (("ledger", "consumed"), ("memory_profile", "consumed"))),
    ("activations", (("ledger", "activation"), ("v0_terms", "activation"), ("memory_profile", "activation"),
                     ("tr_activation", "activation"))),
    ("context", (("ledger", "non_torch"), ("v0_terms", "non_torch"), ("memory_profile", "non_torch"),
                 ("tr_outside", "outside"), ("tr_non_torch", "non_torch"))),
    ("graphs", (("graphs", "graphs"), ("graph_pool", "actual"), ("ledger", "graphs"), ("graph_estimate", "estimate"))),
    ("kv", (("available_kv", "available"), ("kv_need", "available"), ("v0_terms", "available"),
            ("v0_results", "available"), ("ledger", "available"), ("tr_kv", "kv"), ("tr_budget", "available"))),
)  # fmt: skip


class Entry(Struct, frozen=True):
    term: str
    bytes: int
    basis: str  # "log line 41", "log line 41 - log line 12", "the plan"


class Account(Struct, frozen=True):
    """One GPU's memory when the log ends, or dies."""

    total: int
    entries: tuple[Entry, ...]
    unaccounted: int | None
    budget: int  # total x utilization
    util: float

    def get(self, term: str) -> int | None:
        return next((e.bytes for e in self.entries if e.term == term), None)


def number(observation: Observation | None, name: str) -> int | None:
    value = observation.values.get(name) if observation else None
    return int(value) if isinstance(value, (int, float)) else None


def last(observations: Sequence[Observation], kind: str, name: str = "") -> Observation | None:
    return next(
        (
            observation
            for observation in reversed(observations)
            if observation.kind == kind and (not name or name in observation.values)
        ),
        None,
    )


def fullest_oom(observations: Sequence[Observation]) -> Observation | None:
    """PyTorch's first sentence that says who held the card; its allocator may warn before, with what is free."""
    ooms = [observation for observation in observations if observation.kind == "torch_oom"]
    return next((oom for oom in ooms if "in_use" in oom.values or "allocated" in oom.values), ooms[0] if ooms else None)


def account(observations: Sequence[Observation], death: Death, util: float | None) -> Account:
    oom = fullest_oom([observation for observation in observations if "total" in observation.values])
    if oom is not None and death.failed:
        return _at_oom(observations, oom, death, util)
    return _at_rest(observations, util)


def _figure(observations: Sequence[Observation], *places: tuple[str, str]) -> tuple[int, str] | None:
    for kind, name in places:
        observation = last(observations, kind, name)
        value = number(observation, name)
        if observation is not None and value is not None:
            return value, f"log line {observation.line}"
    return None


def _at_oom(observations: Sequence[Observation], oom: Observation, death: Death, util: float | None) -> Account:
    """PyTorch's own sentence names the parts of the card; the engine's lines say what PyTorch held."""
    basis = f"log line {oom.line}"
    total = number(oom, "total") or 0
    util = _figure_util(observations) or util
    free, in_use = number(oom, "free"), number(oom, "in_use")
    allocated, reserved = number(oom, "allocated"), number(oom, "reserved") or 0
    entries = []
    others = number(oom, "others") or 0
    # PyTorch names other processes only where it may look at them: its list may lack a tenth of the card
    if in_use and free is not None and total - free - in_use - others > total // (10 if others else 100):
        others = total - free - in_use
    if others:
        entries.append(Entry("others", others, basis))
    if in_use and allocated is not None:
        context = max(0, in_use - allocated - reserved)
        entries.append(Entry("context", context, f"{basis}: in use - allocated - reserved"))
    if allocated is not None:
        entries += _inside_torch(observations, oom, allocated, death)
        entries.append(Entry("reserved", reserved, f"{basis}: cached by PyTorch, not in use"))
    else:  # a cut line or a title: the engine's own lines say what there was
        entries += [e for e in _at_rest(observations, util).entries if e.term != "others"]
    if free is not None:
        entries.append(Entry("free", free, basis))
    whole = in_use is not None and allocated is not None and free is not None
    rest = total - sum(e.bytes for e in entries) if whole else None
    return Account(total, tuple(entries), rest, round(total * util) if util else 0, util or 0.0)


def _inside_torch(observations: Sequence[Observation], oom: Observation, allocated: int, death: Death) -> list[Entry]:
    before = [observation for observation in observations if observation.line < oom.line]
    basis = f"log line {oom.line}"
    weights = _figure(before, ("weights", "weights"))
    if weights is None:
        stage = death.stage or "other"
        name = "weights" if ORDER.index(stage) <= ORDER.index("weights_load") and stage != "other" else "torch"
        return [Entry(name, allocated, f"{basis}: allocated so far")]
    entries = [Entry("weights", *weights)]
    rest = allocated - weights[0]
    pools = number(oom, "pools")
    if pools:
        entries.append(Entry("graphs", pools, f"{basis}: private pools"))
        rest -= pools
    kv = _figure(before, ("available_kv", "available"), ("manual_kv", "kv"))
    late = death.stage in ("kv_alloc", "cudagraph_capture", "sampler_warmup", "runtime_request")
    if kv and late and 0 < kv[0] <= rest:
        entries.append(Entry("kv", *kv))
        rest -= kv[0]
    tried = number(oom, "tried") or 0
    if death.stage == "cudagraph_profile" and tried and rest >= tried:
        count = rest // tried
        entries.append(Entry("profiling_kv", count * tried, f"{basis}: {count} tensors of the size that failed"))
        rest -= count * tried
    if rest > 0:
        entries.append(Entry("activations", rest, f"{basis}: allocated - the terms above"))
    return entries


def _at_rest(observations: Sequence[Observation], util: float | None) -> Account:
    """A run that died on a check, or did not die: the terms of the budget, and what is outside of it."""
    total = _figure(
        observations,
        *(
            (kind, "total")
            for kind in (
                "ledger",
                "free_short",
                "v0_budget",
                "v0_results",
                "tr_total",
                "tr_budget",
                "tr_both",
                "tr_available",
            )
        ),
    )
    util = _figure_util(observations) or util
    entries = []
    for term, places in TERMS:
        value = _figure(observations, *places)
        if value:
            entries.append(Entry(term, *value))
    terms = {e.term for e in entries}
    if "consumed" in terms:  # weights and what is outside of PyTorch, together (gpu_worker.py, 0.27)
        entries = [e for e in entries if e.term not in ("weights", "context")]
    budget = round(total[0] * util) if total and util else 0
    rest = (
        budget - sum(e.bytes for e in entries if e.term != "graphs")
        if budget and {"kv"} <= terms and terms & {"weights", "consumed"}
        else None
    )
    return Account(total[0] if total else 0, tuple(entries), rest, budget, util or 0.0)


def _figure_util(observations: Sequence[Observation]) -> float | None:
    for kind in ("ledger", "free_short", "requested", "v0_budget", "graph_util", "v0_results", "graph_estimate_off"):
        observation = last(observations, kind, "util")
        if observation is not None:
            return float(observation.values["util"])
    return None
