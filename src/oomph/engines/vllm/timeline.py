"""One rank's start-up, stage by stage: what is resident, what is the peak, where it dies and with which words."""

from __future__ import annotations

import math

from msgspec import Struct

from oomph.engines.vllm.graphs import Graphs, throwaway_blocks
from oomph.engines.vllm.kv_check import KvPlan
from oomph.engines.vllm.load_peak import Point
from oomph.engines.vllm.resolve import Resolved
from oomph.ir.hardware import Device
from oomph.ir.ledger import Term
from oomph.ir.timeline import Stage, Verdict
from oomph.units import GIB, MIB


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
    sampler: int  # logits of the warm-up that follow the KV cache
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
    judged: bool = True  # False: the observed KV memory is more than the plan can explain; later stages are not judged


def requested(device: Device, resolved: Resolved) -> int:
    return math.ceil(device.total_bytes * resolved.gpu_memory_utilization)


def available_kv(r: RankInput) -> Term:
    """gpu_worker.py determine_available_memory, by the release's formula. --kv-cache-memory-bytes goes past it."""
    t = r.terms
    if r.resolved.kv_cache_memory_bytes is not None:
        n = r.resolved.kv_cache_memory_bytes
        return Term("available_kv", n, n, n, "given", {}, "--kv-cache-memory-bytes")
    want = requested(r.device, r.resolved)
    graphs = t.cudagraph if r.estimate_applied else Term("cudagraph", 0, 0, 0, "exact")
    taken = [t.weights, t.activation, t.non_torch, graphs]
    if r.resolved.facts.budget.formula in ("consumed", "everything"):
        taken.append(t.runner)
    if r.resolved.facts.budget.formula == "everything":
        taken += [t.context, Term("others", *(r.device.used_bytes,) * 3, "exact")]
    n = want - sum(x.bytes for x in taken) - r.ipc_bytes
    low = want - sum(x.high for x in taken) - r.ipc_bytes
    high = want - sum(x.low for x in taken) - r.ipc_bytes
    parts = {"requested": want, **{x.name: -x.bytes for x in taken if x.bytes}}
    return Term("available_kv", n, low, high, "formula", parts, "requested - what profiling saw")


class Step(Struct, frozen=True):
    stage: Stage
    failure: str  # the engine's words if this stage's peak does not fit
    tried: int = 0


def stages(r: RankInput, kv: KvPlan | None) -> list[Step]:
    t, dev = r.terms, r.device
    base = dev.used_bytes + t.context.bytes
    points: list[Step] = []

    def add(name: str, resident: int, extra: int, slack: int, failure: str, note: str = "", tried: int = 0) -> None:
        peak = resident + extra
        stage = Stage(name, resident, peak, max(0, peak - slack), peak + slack, note)  # type: ignore[arg-type]
        points.append(Step(stage, failure, tried))

    slack = t.context.high - t.context.bytes
    add("startup_free_memory", base, 0, slack, "")
    loaded = base + t.before_load + t.runner.bytes + t.weights.bytes
    load_extra = max(0, t.load_peak.bytes - t.weights.bytes)
    load_slack = slack + (t.load_peak.high - t.load_peak.bytes)
    tried = r.died.tried if r.died else 0
    add("weights_load", loaded, load_extra, load_slack, r.resolved.facts.texts.load_failed, _where(r), tried)
    act_slack = load_slack + t.activation.high - t.activation.bytes + t.non_torch.high - t.non_torch.bytes
    profiled = loaded - t.before_load + t.non_torch.bytes + t.persistent
    add(
        "profile_run",
        profiled,
        max(0, t.activation.bytes - t.persistent),
        act_slack,
        _profile_text(r),
        t.activation.why,
    )
    resident = profiled
    profiled_graphs = r.graphs.largest and r.graphs_profiled
    # --kv-cache-memory-bytes returns before graphs are profiled (gpu_worker.py:367, 0.21.0)
    if kv is not None and profiled_graphs and r.resolved.kv_cache_memory_bytes is None:
        per_sequence = r.resolved.facts.budget.profiles_per_sequence or r.resolved.model_runner == "v2"
        blocks = throwaway_blocks(r.graphs, r.resolved.max_num_seqs, per_sequence=per_sequence)
        cache = blocks * kv.bytes_per_block
        note = f"{blocks} throw-away KV blocks of {kv.bytes_per_block / MIB:.3f} MiB"
        add("cudagraph_profile", profiled, cache + t.cudagraph.bytes, act_slack, "", note)
    if kv is not None:
        add("kv_check", profiled, 0, act_slack, "", f"one request needs {kv.need_bytes / GIB:.2f} GiB")
    if kv is not None and kv.refusal is None:
        pool = kv.num_blocks * max(kv.stage_bytes_per_block, default=kv.bytes_per_block)
        resident = profiled + pool
        add("kv_alloc", resident, 0, act_slack, "", f"{kv.num_blocks} blocks")
        if r.graphs.largest:
            resident += t.cudagraph.bytes
            add("cudagraph_capture", resident, 0, act_slack + t.cudagraph.high - t.cudagraph.bytes, "")
        if r.resolved.model_runner != "v2":
            add("sampler_warmup", resident + t.sampler, 0, act_slack, _sampler_text(r))
    return points


