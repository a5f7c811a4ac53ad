"""A log to the figures of one start, if it worked and if they are that model's.

A start that failed teaches nothing: what it printed was measured on the way down. A figure far outside the interval
that the plan gives it is shown and not trusted: a busy card, another model's log, a driver that counts otherwise.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.registry import DEFAULT, engine_named, engine_of
from oomph.errors import CannotPlan
from oomph.ir import Deployment, Device, Model, Plan, Term
from oomph.ir.printed import Printed
from oomph.text.nesting import bounded
from oomph.units import GIB, MIB, gib

ROUNDING = round(0.005 * GIB)  # engines print hundredths of a GiB
_TRUST = 1.0  # interval widths beyond either end that a figure may lie
_LEAST_WIDTH = 32 * MIB
_WEIGHTS_OFF = 0.06  # of the weights: more is another checkpoint
OVERHEAD = "overhead"  # activations and what is outside PyTorch, where a log tells only their sum


class Figure(Struct, frozen=True):
    term: str
    bytes: int
    predicted: int
    low: int
    high: int

    @property
    def is_trusted(self) -> bool:
        return is_plausible(self.bytes, self.low, self.high)


class Start(Printed, frozen=True):
    """One start that worked, and what it is a measurement of."""

    machine: str  # the cards: "H200 143156 MiB x1"
    engine: str
    version: str
    model: str  # as it was named, for people
    model_class: str
    settings: str
    figures: tuple[Figure, ...]
    source: str = ""  # the file
    at: float = 0.0  # seconds since 1970
    number: int = 0  # in the store
    digest: str = ""  # of the text that it was read from: the same log again is no second start

    def in_short(self) -> str:
        return f"{self.model} with {self.engine} {self.version} on {self.machine}: {len(self.figures)} figures"

    @property
    def key(self) -> tuple[str, str, str]:
        return self.machine, self.engine, self.version


def is_plausible(size: int, low: int, high: int) -> bool:
    beyond = max(_LEAST_WIDTH, round(_TRUST * (high - low)))
    return low - beyond <= size <= high + beyond


def machine_of(gpus: tuple[Device, ...]) -> str:
    """The cards without what is in use on them: a neighbour changes nothing of what a start takes."""
    counts: dict[str, int] = {}
    for device in gpus:
        name = f"{device.name} {device.total_bytes // MIB} MiB"
        counts[name] = counts.get(name, 0) + 1
    return " + ".join(f"{name} x{count}" for name, count in counts.items())


def class_of(model: Model) -> str:
    """What two checkpoints must share for one's figures to be the other's: all that decides an activation."""
    method = model.quantization.method if model.quantization else ""
    sizes = (len(model.layers), model.hidden_size, model.vocab_size, model.nbytes // MIB)
    return "/".join(map(str, (model.architecture, *sizes, method)))


_SETTINGS = (
    "max_num_batched_tokens", "max_num_seqs", "tensor_parallel_size", "pipeline_parallel_size",
    "enable_expert_parallel", "kv_cache_dtype", "dtype", "quantization", "model_runner", "cudagraph_mode",
    "cudagraph_capture_sizes", "attention_backends", "block_size",
)  # fmt: skip


def settings_of(plan: Plan) -> str:
    """The resolved settings that decide activations and graphs, as a digest; the first word is for people."""
    values = {name: plan.resolved.get(name) for name in _SETTINGS}
    digest = hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:12]
    return f"{'eager' if not values['cudagraph_capture_sizes'] else 'graphs'} {digest}"


def read_start(text: str, gpus: tuple[Device, ...], deployment: Deployment | None = None, source: str = "") -> Start:
    """The start that a log tells of. `deployment`: the command, where the log does not have it."""
    from oomph.doctor.explain import read_case

    case = read_case(text, gpus=gpus)
    if case.failed or not case.has("serving"):
        what = "the start failed" if case.failed else "no line shows that the server was up"
        raise CannotPlan(f"{what}: only a start that worked is learnt from")
    if deployment is None:
        deployment = engine_named(case.rebuilt.engine or DEFAULT).failed_deployment(case)
        if deployment is None:
            raise CannotPlan("the log does not say what was started", hint="oomph learn LOG -- vllm serve MODEL ...")
        deployment = replace(deployment, given={})
    elif case.version:
        deployment = at_version(deployment, case.version)
    start = start_of(deployment, gpus, values_of(case), source)
    return replace(start, digest=sha256(text.encode("utf-8", "replace")).hexdigest()[:32])


def at_version(deployment: Deployment, version: str) -> Deployment:
    """The release that the log names, not the one that was assumed."""
    release, _ = engine_of(deployment).nearest(version)
    return replace(deployment, engine=replace(deployment.engine, version=release, version_from="the log"))


def values_of(case: Any) -> dict[str, int]:
    """What the log prints, by our names."""
    rows = {
        "weights": (("weights", "weights"), ("ledger", "weights")),
        "activation_peak": (("ledger", "activation"), ("memory_profile", "activation")),
        "non_torch": (("ledger", "non_torch"), ("memory_profile", "non_torch")),
        "cudagraph": (("graph_estimate", "estimate"), ("graph_pool", "estimate")),
        "captured": (("graphs", "graphs"),),
        "available_kv": (("available_kv", "available"), ("ledger", "available")),
        "free": (("ledger", "free"),),
        "total": (("ledger", "total"),),
    }
    values = {}
    for name, places in rows.items():
        sizes = [size for kind, field in places if (size := case.value(kind, field)) is not None]
        if sizes:
            values[name] = sizes[0]
    if case.value("ledger", "consumed") is not None:
        # gpu_worker.py (since 0.27.0): "peak activation" is the headroom over what profiling left, with the estimate of
        # the graphs in it; what a plan calls the peak of activations is not printed
        values.pop("activation_peak", None)
    return values


def start_of(
    deployment: Deployment,
    gpus: tuple[Device, ...],
    values: Mapping[str, int],
    source: str = "",
    model: Model | None = None,
) -> Start:
    """The figures against the plan of the same deployment. Refuses what cannot be this model's."""
    from oomph.answers.plan import run
    from oomph.sources.load import load_once

    cards = deployment.gpus or gpus
    empty = tuple(replace(card, used_bytes=0) if card.system is None else card for card in cards)
    planned = replace(deployment, gpus=empty, measured={}, given={})
    model = model or load_once(deployment.model)
    plan = run(planned, model)
    if not plan.ranks:
        raise CannotPlan(f"the command cannot be planned: {plan.verdict.message}")
    terms = plan.ranks[0].terms
    weights = values.get("weights")
    if weights is not None and abs(weights - terms["weights"].bytes) > _WEIGHTS_OFF * terms["weights"].bytes + ROUNDING:
        expected = gib(terms["weights"].bytes)
        raise CannotPlan(f"{gib(weights)} of weights are not those of {deployment.model}, which are {expected}")
    figures = tuple(_figures(plan, values))
    if not figures:
        raise CannotPlan("the log has no figure that a plan could use")
    engine = deployment.engine
    return Start(
        machine_of(empty),
        engine=engine.name,
        version=engine.version,
        model=plan.model,
        model_class=class_of(model),
        settings=settings_of(plan),
        figures=figures,
        source=source,
    )


