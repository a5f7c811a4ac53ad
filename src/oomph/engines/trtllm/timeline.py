"""One rank's start-up: the executor's ten stages, what each takes, and the comparisons that decide whether it runs.

TensorRT-LLM starts twice. A first executor on a temporary KV pool runs dummy requests and measures the peak; it is torn
down, the real pool takes its share of what was left, and a second executor is built beside it.
"""

from collections.abc import Iterator

from msgspec import Struct

from oomph.engines.common.ranks import Rank
from oomph.engines.trtllm.kv.pool import Cells, Pool
from oomph.engines.trtllm.settings import Settings
from oomph.engines.trtllm.terms import Terms
from oomph.facts.trtllm.facts import Facts
from oomph.ir import Stage, StageName, Term, Verdict
from oomph.ir.gate import Gate, Slack, judge, quadrature, spread
from oomph.units import GIB, gib

# py_executor_creator.py: a component's name in the error, and in the list below it since 1.2.0rc3
MODEL, SAMPLER = ("Model", "model"), ("Sampler", "sampler")
TEMPORARY_POOL = ("Initial KV cache (temporary for KV cache size estimation)", "_no_capture_init_kv_cache")
TEMPORARY_EXECUTOR = (
    "Additional executor resources (temporary for KV cache size estimation)",
    "_no_capture_init_extra_resources",
)
DUMMY_RUN = ("Model resources created during usage", "model_extra")
POOL, EXECUTOR = ("KV cache", "kv_cache"), ("Additional executor resources", "executor_extra")
# what the engine itself advises below its report
HINTS = {
    MODEL: "reduce max_num_tokens and/or shard the model weights across GPUs by enabling pipeline and/or tensor "
    "parallelism",
    SAMPLER: "reduce max_seq_len and/or max_attention_window_size",
    TEMPORARY_POOL: "reduce max_num_tokens",
    TEMPORARY_EXECUTOR: "reduce max_num_tokens",
    DUMMY_RUN: "reduce max_num_tokens",
    POOL: "reduce free_gpu_memory_fraction",
    EXECUTOR: "reduce max_num_tokens",
}


class RankState(Struct, frozen=True):
    rank: Rank
    settings: Settings
    facts: Facts
    terms: Terms
    cells: Cells
    temporary_blocks: int
    temporary_bytes: int
    peak: int  # as the log prints it: with the temporary pool
    peak_pinned: bool
    pool: Pool
    states_bytes: int = 0  # recurrent states of every slot of the batch

    @property
    def base(self) -> int:
        return self.rank.device.used_bytes

    @property
    def total(self) -> int:
        return self.rank.device.total_bytes

    @property
    def reserve(self) -> int:
        """What the pool leaves for run time: the part of the rest that the fraction does not give it."""
        return self.total - self.peak + self.temporary_bytes - self.pool.pool_bytes


class Component(Struct, frozen=True):
    """One of the executor's stages: what was free before it and after it."""

    name: tuple[str, str]
    stage: StageName
    before: int
    after: int
    slacks: tuple[Slack, ...]


def components(state: RankState) -> list[Component]:
    """The stages in which memory moves, in order."""
    own = state.terms
    free = state.total - state.base - own.context.bytes
    steps: list[Component] = []

    def step(name: tuple[str, str], stage: StageName, after: int, *terms: Term) -> None:
        nonlocal free
        steps.append(Component(name, stage, free, after, spread(*terms)))
        free = after

    step(MODEL, "weights_load", free - own.load_peak.bytes, own.context, own.load_peak)
    free = state.total - state.base - own.context.bytes - own.weights.bytes
    if state.settings.estimates:
        first = free
        step(TEMPORARY_POOL, "profile_run", free - state.temporary_bytes - state.states_bytes, own.context, own.weights)
        step(TEMPORARY_EXECUTOR, "profile_run", free - own.runner.bytes - own.non_torch.bytes, *own.resident)
        step(DUMMY_RUN, "profile_run", free - own.activation.bytes, *own.resident, own.activation)
        free = first - own.non_torch.bytes
    step(POOL, "kv_alloc", free - state.pool.pool_bytes - state.states_bytes)
    step(EXECUTOR, "cudagraph_capture", free - own.runner.bytes)
    return steps


def stages(state: RankState) -> tuple[Stage, ...]:
    """The same by the names that all engines share."""
    terms, base = state.terms, state.base
    context = base + terms.context.bytes
    loaded = context + terms.weights.bytes
    ready = loaded + terms.runner.bytes + terms.non_torch.bytes + state.states_bytes
    full = ready + state.pool.pool_bytes
    out = [
        _stage("startup_free_memory", context, context, terms.context),
        _stage("weights_load", loaded, context + terms.load_peak.bytes, terms.context, terms.load_peak),
    ]
    if state.settings.estimates:
        note = f"temporary pool of {state.temporary_blocks:,} blocks, warm-up, dummy requests"
        peak = state.peak if state.peak_pinned else ready + state.temporary_bytes + terms.activation.bytes
        slacks = () if state.peak_pinned else (*terms.resident, terms.activation)
        out.append(_stage("profile_run", ready, peak, *slacks, note=note))
    served = (full + terms.activation.bytes, full + terms.activation.bytes + terms.decode_logits.bytes)
    return (
        *out,
        _stage("kv_check", ready, ready),
        _stage("kv_alloc", full, full, note="KV cache"),
        _stage("cudagraph_capture", full, full, note="the second executor: warm-up and CUDA graphs again"),
        _stage("runtime_request", full, min(served[1], max(served[0], state.total)), note="the reserve"),
    )


