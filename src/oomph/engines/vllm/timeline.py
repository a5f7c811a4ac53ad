"""One rank's start-up, stage by stage: what is resident, what is the peak, where it dies and with which words."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import Struct

from oomph.engines.vllm.batch import PhaseKind
from oomph.engines.vllm.graphs import Graphs, throwaway_blocks
from oomph.engines.vllm.kv_check import KvPlan
from oomph.engines.vllm.load_peak import Point
from oomph.engines.vllm.resolve import Resolved
from oomph.engines.vllm.serving import Working, risk_text
from oomph.ir.gate import Gate, Slack, judge, quadrature, released, spread
from oomph.ir.hardware import Device
from oomph.ir.ledger import Term
from oomph.ir.timeline import Stage, StageName, Verdict
from oomph.units import GIB, MIB, gib


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


class RankInput(Struct, frozen=True):
    device: Device
    resolved: Resolved
    terms: Terms
    graphs: Graphs
    estimate_applied: bool
    index: int = 0
    ipc_bytes: int = 0  # --mm-ipc-gpu-memory-gb
    created_bytes: int = 0
    died: Point | None = None  # the allocation with which the load runs out
    layers: int = 0
    # KV memory that a log printed: the stages before it were passed, whatever the plan would say of them
    observed: bool = False
    graphs_profiled: bool = True
    expert_kernels: tuple[str, ...] = ()  # engines/vllm/expert_kernel.py
    peak: PhaseKind | None = None  # where profiling is highest; None: the term is pinned
    context_measured: bool = True  # False: as start-ups on such cards printed it
    restart_bytes: int = 0  # what the KV cache gains at the next start, which finds torch.compile's cache filled
    judged: bool = True  # False: the observed KV memory is more than the plan can explain; later stages are not judged


def requested(device: Device, resolved: Resolved) -> int:
    return math.ceil(device.total_bytes * resolved.gpu_memory_utilization)


def available_kv(r: RankInput) -> Term:
    """gpu_worker.py determine_available_memory, by the release's formula. --kv-cache-memory-bytes goes past it."""
    if r.resolved.kv_cache_memory_bytes is not None:
        n = r.resolved.kv_cache_memory_bytes
        return Term("available_kv", n, n, n, "given", {}, "--kv-cache-memory-bytes")
    want = requested(r.device, r.resolved)
    taken = _taken(r)
    n = want - sum(x.bytes for x in taken)
    slacks = spread(*taken)
    low, high = n - quadrature(x.down for x in slacks), n + quadrature(x.up for x in slacks)
    parts = {"requested": want, **{x.name: -x.bytes for x in taken if x.bytes}}
    return Term("available_kv", n, low, high, "formula", parts, "requested - what profiling saw")


def _taken(r: RankInput) -> list[Term]:
    """What the release's formula subtracts from the budget."""
    t = r.terms
    taken = [t.weights, t.activation, t.non_torch]
    if r.estimate_applied:
        taken.append(t.cudagraph)
    if r.resolved.facts.budget.formula in ("consumed", "everything"):
        taken.append(t.runner)
    if r.resolved.facts.budget.formula == "everything":
        used = r.device.used_before
        taken += [t.context, Term("others", used.bytes, used.low, used.high, used.basis)]
    return [*taken, image_transfer(r.ipc_bytes)] if r.ipc_bytes else taken


def image_transfer(size: int) -> Term:
    """--mm-ipc-gpu-memory-gb: kept free for images that another process hands over."""
    return Term("image_transfer", size, size, size, "exact", {}, "--mm-ipc-gpu-memory-gb")


class Step(Struct, frozen=True):
    stage: Stage
    failure: str  # the engine's words if this stage's peak does not fit
    tried: int = 0
    slacks: tuple[Slack, ...] = ()
    needed: int = 0  # what must fit, where that is less than what is in use


def stages(r: RankInput, kv: KvPlan | None) -> list[Step]:
    t, dev = r.terms, r.device
    base = dev.used_bytes + t.context.bytes
    system = dev.used_before
    steps = [_step("startup_free_memory", base, 0, spread(system, t.context))]
    loaded = base + t.before_load + t.runner.bytes + t.weights.bytes
    load_extra = max(0, t.load_peak.bytes - t.weights.bytes)
    tried = r.died.tried if r.died else 0
    loading = spread(system, t.context, t.runner, t.load_peak)
    steps.append(
        _step("weights_load", loaded, load_extra, loading, r.resolved.facts.texts.load_failed, _where(r), tried)
    )
    profiled = loaded - t.before_load + t.non_torch.bytes + t.persistent
    working = max(0, t.activation.bytes - t.persistent)
    profiling = spread(system, t.context, t.runner, t.weights, t.non_torch, t.activation)
    steps.append(_step("profile_run", profiled, working, profiling, _profile_text(r), t.activation.why))
    if kv is None:
        return steps
    # --kv-cache-memory-bytes returns before graphs are profiled (gpu_worker.py:367, 0.21.0)
    if r.graphs.largest and r.graphs_profiled and r.resolved.kv_cache_memory_bytes is None:
        per_sequence = r.resolved.facts.budget.profiles_per_sequence or r.resolved.model_runner == "v2"
        blocks = throwaway_blocks(r.graphs, r.resolved.max_num_seqs, per_sequence=per_sequence)
        extra = blocks * kv.bytes_per_block + t.cudagraph.bytes
        note = f"{blocks} throw-away KV blocks of {kv.bytes_per_block / MIB:.3f} MiB"
        graphs = spread(system, t.context, t.runner, t.weights, t.non_torch, t.cudagraph)
        steps.append(_step("cudagraph_profile", profiled, extra, graphs, "", note))
    note = f"one request needs {kv.need_bytes / GIB:.2f} GiB"
    steps.append(_step("kv_check", profiled, 0, profiling, "", note))
    return steps if kv.refusal is not None else steps + _allocated(r, kv, profiled)


