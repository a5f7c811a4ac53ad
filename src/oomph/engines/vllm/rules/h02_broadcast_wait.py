"""H02: A worker is busy; nothing is short.

Waiting for a worker, not a memory error.

What it is: "No available shared memory broadcast block found in 60 seconds" is printed while a worker is busy
compiling, loading or capturing, or is dead.

How to recognise it: INFO level, repeated, and no other error.

Look-alikes: H01 (shared memory really is too small).

What fixes it: waiting, or finding the worker that died.

What does not: --shm-size.

Evidence: distributed/device_communicators/shm_broadcast.py:109 (0.21.0).
"""

from oomph.doctor.writing import Case, Finding, Tier, rule


@rule("other", "weights_load", "profile_run", "cudagraph_capture", "runtime_request", failure=False)
def match(case: Case) -> Finding | None:
    if not case.has("broadcast_wait") or case.failed:
        return None
    return Finding(
        Tier.POSSIBLE,
        "A process waits for a worker that is busy (compiling, loading, capturing) or dead; no memory is short.",
        case.line("broadcast_wait"),
        ("wait_for_worker",),
        {"shm": "the buffer is not too small, nobody has read it yet"},
        settle="py-spy dump of the workers, or the first error of any rank",
    )