def _figures(plan: Plan, values: Mapping[str, int]) -> list[Figure]:
    rank = plan.ranks[0]
    terms = dict(rank.terms)
    figures = [_figure(terms[name], values[name]) for name in _PINNED if name in values and name in terms]
    if "free" in values and "total" in values and "context" in terms and len(plan.ranks) == 1:
        figures.append(_figure(terms["context"], values["total"] - values["free"]))
    split = "activation_peak" in values and "non_torch" in values
    kv = values.get("available_kv")
    if kv is not None and not split and rank.terms["available_kv"].basis != "given":
        figures.append(_overhead(rank.terms, kv, values.get("weights"), values.get("cudagraph")))
    return figures


_PINNED = ("activation_peak", "non_torch", "cudagraph")


def _figure(term: Term, size: int) -> Figure:
    return Figure(term.name, size, term.bytes, term.low, term.high)


def _overhead(terms: Mapping[str, Term], kv: int, weights: int | None, graphs: int | None) -> Figure:
    """KV memory that is other than planned lies with the terms that cannot be derived: their sum is measured."""
    budget = terms["available_kv"]
    off = budget.bytes - kv
    if weights is not None:
        off -= weights - terms["weights"].bytes
    if graphs is not None and "cudagraph" in budget.parts:
        off -= graphs - terms["cudagraph"].bytes
    parts = [terms[name] for name in ("activation_peak", "non_torch")]
    predicted = sum(part.bytes for part in parts)
    low, high = sum(part.low for part in parts), sum(part.high for part in parts)
    return Figure(OVERHEAD, predicted + off, predicted, low, high)


_BLOCKS = re.compile(r'vllm:cache_config_info\{[^}]{0,4000}num_gpu_blocks="(\d{1,12})"')


def read_metrics(text: str, deployment: Deployment, gpus: tuple[Device, ...], source: str = "") -> Start | None:
    """vLLM's /metrics, or a file of its startup plans (VLLM_ENABLE_STARTUP_PLAN): both tell the KV memory only, and not
    what was started; that must be said beside them."""
    from oomph.answers.plan import run

    planned = replace(deployment, gpus=deployment.gpus or gpus)
    if match := _BLOCKS.search(text):
        plan = run(planned)
        per_block = plan.kv.bytes_per_block if plan.kv is not None else 0
        return start_of(planned, gpus, {"available_kv": int(match[1]) * per_block}, source) if per_block else None
    try:
        value = json.loads(bounded(text[: 1 << 20]))
    except (json.JSONDecodeError, RecursionError):
        return None
    size = value.get("kv_cache_memory_bytes") if isinstance(value, dict) else None
    if isinstance(size, bool) or not isinstance(size, int) or not 0 < size < 1 << 50:
        return None
    return start_of(planned, gpus, {"available_kv": size}, source)
