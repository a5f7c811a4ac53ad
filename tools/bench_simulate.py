"""How fast the simulator is, and whether it still agrees with the literal one.

    python tools/bench_simulate.py [--requests 1000000]     requests of 1,000 tokens, one core: CPU seconds, memory
    python tools/bench_simulate.py --agree 20000            random workloads, fast against literal

No numpy: residues and straight lines make a stretch of decoding one sum, so that what is left is a few dozen
microseconds of Python for each request (arrival, admission, three single steps, finish).
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from oomph.engines.vllm.scheduler.loop import Loop
from oomph.simulate.config import Config, Group, Job, Record
from oomph.simulate.result import Collector
from oomph.simulate.timing import MILLISECOND, StepTime
from oomph.simulate.workloads import SHAPES, Arrivals, Drawn, Shape

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "simulate"))
ROOFLINE = StepTime(MILLISECOND, weights=4 * MILLISECOND, linear=28 * 10**9, kv=(41 * 10**6,), attention=(10**6,))


class Poisson:
    """An open load without a queue of its own: a generator."""

    shared = False

    def __init__(self, shape: Shape, rate: float, requests: int) -> None:
        self.drawn = Drawn(shape, Arrivals(rate=rate), requests)

    def jobs(self) -> Iterator[Job]:
        return self.drawn.jobs()

    def done(self, job: Job, at: int) -> Job | None:
        return None


def speed(requests: int) -> None:
    plain = Config((Group("full", 16),), 30000, 256, 8192, 8192, lag=1)
    drafts = replace(plain, spec_tokens=3, lookahead=3, accepted=1800)
    cached = replace(plain, prefix_caching=True)
    long = replace(cached, max_model_len=32768, uncached_first=True)
    few = max(1, requests // 50)  # one by one: a fiftieth is enough to know
    for name, config, workload, shared in (
        ("256 users, 800 in + 200 out", plain, Drawn(Shape(800, 200), Arrivals(users=256), requests), False),
        ("256 users, 500 in + 500 out", plain, Drawn(Shape(500, 500), Arrivals(users=256), requests), False),
        ("8 users, 900 in + 100 out", plain, Drawn(Shape(900, 100), Arrivals(users=8), requests), False),
        ("20 requests/s, 800 in + 200 out", plain, Poisson(Shape(800, 200), 20.0, requests), False),
        ("prefix caching on, nothing shared", cached, Drawn(Shape(800, 200), Arrivals(users=256), requests), False),
        ("400 of 800 tokens shared", cached, Drawn(Shape(400, 200, shared=400), Arrivals(users=256), requests), True),
        ("3 drafts, 800 in + 200 out", drafts, Drawn(Shape(800, 200), Arrivals(users=256), few), False),
        ("chat, 64 users", plain, Drawn(SHAPES["chat"], Arrivals(users=64), requests), False),
        ("long, 8 users", long, Drawn(SHAPES["long"], Arrivals(users=8), requests), False),
        ("agentic, 8 users", long, Drawn(SHAPES["agentic"], Arrivals(users=8), requests), True),
        ("agentic, 64 users", long, Drawn(SHAPES["agentic"], Arrivals(users=64), requests), True),
        ("agentic, 256 users", long, Drawn(SHAPES["agentic"], Arrivals(users=256), requests), True),
    ):
        collector = Collector(config)
        loop = Loop(config, ROOFLINE, workload, collector, shared)
        begun = time.process_time()
        loop.run()
        took = time.process_time() - begun
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        result = collector.result(loop.steps)
        print(
            f"{name}: {result.done:,} requests, {loop.steps:,} steps in {took:.1f} s of CPU "
            f"({1e6 * took / result.done:.1f} us each), peak {peak} MiB, {result.preemptions:,} preemptions"
        )


class _Kept:
    def __init__(self) -> None:
        self.records: list[Record] = []

    def record(self, record: Record) -> None:
        self.records.append(record)

    def step(self, now: int, ticks: int, running: int, waiting: int, used: int, binds: str, preemptions: int) -> None:
        pass


def _ended(record: Record) -> tuple[int, int]:
    return record.finished, record.job.id


def agree(cases: int) -> int:
    from random_cases import case
    from reference import Reference

    wrong = 0
    for seed in range(cases):
        config, step_time, workload, shared = case(seed)
        literal = Reference(config, step_time, workload, thorough=False)
        literal.run()
        kept = _Kept()
        fast = Loop(config, step_time, workload, kept, shared)
        fast.run()
        same = sorted(kept.records, key=_ended) == sorted(literal.records, key=_ended)
        if not same or (fast.steps, fast.now) != (literal.steps, literal.now):
            wrong += 1
            print(f"seed {seed} differs")
    print(f"{cases - wrong:,} of {cases:,} random workloads agree to the tick")
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--agree", type=int, default=0)
    args = parser.parse_args()
    if args.agree:
        return agree(args.agree)
    speed(args.requests)
    return 0


if __name__ == "__main__":
    sys.exit(main())
