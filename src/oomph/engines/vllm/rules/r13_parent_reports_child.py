"""R13: The cause is not in this part of the log.

Only the parent's report is here; the cause is earlier or in another file.

What it is: "Engine core initialization failed. See root cause above", EngineDeadError and "EngineCore encountered an
issue" are printed by a process that saw its child die.

How to recognise it: no other error in what was given.

Look-alikes: any; this is never the cause.

What fixes it: give the whole log, from the start, with the lines of every worker.

What does not: treating it as the cause.

Evidence: v1/engine/utils.py:1432 (0.32.0).
"""

from oomph.doctor.reading.milestones import milestone
from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.ir.log_kinds import LogKind

REPORTS: tuple[LogKind, ...] = ("secondary", "engine_failed", "engine_dead")
# a client that waits for its engine (v1/engine/core_client.py, async_llm.py; engine/multiprocessing/client.py)
CLIENT = (
    "core_client.py",
    "async_llm.py",
    "wait_for_engine_startup",
    "make_async_mp_client",
    "multiprocessing/client.py",
)


@rule(
    "other",
    "startup_free_memory",
    "weights_load",
    "profile_run",
    "kv_check",
    "kv_alloc",
    "cudagraph_capture",
    "sampler_warmup",
    "runtime_request",
    names_cause=False,
)
def match(case: Case) -> Finding | None:
    if case.death.kind not in (*REPORTS, "exception", "frame"):
        return None
    waits = case.death.kind in ("exception", "frame") and case.in_traceback(*CLIENT)
    if not case.has(*REPORTS) and not waits:
        return None
    text = (
        "Only the report of a parent process is in this log; what its child died of was printed earlier or elsewhere."
    )
    reached = milestone(case.observations)
    if reached:
        text += f" The log had got to stage {reached}."
    return Finding(
        Tier.REMARK,
        text,
        case.line("secondary", "engine_failed", "engine_dead"),
        ("whole_log",),
        settle="the first traceback of a worker or of EngineCore, above this line",
    )
