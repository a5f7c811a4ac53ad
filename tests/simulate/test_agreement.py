"""The fast simulator and the literal one agree to the tick on every request of 200 random workloads.

OOMPH_SIMULATE_CASES=20000 makes it more; tools/bench_simulate.py --agree does the same outside of pytest.
"""

from __future__ import annotations

import os

import pytest
from random_cases import Listed, branching_case, case, conversation_case
from reference import Reference

from oomph.engines.vllm.scheduler.live import Live
from oomph.engines.vllm.scheduler.loop import Loop
from oomph.engines.vllm.scheduler.runs import RunPool
from oomph.simulate.config import Config, Group, Record
from oomph.simulate.timing import StepTime, unit
from oomph.simulate.workloads import Arrivals, Drawn, Shape

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


def compare(name: str, config: Config, time: StepTime, workload: Listed, shared: bool, thorough: bool) -> None:
    literal = Reference(config, time, workload, thorough=thorough)
    literal.run()
    kept = Kept()
    fast = Loop(config, time, workload, kept, shared)
    fast.run()
    # a request that is refused while many steps are taken at once is written down after them
    assert in_order(kept.records) == in_order(literal.records), name
    assert (fast.steps, fast.now, fast.preemptions, fast.tokens) == (
        literal.steps, literal.now, literal.preemptions, literal.scheduled_tokens,
    ), name  # fmt: skip
    assert fast.pool.free == config.usable, f"{name}: a block was lost"
    assert kept.most <= config.usable


@pytest.mark.parametrize("start", range(0, CASES, CHUNK))
def test_fast_equals_literal(start: int) -> None:
    for seed in range(start, min(CASES, start + CHUNK)):
        config, time, workload, shared = case(seed)
        compare(f"seed {seed}", config, time, workload, shared, seed % 10 == 0)


@pytest.mark.parametrize("start", range(0, CASES, CHUNK))
def test_runs_of_blocks_equal_literal_blocks(start: int) -> None:
    for seed in range(start, min(CASES, start + CHUNK)):
        compare(f"conversation {seed}", *conversation_case(seed), True, seed % 10 == 0)


@pytest.mark.parametrize("start", range(0, CASES // 2, CHUNK))
def test_branches_of_several_kinds_of_groups(start: int) -> None:
    for seed in range(start, min(CASES, start + CHUNK)):
        compare(f"branches {seed}", *branching_case(seed), True, seed % 10 == 0)


def test_a_request_holds_as_many_runs_whatever_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each segment of its conversation, and one more where others branch off."""
    most: list[int] = []
    release = RunPool.release

    def count(pool: RunPool, req: Live) -> None:
        most.append(len(req.runs) - len(req.job.chain))
        release(pool, req)

    monkeypatch.setattr(RunPool, "release", count)
    for factor in (1, 20):
        shape = Shape(150 * factor, 50 * factor, 0.6, 0.8, shared=200 * factor, turns=6, turn_prompt=70 * factor)
        engine = Config((Group("full", 16),), 1000 * factor, 16, 2048, 1 << 20, prefix_caching=True)
        Loop(engine, unit(1), Drawn(shape, Arrivals(users=8), 100), Kept(), True).run()
    assert len(most) == 200
    assert max(most) <= 1


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