def _allocated(r: RankInput, kv: KvPlan, profiled: int) -> list[Step]:
    """From the KV cache to the first request."""
    t = r.terms
    slacks = _slacks_beside_kv(r)
    resident = profiled + kv.num_blocks * max(kv.stage_bytes_per_block, default=kv.bytes_per_block)
    steps = [_step("kv_alloc", resident, 0, slacks, "", f"{kv.num_blocks} blocks")]
    if r.graphs.largest:
        resident += t.captured.bytes
        slacks = (*slacks, *spread(t.captured))
        steps.append(_step("cudagraph_capture", resident, 0, slacks))
    failure = _sampler_text(r) if r.resolved.model_runner != "v2" else ""
    steps.append(_working_step("sampler_warmup", r, resident, t.warm_up, slacks, failure))
    if r.peak == "encoder":  # the same images are profiled and served: a larger peak makes room for itself
        slacks = tuple(slack for slack in slacks if slack.term != t.activation.name)
    steps.append(_working_step("runtime_request", r, resident, t.serving, slacks))
    return steps


def _working_step(
    name: StageName, r: RankInput, resident: int, working: Working, slacks: tuple[Slack, ...], failure: str = ""
) -> Step:
    """What is in use afterwards: never more than the card has, since PyTorch frees its cache before it gives up."""
    total = r.device.total_bytes
    need, use = resident + working.needed.bytes, resident + working.kept.bytes
    kept = (*slacks, *spread(working.kept))
    low = min(total, use - quadrature(s.up for s in kept))
    worst = max(working.needed.high, working.worst) - working.needed.bytes
    fits_below = need + r.restart_bytes + quadrature([*(s.down for s in slacks), worst])
    high = max(min(total, use + quadrature(s.down for s in kept)), fits_below)
    peak = max(need, min(total, use))
    stage = Stage(name, peak, peak, min(low, peak), high, working.needed.why, fits_below)
    return Step(stage, failure, 0, (*slacks, *spread(working.needed)), need)


def _slacks_beside_kv(r: RankInput) -> tuple[Slack, ...]:
    """What may move the memory in use once the KV cache is there.

    A cache that takes what is left of the budget shrinks by whatever the other terms are larger, so that a term which
    the budget counts does not move the sum; the working memory of profiling is free again and moves it the other way.
    A cache of a fixed size does not give way.
    """
    t = r.terms
    resident = (t.context, t.runner, t.weights, t.non_torch)
    if r.observed or r.resolved.kv_cache_memory_bytes is not None:
        return spread(r.device.used_before, *resident)
    counted = {x.name for x in _taken(r)}
    uncounted = spread(*(x for x in resident if x.name not in counted))
    # ROCm: a start with larger activations had larger graphs in all of 17 logs: the two errors cancel
    return uncounted if r.device.vendor == "amd" else (*uncounted, *released(t.activation))


def _step(
    name: StageName, resident: int, extra: int, slacks: tuple[Slack, ...], failure: str = "", note: str = "",
    tried: int = 0,
) -> Step:  # fmt: skip
    peak = resident + extra
    low, high = max(0, peak - quadrature(s.up for s in slacks)), peak + quadrature(s.down for s in slacks)
    return Step(Stage(name, resident, peak, low, high, note), failure, tried, slacks)


def _where(r: RankInput) -> str:
    """ "dies at layer 55 of 60": which tensor the load cannot get."""
    if r.died is None:
        return ""
    layer = f"layer {r.died.layer + 1} of {r.layers}, " if r.died.layer >= 0 else ""
    return f"dies at {layer}{r.died.module}"


def _profile_text(r: RankInput) -> str:
    return _sampler_text(r) if r.peak == "sampler" else ""


def _sampler_text(r: RankInput) -> str:
    seqs = min(r.resolved.max_num_seqs, r.resolved.max_num_batched_tokens)
    return r.resolved.facts.texts.sampler.format(seqs=seqs) if r.resolved.facts.texts.sampler else ""