def _stage(name: StageName, resident: int, peak: int, *terms: Term, note: str = "") -> Stage:
    slacks = spread(*terms)
    down, up = quadrature(s.down for s in slacks), quadrature(s.up for s in slacks)
    return Stage(name, resident, peak, max(0, peak - up), peak + down, note)


def verdict_of(state: RankState) -> Verdict:
    return judge(list(_gates(state)))


def _gates(state: RankState) -> Iterator[Gate]:
    terms, index = state.terms, state.rank.index
    steps = components(state)
    for at, step in enumerate(steps):
        if step.stage == "weights_load":
            yield Gate("weights_load", step.after, report(state, steps, at), step.slacks, index)
        elif step.stage == "profile_run" and not state.peak_pinned:
            yield Gate("profile_run", step.after, report(state, steps, at), step.slacks, index)
    yield _kv_gate(state)
    yield _context_gate(state)
    at = len(steps) - 1
    if state.pool.blocks and state.pool.tokens:
        # the pool follows the peak, so that their errors cancel; what the second warm-up takes more, nobody has printed
        yield Gate("cudagraph_capture", state.reserve + terms.activation.bytes, report(state, steps, at), (), index)
        yield _serving_gate(state)


def _budget_slacks(state: RankState) -> tuple[Slack, ...]:
    if state.peak_pinned:
        return ()
    terms, share = state.terms, state.settings.free_gpu_memory_fraction
    slacks = spread(*terms.resident, terms.activation)
    return tuple(Slack(s.term, round(s.down * share), round(s.up * share)) for s in slacks)


def _kv_gate(state: RankState) -> Gate:
    """One block at the least: with none, no sequence fits."""
    block = state.cells.pool * state.settings.tokens_per_block
    text = "AssertionError: Impossible to fit in any sequence in kvCache"
    return Gate("kv_check", state.pool.budget - block, text, _budget_slacks(state), state.rank.index)


def _context_gate(state: RankState) -> Gate:
    """A pool that is smaller than one request of the whole context is no error: the server serves less."""
    settings, pool = state.settings, state.pool
    need = request_bytes(settings.max_seq_len, state.cells, settings)
    room = min(pool.budget, pool.pool_bytes or pool.budget) - need
    if len(state.cells.windows) > 1:  # every window has its own share
        room = -need if pool.served_length < settings.max_seq_len else max(0, room)
    text = (
        f"RuntimeError: Attention window size {settings.max_seq_len} exceeds upper bound {pool.served_length} for "
        f"available blocks"
    )
    slacks = _budget_slacks(state) if pool.limited_by == "budget" else ()
    if settings.fail_fast:
        return Gate("kv_check", room, text, slacks, state.rank.index)
    risk = f"a request longer than the {pool.served_length:,} tokens that the pool holds (of {settings.max_seq_len:,})"
    if pool.served_length >= settings.max_seq_len:
        risk = f"a request of the whole {settings.max_seq_len:,} tokens, if the peak is at its upper end"
    return Gate("runtime_request", room, "", slacks, state.rank.index, risk)


def request_bytes(length: int, cells: Cells, settings: Settings) -> int:
    block, beams = settings.tokens_per_block, settings.max_beam_width
    return sum(-(-min(length, window) // block) * block * beams * size for window, size in cells.windows.items())


def _serving_gate(state: RankState) -> Gate:
    """The dummy run has seen a full prefill, but neither the logits of a full decode batch nor a second one's peak."""
    settings, terms = state.settings, state.terms
    requests = min(settings.max_batch_size, max(1, state.pool.request_blocks))
    logits = terms.decode_logits.bytes * requests // max(1, settings.max_batch_size)
    risk = f"{requests:,} requests that decode at once: {gib(logits)} of logits, and {gib(state.reserve)} are left"
    return Gate("runtime_request", state.reserve - logits, "", (), state.rank.index, risk)


def report(state: RankState, steps: list[Component], at: int) -> str:
    """The engine's own words where a component cannot be created (py_executor_creator.py _maybe_explain_if_oom)."""
    raw = 1 if state.facts.memory.raw_component_names else 0
    name, free = steps[at].name, steps[at].before
    lines = [
        "RuntimeError: Executor creation failed due to insufficient GPU memory.",
        "",
        f"The following component could not be created: {name[0]}",
        f"Total GPU memory (GiB): {state.total / GIB:.2f}",
        f"Free GPU memory before component creation attempt (GiB): {max(0, free) / GIB:.2f}",
        "",
        "Previously created components and free GPU memory before/after creation (GiB):",
        *(f"{s.name[raw]}: {max(0, s.before) / GIB:.2f} / {max(0, s.after) / GIB:.2f}" for s in steps[:at]),
        "",
        "Please refer to the TensorRT LLM documentation for information on how to control the memory usage through "
        "TensorRT LLM configuration options. Possible options include:",
        *(f"  {s.name[0]}: {HINTS[s.name]}" for s in steps[: at + 1]),
    ]
    return "\n".join(lines)
