"""Compares oomph's scheduler with the real one: python tools/real_scheduler/compare.py CASES.jsonl STEPS.jsonl [-v]

CASES.jsonl is what cases.py drew, STEPS.jsonl what drive.py saw. A case agrees if every step schedules the same tokens
of the same requests in the same order and leaves the same number of blocks free.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import msgspec

from oomph.engines.vllm.scheduler.loop import Loop
from oomph.engines.vllm.scheduler.pipeline import PipelineLoop
from oomph.engines.vllm.scheduler.scheduler import Entry
from oomph.simulate.config import Config, Job, Record
from oomph.simulate.timing import unit


class Listed:
    def __init__(self, jobs: list[Job]) -> None:
        self.list = jobs

    def jobs(self) -> Iterator[Job]:
        return iter(sorted(self.list, key=lambda job: (job.at, job.id)))

    def done(self, job: Job, at: int) -> Job | None:
        return None


class Silent:
    def __init__(self) -> None:
        self.never = 0

    def record(self, record: Record) -> None:
        self.never += record.outcome == "never"

    def step(self, now: int, ticks: int, running: int, waiting: int, used: int, binds: str, preemptions: int) -> None:
        pass


def ours(case: dict[str, Any]) -> tuple[list[Any], bool]:
    """(steps, whether a request never starts)."""
    config = msgspec.convert({k: v for k, v in case["config"].items() if k != "method"}, Config)
    jobs = [msgspec.convert(job, Job) for job in case["jobs"]]
    shared = config.prefix_caching
    kind = PipelineLoop if config.stages > 1 else Loop
    steps: list[Any] = []

    class Recorded(kind):  # type: ignore[misc, valid-type]
        def duration(self, batch: list[Entry]) -> int:
            resting = [(req.order, [req.job.id, 1]) for req in self.steady.reqs.values()]
            entries = [(entry.req.order, [entry.req.job.id, entry.new]) for entry in batch]
            listed = sorted([*resting, *entries], key=itemgetter(0)) if resting else entries
            steps.append([[pair for _, pair in listed], self.pool.free])
            return int(super().duration(batch))

    observer = Silent()
    loop = Recorded(config, unit(len(config.groups)), Listed(jobs), observer, shared)
    loop.summed = False
    loop.run(60_000)
    return steps, observer.never > 0


def main() -> int:
    with open(sys.argv[1], encoding="utf-8") as lines:
        cases = {case["id"]: case for case in map(json.loads, lines)}
    counts: Counter[str] = Counter()
    steps_equal = 0
    with open(sys.argv[2], encoding="utf-8") as lines:
        for real in map(json.loads, lines):
            case = cases[real["id"]]
            if real["end"] == "error":
                counts["not driven"] += 1
                if "-v" in sys.argv:
                    print(real["id"], " ".join(case["command"]), real["error"][-400:])
                continue
            steps, never = ours(case)
            if real["end"] == "stuck":  # the real engine waits for ever; ours takes the request out and goes on
                steps = steps[: len(real["steps"])]
                if not never:
                    counts["ours never waits"] += 1
            if real["end"] == "cut" and never:  # it computes one request again for ever; ours gives that request up
                counts["real engine never ends"] += 1
                print(f"{real['id']} {' '.join(case['command'])}: the real engine never ends")
                continue
            first = next((i for i, (a, b) in enumerate(zip(real["steps"], steps)) if a != b), None)
            if first is None and len(steps) == len(real["steps"]):
                counts["equal"] += 1
                steps_equal += len(steps)
                continue
            counts["different"] += 1
            where = first if first is not None else min(len(steps), len(real["steps"]))
            print(f"{real['id']} {' '.join(case['command'])}: step {where} of {len(real['steps'])}, ours {len(steps)}")
            if "-v" in sys.argv and first is not None:
                print(f"  real {real['steps'][first]}\n  ours {steps[first]}")
    total = counts["equal"] + counts["different"]
    print(f"{counts['equal']} of {total} workloads equal, {steps_equal:,} steps; {dict(counts)}")
    return 0 if counts["equal"] == total else 1


if __name__ == "__main__":
    sys.exit(main())
