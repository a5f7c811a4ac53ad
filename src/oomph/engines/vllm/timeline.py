"""One rank's start-up, stage by stage: what is resident, what is the peak, where it dies and with which words."""

from collections.abc import Iterator

from msgspec import Struct

from oomph.engines.vllm.graphs.memory import throwaway_blocks
from oomph.engines.vllm.kv.budget import RankInput, counted, requested
from oomph.engines.vllm.kv.check import KvPlan
from oomph.engines.vllm.serving.after_start import Working, risk_text
from oomph.facts.vllm.vendors import is_gaudi
from oomph.ir import Stage, StageName, Verdict
from oomph.ir.gate import Gate, Slack, best_case, judge, quadrature, released, spread, worst_case
from oomph.units import GIB, MIB, gib


class Step(Struct, frozen=True):
    stage: Stage
    failure: str  # the engine's words if this stage's peak does not fit
    tried: int = 0
    slacks: tuple[Slack, ...] = ()
    needed: int = 0  # what must fit, where that is less than what is in use


def stages(rank_input: RankInput, kv: KvPlan | None) -> list[Step]:
    terms, dev = rank_input.terms, rank_input.device
    base = dev.used_bytes + terms.context.bytes
    system = dev.used_before
    steps = [_step("startup_free_memory", base, 0, spread(system, terms.context))]
    loaded = base + terms.before_load + terms.runner.bytes + terms.weights.bytes
    load_extra = max(0, terms.load_peak.bytes - terms.weights.bytes)
    tried = rank_input.died.tried if rank_input.died else 0
    loading = spread(system, terms.context, terms.runner, terms.load_peak)
    steps.append(
        _step(
            "weights_load",
            loaded,
            load_extra,
            loading,
            rank_input.resolved.facts.texts.load_failed,
            _where(rank_input),
            tried,
        )
    )
    profiled = loaded - terms.before_load + terms.non_torch.bytes + terms.persistent
    working = max(0, terms.activation.bytes - terms.persistent)
    profiling = spread(system, terms.context, terms.runner, terms.weights, terms.non_torch, terms.activation)
    steps.append(_step("profile_run", profiled, working, profiling, _profile_text(rank_input), terms.activation.why))
    if kv is None:
        return steps
    # --kv-cache-memory-bytes returns before graphs are profiled (gpu_worker.py:367, 0.21.0)
    if rank_input.graphs.largest and rank_input.graphs_profiled and rank_input.resolved.kv_cache_memory_bytes is None:
        per_sequence = (
            rank_input.resolved.facts.budget.profiles_per_sequence or rank_input.resolved.model_runner == "v2"
        )
        blocks = throwaway_blocks(rank_input.graphs, rank_input.resolved.max_num_seqs, per_sequence=per_sequence)
        extra = blocks * kv.bytes_per_block + terms.cudagraph.bytes
        note = f"{blocks} throw-away KV blocks of {kv.bytes_per_block / MIB:.3f} MiB"
        graphs = spread(system, terms.context, terms.runner, terms.weights, terms.non_torch, terms.cudagraph)
        steps.append(_step("cudagraph_profile", profiled, extra, graphs, "", note))
    note = f"one request needs {kv.need_bytes / GIB:.2f} GiB"
    steps.append(_step("kv_check", profiled, 0, profiling, "", note))
    return steps if kv.refusal is not None else steps + _allocated(rank_input, kv, profiled)


def _allocated(rank_input: RankInput, kv: KvPlan, profiled: int) -> list[Step]:
    """From the KV cache to the first request."""
    terms = rank_input.terms
    slacks = _slacks_beside_kv(rank_input)
    cache = kv.num_blocks * max(kv.stage_bytes_per_block, default=kv.bytes_per_block)
    resident = profiled + terms.graphs_kept + cache
    steps = [_step("kv_alloc", resident, 0, slacks, "", f"{kv.num_blocks} blocks")]
    failure = _sampler_text(rank_input) if rank_input.resolved.model_runner != "v2" else ""
    captures_last = rank_input.resolved.model_runner == "v2" and rank_input.resolved.facts.after_start.v2_captures_last
    if captures_last and rank_input.graphs.largest:
        steps.append(_working_step("sampler_warmup", rank_input, resident, terms.warm_up, slacks, failure))
    if rank_input.graphs.largest:
        resident += terms.captured.bytes
        slacks = (*slacks, *spread(terms.captured))
        steps.append(_step("cudagraph_capture", resident, 0, slacks))
    if not captures_last or not rank_input.graphs.largest:
        steps.append(_working_step("sampler_warmup", rank_input, resident, terms.warm_up, slacks, failure))
    if rank_input.peak == "encoder":  # the same images are profiled and served: a larger peak makes room for itself
        slacks = tuple(slack for slack in slacks if slack.term != terms.activation.name)
    steps.append(_working_step("runtime_request", rank_input, resident, terms.serving, slacks))
    return steps


