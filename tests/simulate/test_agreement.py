"""The fast simulator and the literal one agree to the tick on every request of 200 random workloads.

OOMPH_SIMULATE_CASES=20000 makes it more; tools/bench_simulate.py --agree does the same outside of pytest.
"""

from __future__ import annotations

import os

import pytest
from random_cases import case
from reference import Reference

from oomph.engines.vllm.scheduler.loop import Loop
from oomph.simulate.config import Record

CASES = int(os.environ.get("OOMPH_SIMULATE_CASES", "200"))
CHUNK = 25


class Kept:
    def __init__(self) -> None:
        self.records: list[Record] = []
        self.most = 0

    def record(self, record: Record) -> None:
        self.records.append(record)

    def step(self, now: int, ticks: int, running: int, waiting: int, used: int, binds: str, preemptions: int) -> None:
        self.most = max(self.most, used)


def in_order(records: list[Record]) -> list[Record]:
    return sorted(records, key=lambda r: (r.finished, r.job.id))


@pytest.mark.parametrize("start", range(0, CASES, CHUNK))
def test_fast_equals_literal(start: int) -> None:
    for seed in range(start, min(CASES, start + CHUNK)):
        config, time, workload, shared = case(seed)
        literal = Reference(config, time, workload, thorough=seed % 10 == 0)
        literal.run()
        kept = Kept()
        fast = Loop(config, time, workload, kept, shared)
        fast.run()
        # a request that is refused while many steps are taken at once is written down after them
        assert in_order(kept.records) == in_order(literal.records), f"seed {seed}"
        assert (fast.steps, fast.now, fast.preemptions, fast.tokens) == (
            literal.steps, literal.now, literal.preemptions, literal.scheduled_tokens,
        ), f"seed {seed}"  # fmt: skip
        assert fast.pool.free == config.usable, f"seed {seed}: a block was lost"
        assert kept.most <= config.usable


def test_the_cases_are_hard_enough() -> None:
    """Preemption, prefix hits, sums of steps, requests that never start: each in many of the cases."""
    seen = {"preempted": 0, "hits": 0, "summed": 0, "never": 0}
    for seed in range(60):
        config, time, workload, shared = case(seed)
        kept = Kept()
        fast = Loop(config, time, workload, kept, shared)
        fast.run()
        seen["preempted"] += fast.preemptions > 0
        seen["hits"] += any(r.cached for r in kept.records)
        seen["summed"] += fast.summed
        seen["never"] += any(r.outcome == "never" for r in kept.records)
    assert min(seen.values()) >= 6, seen
