"""vLLM and SGLang without an error line: in which stage the log ends, and what its figures say about the next one.

A server that was up has nothing inferred. Where a start-up stops before that, a stage is named only where a figure of
the log or of the command says so; a plan of the same deployment (doctor/verify.py) may say more.
"""

from oomph.doctor.case import Case
from oomph.doctor.reading.meanings import ORDER, READY
from oomph.ir import StageName
from oomph.units import GIB, gib

V0_BLOCK = 16  # config.py CacheConfig.block_size on CUDA, the default of every V0 release
# A CUDA context and, with several ranks, NCCL's buffers: on the card before the first snapshot, so outside the budget.
OUTSIDE = GIB // 2
TIGHT = 0.93  # a share above it leaves less than 1.7 GiB of a 24 GiB card, context and graphs included
EXTREME = 0.955
ROOM = 5 * GIB // 2  # a context, graphs and the run-time growth that logs show beside each other

WORDS = {
    "startup_free_memory": "before anything was loaded", "weights_load": "while the weights were loaded",
    "profile_run": "in the profiling run", "cudagraph_profile": "while CUDA graphs were profiled",
    "kv_check": "at the KV cache check", "kv_alloc": "after the KV cache was sized",
    "cudagraph_capture": "while CUDA graphs were captured", "sampler_warmup": "after CUDA graphs were captured",
}  # fmt: skip
NEXT = {
    "weights_load": "the parameters not fitting is what can fail there",
    "profile_run": "a full batch, its logits and an encoder's worst case are what can fail there",
    "kv_check": "one request of the full length not fitting is what can fail there",
    "kv_alloc": "CUDA graphs, the sampler's warm-up and the first requests are what can fail behind it",
    "cudagraph_capture": "graphs that do not fit beside the KV cache are what can fail there",
    "sampler_warmup": "the sampler's warm-up and the first requests are what can fail behind it",
}

Told = tuple[StageName | None, str]


def ready(case: Case) -> bool:
    return case.has(*READY)


def inferred(case: Case) -> Told | None:
    if ready(case):
        return None
    candidate = _v0_blocks(case) or _graphs_not_counted(case) or _extreme(case)
    if candidate:
        return candidate
    where = WORDS.get(case.stage)
    if not where:
        return None
    missing = f"; {NEXT[case.stage]}" if case.stage in NEXT else ""
    return None, f"No error in this log: it ends {where}{missing}. The lines behind it decide."


def _v0_blocks(case: Case) -> Told | None:
    """V0 prints its blocks, then compares their tokens with the length of one request."""
    blocks, length = case.value("v0_blocks", "blocks"), case.whole("max_model_len")
    times = case.real("concurrency", "concurrency")
    if times is not None and times < 1 and case.has("v0_blocks"):
        return "kv_check", f"No error in this log. {times:g} requests of the full length fit: V0 refuses less than one."
    size = case.whole("block_size") or V0_BLOCK
    if not blocks or not length or blocks * size >= length:
        return None
    return "kv_check", (
        f"No error in this log. {blocks:,} blocks x {size} = {blocks * size:,} tokens are fewer than the {length:,} of"
        " one request: V0 compares the two in the next step and refuses."
    )


def _graphs_not_counted(case: Case) -> Told | None:
    """The estimate was made and not subtracted: VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0, the default before 0.20."""
    off, estimate = case.first("graph_estimate_off"), case.value("graph_estimate", "estimate")
    if off is None or case.has("graphs") or not estimate:
        return None
    util, total = float(off.values.get("util", case.util)), case.total
    room = round((1 - util) * total) - OUTSIDE if total else None
    if (room is None and util < TIGHT) or (room is not None and room >= estimate + GIB):
        return None
    left = f", where about {gib(max(0, room))} are left beside the CUDA context" if room is not None else ""
    return "cudagraph_capture", (
        f"No error in this log. Graphs are estimated at {gib(estimate)} and not counted in the budget, so they must"
        f" live in the {1 - util:.1%} of the card above utilization {util:g}{left}: if the run died, capture is the"
        " likeliest place."
    )


def _extreme(case: Case) -> Told | None:
    share = case.account.util or case.flag("gpu_memory_utilization")
    if case.has("kv_tokens", "concurrency"):
        return None  # the cache was made: what is left had to hold the rest so far
    if not isinstance(share, (int, float)) or isinstance(share, bool) or share < EXTREME or case.has("kv_need"):
        return None
    total = case.total
    if total and (1 - share) * total > ROOM:
        return None
    left = f" ({gib(round((1 - share) * total))})" if total else ""
    return "runtime_request", (
        f"No error in this log. Utilization {share:g} leaves {1 - share:.1%} of the card{left} for the CUDA context,"
        " graphs and whatever a request needs above the profiling run: if it starts, the first long prompts are the"
        " likeliest to fail."
    )


def by_plan(case: Case, stage: StageName | None, short: int, message: str) -> Told | None:
    """What a plan of the rebuilt deployment, with the log's figures pinned, says about the stages not yet seen."""
    if ready(case) or case.failed or stage is None or stage not in ORDER:
        return None
    if case.death.stage is not None and ORDER.index(stage) < ORDER.index(case.death.stage):
        return None  # the run was already past it: the plan is no judge here
    missing = f", {gib(short)} short" if short > 0 else ""
    where = WORDS.get(stage, "at the first requests")
    first_line = message.strip().splitlines()[0][:240] if message.strip() else ""
    return stage, (
        f"No error in this log. A plan of this deployment with the log's own figures fails {where}{missing}"
        + (f": {first_line}" if first_line else ".")
    )
