"""What holds for any engine and any load."""

from __future__ import annotations

import itertools
import random

from hypothesis import given, settings, strategies as st
from random_cases import config as random_config, time as random_time, workload as random_workload
from test_agreement import Kept

from oomph.engines.vllm.scheduler.loop import Loop
from oomph.engines.vllm.scheduler.steady import Steady
from oomph.simulate.config import Config, Group, Job
from oomph.simulate.timing import StepTime, unit


class Watched(Loop):
    """Checks the engine's own limits at every single step."""

    def duration(self, batch):  # type: ignore[no-untyped-def]
        tokens = self.steady.size + sum(e.new for e in batch)
        assert 0 < tokens <= self.c.max_num_batched_tokens
        assert self.steady.size + len(self.ending) + len(self.tail) <= self.c.max_num_seqs
        assert 0 <= self.pool.free <= self.c.usable
        return super().duration(batch)


def _case(seed: int):  # type: ignore[no-untyped-def]
    r = random.Random(seed)
    shared = r.random() < 0.4
    c = random_config(r, shared)
    return c, random_time(r, len(c.groups)), random_workload(r, c, shared), shared


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32))
def test_limits_conservation_and_determinism(seed: int) -> None:
    c, time, workload, shared = _case(seed)
    first, second = Kept(), Kept()
    fast = Watched(c, time, workload, first, shared)
    fast.run()
    Loop(c, time, workload, second, shared).run()
    assert first.records == second.records
    assert fast.pool.free == c.usable
    ids = [r.job.id for r in first.records]
    assert len(ids) == len(set(ids)) == len(workload.list) + len(workload.replies)
    for r in first.records:
        if r.outcome == "done":
            assert r.job.at <= r.started < r.first_token <= r.finished
            assert r.output == min(r.job.output, c.max_model_len - r.job.prompt)
            assert r.cached < r.job.prompt
        elif r.outcome == "rejected":
            assert r.job.prompt >= c.max_model_len and r.finished == r.job.at
    if not any(r.preemptions for r in first.records) and not any(r.cached for r in first.records):
        computed = sum(r.job.prompt + r.output - 1 for r in first.records if r.outcome == "done")
        if c.known_end and not c.spec_tokens and not any(r.outcome == "never" for r in first.records):
            assert fast.tokens == computed


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32))
def test_first_come_first_served(seed: int) -> None:
    c, time, workload, shared = _case(seed)
    kept = Kept()
    Loop(c, time, workload, kept, shared).run()
    if c.policy == "fcfs":
        started = sorted((r for r in kept.records if r.started >= 0), key=lambda r: (r.job.at, r.job.id))
        assert all(a.started <= b.started for a, b in itertools.pairwise(started))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 50), st.integers(0, 50), st.integers(1, 200))
def test_many_steps_at_once_last_as_long_as_one_by_one(m: int, k: int, kv: int, attention: int, n: int) -> None:
    c = Config((Group("full", 16),), 10**6, 8, 64, 10**6)
    time = StepTime(7, weights=m, linear=k, kv=(kv,), attention=(attention,))
    from oomph.engines.vllm.scheduler.live import Live

    steady = Steady(c)
    for i in range(3):
        req = Live(Job(i, 0, 100 * i + 5, 10**5), 10**5)
        req.computed, req.order = 100 * i + 9, i
        steady.join(req)
    whole = steady.duration(time.fixed(3, 3), time.decoding(), n)
    one_by_one = []
    for _ in range(n):
        one_by_one.append(steady.duration(time.fixed(3, 3), time.decoding(), 1)[0])
        steady.advance(1)
    assert whole == (sum(one_by_one), one_by_one[-1])


def test_steps_instead_of_time() -> None:
    c = Config((Group("full", 16),), 1000, 8, 64, 1000)

    class One:
        def jobs(self):  # type: ignore[no-untyped-def]
            return iter([Job(1, 0, 100, 10)])

        def done(self, job: Job, at: int) -> None:
            return None

    kept = Kept()
    fast = Loop(c, unit(1), One(), kept, False)
    fast.run()
    assert fast.steps == 2 + 9  # two chunks of 64 and 36, the second samples; then nine more tokens
