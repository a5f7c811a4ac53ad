"""R12: A second engine in the same process.

What it is: the sleep-mode allocator exists once per process; without sleep mode the first engine's memory is usually
still held.

How to recognise it: "Sleep mode can only be used for one instance per process".

Look-alikes: D01 (another process).

What fixes it: one process per engine; the first engine shut down and collected before the second; shares that sum
below 1.

What does not: empty_cache alone.

Evidence: gpu_worker.py:209 (0.21.0).
"""

from oomph.doctor.writing import Case, Finding, Tier, rule


@rule("startup_free_memory", "weights_load")
def match(case: Case) -> Finding | None:
    line = case.first("sleep_twice")
    if line is None:
        return None
    return Finding(
        Tier.SAID,
        "A second engine was started in the process of the first; the allocator of sleep mode exists once.",
        (line.line,),
        (
            "one_process_per_engine",
            "end_first_engine",
        ),
        {"empty_cache": "the first engine still references its memory"},
    )