def verdict(r: RankInput, kv: KvPlan | None, steps: list[Step]) -> Verdict:
    return judge(list(_gates(r, kv, steps)))


def _gates(r: RankInput, kv: KvPlan | None, steps: list[Step]) -> Iterator[Gate]:
    """Every comparison that vLLM or the driver makes, in its order. What a log has shown to be passed is left out."""
    want = requested(r.device, r.resolved)
    free = r.device.total_bytes - steps[0].stage.resident_bytes
    before = [s for s in steps[1:] if s.stage.name in _BEFORE_KV]
    if not r.observed:
        text = free_memory_text(r, free, want)
        yield Gate("startup_free_memory", free - want, text, steps[0].slacks, r.index)
        yield from (_memory_gate(r, step) for step in before)
    if kv is not None:
        yield from _kv_gates(r, kv)
    if r.judged and (kv is None or kv.refusal is None) and not _bounded_by_host(r):
        yield from (_memory_gate(r, step) for step in steps[1:] if step.stage.name in _AFTER_KV)


def _bounded_by_host(r: RankInput) -> bool:
    """On memory shared with the CPU no allocation is refused: what follows a cache that the budget sizes is a question
    of the host's memory (host.py), once the free-memory check has passed."""
    return r.device.sees_system and r.resolved.kv_cache_memory_bytes is None


_BEFORE_KV = ("weights_load", "profile_run", "cudagraph_profile")
_AFTER_KV = ("kv_alloc", "cudagraph_capture", "sampler_warmup", "runtime_request")


def _memory_gate(r: RankInput, step: Step) -> Gate:
    text = out_of_memory_text(r, step)
    if step.failure:
        text = step.failure.replace("{original}", text)
    risk = ""
    if step.stage.name == "runtime_request":
        risk = risk_text(r.terms.serving.needed, r.resolved.max_num_batched_tokens, r.resolved.max_num_seqs)
    room = r.device.total_bytes - (step.needed or step.stage.peak_bytes)
    return Gate(step.stage.name, room, text, step.slacks, r.index, risk)


def _kv_gates(r: RankInput, kv: KvPlan) -> Iterator[Gate]:
    """The check for one request of max_model_len, and the one for the states of all sequences."""
    slacks = () if r.observed or r.resolved.kv_cache_memory_bytes is not None else spread(*_taken(r))
    fitted = kv.need_before_fit_bytes > kv.need_bytes  # --max-model-len auto asks for no more than there is
    room = kv.available_bytes - (0 if fitted else kv.need_bytes)
    if kv.refusal is None:
        yield Gate("kv_check", max(0, room), _short_text(kv), slacks, r.index)
    else:
        yield Gate("kv_check", min(-1, room), kv.refusal.message, slacks if room < 0 else (), r.index)
    few = few_states_text(r, kv) if not r.observed else ""
    if few:
        short = (r.resolved.max_num_seqs - kv.num_blocks) * kv.bytes_per_block
        yield Gate("kv_check", -short, few, slacks, r.index)


def _short_text(kv: KvPlan) -> str:
    return f"one request of {kv.max_model_len:,} tokens needs {gib(kv.need_bytes)} of KV cache"


# Backends whose graphs hold one token a sequence only (AttentionCGSupport): with drafts no full graph is captured.
_SINGLE_TOKEN = frozenset({"FLASHINFER", "CUTLASS_MLA", "TRITON_MLA", "LINEAR_ATTN"})


def few_states_text(r: RankInput, kv: KvPlan) -> str:
    """vLLM's words where full graphs are captured for more sequences than there are blocks for recurrent states."""
    resolved = r.resolved
    full = resolved.cudagraph_mode.startswith("FULL") and bool(resolved.cudagraph_capture_sizes)
    if resolved.num_speculative_tokens and any(name in _SINGLE_TOKEN for name, _ in resolved.attention):
        full = False
    if not full or resolved.max_num_seqs <= kv.num_blocks or not any(g.kind == "mamba" for g in kv.groups):
        return ""
    return r.resolved.facts.texts.state_blocks.format(seqs=resolved.max_num_seqs, blocks=kv.num_blocks)


def out_of_memory_text(r: RankInput, point: Step) -> str:
    """PyTorch's words, with what is known of them."""
    total = r.device.total_bytes / GIB
    tried = f"Tried to allocate {point.tried / MIB:.2f} MiB. " if point.tried else ""
    return f"CUDA out of memory. {tried}GPU {r.index} has a total capacity of {total:.2f} GiB"


def free_memory_text(r: RankInput, free: int, want: int) -> str:
    dev = r.device
    return r.resolved.facts.texts.free_memory.format(
        device=f"cuda:{r.index}", free=_gib(free), total=_gib(dev.total_bytes),
        util=r.resolved.gpu_memory_utilization, requested=_gib(want),
    )  # fmt: skip


def _gib(n: int) -> str:
    """vLLM's format_gib: two decimals, printed as a float."""
    return str(round(n / GIB, 2))
