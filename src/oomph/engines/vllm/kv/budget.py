"""What one rank's memory is made of, and what is left of its budget for the KV cache."""

import math

from msgspec import Struct

from oomph.engines.vllm.graphs.memory import Graphs
from oomph.engines.vllm.profile.batch import PhaseKind
from oomph.engines.vllm.resolve.steps import Resolved
from oomph.engines.vllm.serving.after_start import Working
from oomph.engines.vllm.weights.load.player import Point
from oomph.facts.vllm.vendors import is_gaudi
from oomph.ir import Device, Term
from oomph.ir.gate import best_case, spread, worst_case
from oomph.text.tables import all_that_hold


class Terms(Struct, frozen=True):
    """What one rank's memory is made of."""

    weights: Term
    load_peak: Term
    context: Term
    runner: Term  # the model runner's buffers, allocated before the weights
    activation: Term
    persistent: int  # what profiling leaves in the allocator: workspaces, the sampler's buffer
    non_torch: Term
    cudagraph: Term
    captured: Term  # the CUDA graphs in the end; `cudagraph` is what the engine's profiler estimates
    warm_up: Working
    serving: Working  # a full batch of requests
    before_load: int = 0  # the part of non_torch that is there before the first weight
    graphs_kept: int = 0  # what the driver keeps of the graphs that were captured to estimate them


class RankInput(Struct, frozen=True):
    device: Device
    resolved: Resolved
    terms: Terms
    graphs: Graphs
    estimate_applied: bool
    index: int
    ipc_bytes: int  # --mm-ipc-gpu-memory-gb
    created_bytes: int
    died: Point | None  # the allocation with which the load runs out
    layers: int
    graphs_profiled: bool
    expert_kernels: tuple[str, ...]  # engines/common/expert_kernel.py
    peak: PhaseKind | None  # where profiling is highest; None: the term is pinned
    context_measured: bool  # False: as start-ups on such cards printed it
    graph_share: float  # Gaudi: of the usable memory what is kept for graphs
    restart_bytes: int  # what the KV cache gains at the next start, which finds torch.compile's cache filled
    # KV memory that a log printed: the stages before it were passed, whatever the plan would say of them
    observed: bool = False
    judged: bool = True  # False: the observed KV memory is more than the plan can explain; later stages are not judged
    like: int = 0  # the first rank that has the same terms


def requested(device: Device, resolved: Resolved) -> int:
    return math.ceil(device.total_bytes * resolved.gpu_memory_utilization)


def available_kv(rank_input: RankInput) -> Term:
    """gpu_worker.py determine_available_memory, from which every other figure of a plan follows:

    available KV cache memory = requested memory  (total memory x --gpu-memory-utilization)
                              - weights           ("Model loading took")
                              - peak              (activations of the profiling pass)
                              - outside           (what PyTorch does not allocate: NCCL, libraries)
                              - graphs            (the estimate of the CUDA graphs, where the release counts it)
                              - beside            (what later releases count too: `_beside`)
    """
    if rank_input.resolved.kv_cache_memory_bytes is not None:
        n = rank_input.resolved.kv_cache_memory_bytes
        return Term("available_kv", n, n, n, "given", {}, why="--kv-cache-memory-bytes")
    if is_gaudi(rank_input.device.name):
        return _kv_on_gaudi(rank_input)
    budget = requested(rank_input.device, rank_input.resolved)
    weights, peak, outside = rank_input.terms.weights, rank_input.terms.activation, rank_input.terms.non_torch
    graphs, beside = _total(_graphs(rank_input)), _total(_beside(rank_input))
    left = budget - weights.bytes - peak.bytes - outside.bytes - graphs - beside
    deductions = counted(rank_input)
    slacks = spread(*deductions)
    low, high = left - worst_case(slacks), left + best_case(slacks)
    parts = {"requested": budget, **{term.name: -term.bytes for term in deductions if term.bytes}}
    return Term("available_kv", left, low, high, "formula", parts, why="requested - what profiling saw")


def counted(rank_input: RankInput) -> list[Term]:
    """What the release's formula subtracts from the budget, in the order above."""
    terms = rank_input.terms
    return [terms.weights, terms.activation, terms.non_torch, *_graphs(rank_input), *_beside(rank_input)]


def _total(terms: list[Term]) -> int:
    return sum(term.bytes for term in terms)


def _graphs(rank_input: RankInput) -> list[Term]:
    return [rank_input.terms.cudagraph] if rank_input.estimate_applied else []


def _beside(rank_input: RankInput) -> list[Term]:
    """The runner's buffers since "consumed", the context and whoever else uses the card in "everything"
    (facts/vllm/outside.py), and --mm-ipc-gpu-memory-gb."""
    terms, formula, used = rank_input.terms, rank_input.resolved.facts.budget.formula, rank_input.device.used_before
    return all_that_hold(
        (formula in ("consumed", "everything"), terms.runner),
        (formula == "everything", terms.context),
        (formula == "everything", Term("others", used.bytes, used.low, used.high, used.basis)),
        (rank_input.ipc_bytes, image_transfer(rank_input.ipc_bytes)),
    )


def _kv_on_gaudi(rank_input: RankInput) -> Term:
    """Shares of what is free after profiling, not of the card."""
    own = rank_input.terms
    terms = [own.context, own.weights, own.activation, own.non_torch, own.runner]
    free = rank_input.device.total_bytes - rank_input.device.used_bytes - sum(x.bytes for x in terms)
    share = rank_input.resolved.gpu_memory_utilization * (1 - rank_input.graph_share)
    slacks = spread(*terms)
    low, high = free - worst_case(slacks), free + best_case(slacks)
    size, bottom, top = (math.floor(room * share) for room in (free, low, high))
    why = f"{share:.2f} of what is free after profiling"
    return Term(
        "available_kv", size, bottom, top, "formula", {"free after profiling": free, "kept back": size - free}, why=why
    )


def image_transfer(size: int) -> Term:
    """--mm-ipc-gpu-memory-gb: kept free for images that another process hands over."""
    return Term("image_transfer", size, size, size, "exact", {}, why="--mm-ipc-gpu-memory-gb")