def _working_step(
    name: StageName,
    rank_input: RankInput,
    resident: int,
    working: Working,
    slacks: tuple[Slack, ...],
    failure: str = "",
) -> Step:
    """What is in use afterwards: never more than the card has, since PyTorch frees its cache before it gives up."""
    total = rank_input.device.total_bytes
    need, use = resident + working.needed.bytes, resident + working.reserved.bytes
    reserved = (*slacks, *spread(working.reserved))
    low = min(total, use - best_case(reserved))
    worst = max(working.needed.high, working.worst) - working.needed.bytes
    fits_below = need + rank_input.restart_bytes + quadrature([*(s.down for s in slacks), worst])
    high = max(min(total, use + worst_case(reserved)), fits_below)
    peak = max(need, min(total, use))
    stage = Stage(name, peak, peak, min(low, peak), high, working.needed.why, needed_high=fits_below)
    return Step(stage, failure, 0, (*slacks, *spread(working.needed)), need)


def _slacks_beside_kv(rank_input: RankInput) -> tuple[Slack, ...]:
    """What may move the memory in use once the KV cache is there.

    A cache that takes what is left of the budget shrinks by whatever the other terms are larger, so that a term which
    the budget counts does not move the sum; the working memory of profiling is free again and moves it the other way.
    A cache of a fixed size does not give way.
    """
    terms = rank_input.terms
    resident = (terms.context, terms.runner, terms.weights, terms.non_torch)
    if rank_input.observed or rank_input.resolved.kv_cache_memory_bytes is not None:
        return spread(rank_input.device.used_before, *resident)
    names = {term.name for term in counted(rank_input)}
    uncounted = spread(*(x for x in resident if x.name not in names))
    if rank_input.device.vendor == "amd":
        # posts do not say whether torch.compile's cache was filled: a start that finds it filled has so much less room
        return (*uncounted, Slack(terms.activation.name, rank_input.restart_bytes, 0))
    # an estimate of graphs is not what they take: what it has too much the cache lacks
    estimated = released(terms.cudagraph) if rank_input.estimate_applied else ()
    return (*uncounted, *released(terms.activation), *estimated)


def _step(
    name: StageName, resident: int, extra: int, slacks: tuple[Slack, ...], failure: str = "", note: str = "",
    tried: int = 0,
) -> Step:  # fmt: skip
    peak = resident + extra
    low, high = max(0, peak - best_case(slacks)), peak + worst_case(slacks)
    return Step(Stage(name, resident, peak, low, high, note), failure, tried, slacks)


def _where(rank_input: RankInput) -> str:
    """ "dies at layer 55 of 60": which tensor the load cannot get."""
    if rank_input.died is None:
        return ""
    layer = f"layer {rank_input.died.layer + 1} of {rank_input.layers}, " if rank_input.died.layer >= 0 else ""
    return f"dies at {layer}{rank_input.died.module}"


def _profile_text(rank_input: RankInput) -> str:
    return _sampler_text(rank_input) if rank_input.peak == "sampler" else ""


def _sampler_text(rank_input: RankInput) -> str:
    seqs = min(rank_input.resolved.max_num_seqs, rank_input.resolved.max_num_batched_tokens)
    return rank_input.resolved.facts.texts.sampler.format(seqs=seqs) if rank_input.resolved.facts.texts.sampler else ""


def verdict(rank_input: RankInput, kv: KvPlan | None, steps: list[Step]) -> Verdict:
    return judge(list(_gates(rank_input, kv, steps)))


def _gates(rank_input: RankInput, kv: KvPlan | None, steps: list[Step]) -> Iterator[Gate]:
    """Every comparison that vLLM or the driver makes, in its order. What a log has shown to be passed is left out."""
    want = requested(rank_input.device, rank_input.resolved)
    free = rank_input.device.total_bytes - steps[0].stage.resident_bytes
    before = [s for s in steps[1:] if s.stage.name in _BEFORE_KV]
    if not rank_input.observed:
        if not is_gaudi(rank_input.device.name):
            text = free_memory_text(rank_input, free, want) if free < want else ""
            yield Gate("startup_free_memory", free - want, text, steps[0].slacks, rank_input.index)
        yield from (_memory_gate(rank_input, step) for step in before)
    if kv is not None:
        yield from _kv_gates(rank_input, kv)
    if rank_input.judged and (kv is None or kv.refusal is None) and not _bounded_by_host(rank_input):
        yield from (_memory_gate(rank_input, step) for step in steps[1:] if step.stage.name in _AFTER_KV)


