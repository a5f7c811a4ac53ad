"""One rank's start-up, stage by stage, and the comparisons that decide whether it runs.

SGLang measures nothing before it sizes its pools: weights and pools have `mem_fraction_static` of what was free before
the load, and everything else (workspaces, graphs, activations) has to live in the rest. So there are two ways to run
out: the weights leave too little of the share (raise it), or the rest is too small (lower it).
"""

from collections.abc import Iterator

from msgspec import Struct

from oomph.engines.common.ranks import Rank
from oomph.engines.sglang.kv.buffers import Buffers
from oomph.engines.sglang.kv.pools import Pools
from oomph.engines.sglang.resolve.settings import Settings
from oomph.engines.sglang.safe_fraction import EAGER_DECODING, Decoding
from oomph.engines.sglang.terms import Terms
from oomph.ir import Stage, StageName, Term, Verdict
from oomph.ir.gate import Gate, Slack, judge, quadrature, released, spread
from oomph.units import GIB

# model_executor/runner/cuda_graph_runner.py
CAPTURE_FAILED = (
    "Exception: Capture cuda graph failed: CUDA out of memory. Possible solutions:\n"
    "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
    "2. set --cuda-graph-max-bs to a smaller value (e.g., 16)\n"
    "3. disable torch compile by not using --enable-torch-compile\n"
    "4. disable CUDA graph by --disable-cuda-graph. (Not recommended. Huge performance loss)"
)


LIBRARIES = "libraries after the load"  # the part of the workspace that is gone before the pools are sized


class RankState(Struct, frozen=True):
    rank: Rank
    settings: Settings
    terms: Terms
    pools: Pools
    buffers: Buffers
    workspace: Term  # buffers, and what kernels take when they are first used
    decoding: Decoding = Decoding()  # without a graph
    observed: bool = False  # the free memory and the weights are a log's: the load was passed

    @property
    def used_before_load(self) -> int:
        return self.rank.device.total_bytes - self.terms.free_before_load.bytes


class Step(Struct, frozen=True):
    stage: Stage
    message: str
    slacks: tuple[Slack, ...]
    risk: str = ""


def steps(state: RankState) -> list[Step]:
    rank_terms, pools = state.terms, state.pools
    base = state.used_before_load
    timeline = [_step("startup_free_memory", base, base, (rank_terms.context,), "")]
    loaded = base + rank_terms.weights.bytes
    oom = out_of_memory_text(state.rank)
    timeline += [
        _step(
            "weights_load", loaded, base + rank_terms.load_peak.bytes, (rank_terms.context, rank_terms.load_peak), oom
        ),
        _step("kv_check", loaded, loaded, (rank_terms.context, rank_terms.weights), pools.refusal),
    ]
    if pools.refusal:
        return timeline
    # the pools follow the free memory: what the weights take more, they get less
    pooled = loaded + pools.allocated
    filled = pooled + state.workspace.parts[LIBRARIES] + state.buffers.table
    timeline.append(_step("kv_alloc", filled, filled, (), oom))
    captured = pooled + state.workspace.bytes + rank_terms.cudagraph.bytes
    graphs = CAPTURE_FAILED if state.settings.cuda_graph_bs or state.settings.prefill_graph_sizes else oom
    timeline.append(_step("cudagraph_capture", captured, captured, (state.workspace, rank_terms.cudagraph), graphs))
    busiest, load = _busiest(state, state.rank.device.total_bytes - captured)
    serving = captured + busiest.bytes
    note = EAGER_DECODING if busiest is not rank_terms.activation else ""
    terms = (state.workspace, rank_terms.cudagraph, busiest)
    timeline.append(_step("runtime_request", captured, serving, terms, oom, load, note))
    return timeline


def _busiest(state: RankState, room: int) -> tuple[Term, str]:
    """What a full server needs most at once, and what it does then: a chunk of a prompt, or a batch without a graph."""
    prefill, decoding, chunk = state.terms.activation, state.decoding, state.settings.chunked_prefill_size
    if decoding.nbytes > prefill.bytes and prefill.basis != "given":
        n = decoding.nbytes
        term = Term("activation_peak", n, n - n // 10, n + n // 10, "formula", {}, why=EAGER_DECODING)
        return term, decoding.load_beyond(room)
    return prefill, f"a prompt chunk of {chunk:,} tokens" if chunk > 0 else "a long prompt"


def _step(
    name: StageName, resident: int, peak: int, terms: tuple[Term, ...], message: str, risk: str = "", note: str = ""
) -> Step:
    slacks = spread(*terms)
    down, up = quadrature(s.down for s in slacks), quadrature(s.up for s in slacks)
    stage = Stage(name, resident, peak, max(0, peak - up), peak + down, note)
    return Step(stage, message, slacks, risk)


def verdict_of(state: RankState, timeline: list[Step]) -> Verdict:
    return judge(list(_gates(state, timeline)))


def _gates(state: RankState, timeline: list[Step]) -> Iterator[Gate]:
    total, index = state.rank.device.total_bytes, state.rank.index
    for step in timeline:
        name = step.stage.name
        if name == "kv_check":
            yield _kv_gate(state)
        elif not (state.observed and name in ("startup_free_memory", "weights_load")):
            room = total - step.stage.peak_bytes
            yield Gate(name, room, step.message, step.slacks, index, step.risk)


def _kv_gate(state: RankState) -> Gate:
    """The share less the weights. A log that gives the free memory and the weights settles it."""
    terms, pools, share = state.terms, state.pools, state.settings.mem_fraction_static
    slacks = () if state.observed else (*spread(terms.weights), *_scaled(released(terms.free_before_load), share))
    if pools.refusal:
        return Gate("kv_check", min(-1, -pools.short_bytes), pools.refusal, slacks, state.rank.index)
    room = pools.budget + pools.states
    text = "Not enough memory. Please try to increase --mem-fraction-static."
    return Gate("kv_check", room, text, slacks, state.rank.index)


def _scaled(slacks: tuple[Slack, ...], share: float) -> tuple[Slack, ...]:
    return tuple(Slack(s.term, round(s.down * share), round(s.up * share)) for s in slacks)


def out_of_memory_text(rank: Rank) -> str:
    total = rank.device.total_bytes / GIB
    return f"torch.OutOfMemoryError: CUDA out of memory. GPU {rank.index} has a total capacity of {total:.2f} GiB"