def _where(r: RankInput) -> str:
    """ "dies at layer 55 of 60": which tensor the load cannot get."""
    if r.died is None:
        return ""
    layer = f"layer {r.died.layer + 1} of {r.layers}, " if r.died.layer >= 0 else ""
    return f"dies at {layer}{r.died.module}"


def _profile_text(r: RankInput) -> str:
    return _sampler_text(r) if "sampler" in r.terms.activation.why else ""


def _sampler_text(r: RankInput) -> str:
    seqs = min(r.resolved.max_num_seqs, r.resolved.max_num_batched_tokens)
    return r.resolved.facts.texts.sampler.format(seqs=seqs) if r.resolved.facts.texts.sampler else ""


def verdict(r: RankInput, kv: KvPlan | None, points: list[Step]) -> Verdict:
    """The first stage that does not fit; else the tightest one."""
    dev = r.device
    want = requested(dev, r.resolved)
    free = dev.total_bytes - points[0].stage.resident_bytes
    if free < want and not r.observed:
        return Verdict(False, "startup_free_memory", want - free, free_memory_text(r, free, want), r.index)
    for point in points[1:]:
        order = point.stage.name
        if order == "kv_check":
            break
        over = point.stage.peak_bytes - dev.total_bytes
        if over > 0 and not r.observed:
            return _oom(r, point, over)
    if kv is not None and kv.refusal is not None:
        short = max(0, kv.need_bytes - kv.available_bytes) if kv.available_bytes > 0 else max(1, -kv.available_bytes)
        return Verdict(False, "kv_check", short, kv.refusal.message, r.index)
    few = few_states_text(r, kv) if kv is not None else ""
    if kv is not None and few and not r.observed:
        short = (r.resolved.max_num_seqs - kv.num_blocks) * kv.bytes_per_block
        return Verdict(False, "kv_check", short, few, r.index)
    for point in points:
        if r.judged and point.stage.name in ("kv_alloc", "cudagraph_capture", "sampler_warmup"):
            over = point.stage.peak_bytes - dev.total_bytes
            if over > 0:
                return _oom(r, point, over)
    tight = max(points, key=lambda p: p.stage.peak_bytes)
    sure = all(p.stage.peak_high <= dev.total_bytes for p in points)
    return Verdict(True, None, 0, "", r.index, sure, tight.stage.name)


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


def _oom(r: RankInput, point: Step, over: int) -> Verdict:
    text = out_of_memory_text(r, point)
    if point.failure:
        text = point.failure.replace("{original}", text)
    sure = point.stage.peak_low > r.device.total_bytes
    return Verdict(False, point.stage.name, over, text, r.index, sure)


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