def _bounded_by_host(rank_input: RankInput) -> bool:
    """On memory shared with the CPU no allocation is refused: what follows a cache that the budget sizes is a question
    of the host's memory (host.py), once the free-memory check has passed."""
    return rank_input.device.sees_system and rank_input.resolved.kv_cache_memory_bytes is None


_BEFORE_KV = ("weights_load", "profile_run", "cudagraph_profile")
_AFTER_KV = ("kv_alloc", "cudagraph_capture", "sampler_warmup", "runtime_request")


def _memory_gate(rank_input: RankInput, step: Step) -> Gate:
    """Its message is written where it is not passed: most are, thousands of times in a search."""
    room = rank_input.device.total_bytes - (step.needed or step.stage.peak_bytes)
    text = out_of_memory_text(rank_input, step) if room < 0 else ""
    if step.failure and room < 0:
        text = step.failure.replace("{original}", text)
    risk = ""
    if step.stage.name == "runtime_request":
        risk = risk_text(
            rank_input.terms.serving.needed,
            rank_input.resolved.max_num_batched_tokens,
            rank_input.resolved.max_num_seqs,
        )
    return Gate(step.stage.name, room, text, step.slacks, rank_input.index, risk)


def _kv_gates(rank_input: RankInput, kv: KvPlan) -> Iterator[Gate]:
    """The check for one request of max_model_len, and the one for the states of all sequences."""
    slacks = (
        ()
        if rank_input.observed or rank_input.resolved.kv_cache_memory_bytes is not None
        else spread(*counted(rank_input))
    )
    fitted = kv.need_before_fit_bytes > kv.need_bytes  # --max-model-len auto asks for no more than there is
    room = kv.available_bytes - (0 if fitted else kv.need_bytes)
    if kv.check_room is not None and not fitted:
        room = kv.check_room
    if kv.refusal is None:
        yield Gate("kv_check", max(0, room), _short_text(kv), slacks, rank_input.index)
    else:
        yield Gate("kv_check", min(-1, room), kv.refusal.message, slacks if room < 0 else (), rank_input.index)
    few = few_states_text(rank_input, kv) if not rank_input.observed else ""
    if few:
        short = (rank_input.resolved.max_num_seqs - kv.num_blocks) * kv.bytes_per_block
        yield Gate("kv_check", -short, few, slacks, rank_input.index)


def _short_text(kv: KvPlan) -> str:
    return f"one request of {kv.max_model_len:,} tokens needs {gib(kv.need_bytes)} of KV cache"


# Backends whose graphs hold one token a sequence only (AttentionCGSupport): with drafts no full graph is captured.
_SINGLE_TOKEN = frozenset({"FLASHINFER", "CUTLASS_MLA", "TRITON_MLA", "LINEAR_ATTN"})


def few_states_text(rank_input: RankInput, kv: KvPlan) -> str:
    """vLLM's words where full graphs are captured for more sequences than there are blocks for recurrent states."""
    resolved = rank_input.resolved
    full = resolved.cudagraph_mode.startswith("FULL") and bool(resolved.cudagraph_capture_sizes)
    if resolved.num_speculative_tokens and any(name in _SINGLE_TOKEN for name, _ in resolved.attention):
        full = False
    if not full or resolved.max_num_seqs <= kv.num_blocks or not any(group.kind == "mamba" for group in kv.groups):
        return ""
    return rank_input.resolved.facts.texts.state_blocks.format(seqs=resolved.max_num_seqs, blocks=kv.num_blocks)


def out_of_memory_text(rank_input: RankInput, point: Step) -> str:
    """PyTorch's words, with what is known of them."""
    total = rank_input.device.total_bytes / GIB
    tried = f"Tried to allocate {point.tried / MIB:.2f} MiB. " if point.tried else ""
    return f"CUDA out of memory. {tried}GPU {rank_input.index} has a total capacity of {total:.2f} GiB"


def free_memory_text(rank_input: RankInput, free: int, want: int) -> str:
    dev = rank_input.device
    return rank_input.resolved.facts.texts.free_memory.format(
        device=f"cuda:{rank_input.index}", free=_gib(free), total=_gib(dev.total_bytes),
        util=rank_input.resolved.gpu_memory_utilization, requested=_gib(want),
    )  # fmt: skip


def _gib(n: int) -> str:
    """vLLM's format_gib: two decimals, printed as a float."""
    return str(round(n / GIB, 2))
