"""Compares our scheduler with SGLang's: python tools/real_sglang_scheduler/compare.py CASES.jsonl [STEPS.jsonl] [-v]

CASES.jsonl is what cases.py drew, STEPS.jsonl what drive.py saw. A case agrees if every step is of the same kind, with
the same tokens of the same requests in the same order, and leaves the same number of tokens free. Without STEPS.jsonl
oomph's own steps are printed in the form of drive.py, so that they can be kept and hashed before the real one runs.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, deque
from typing import Any

from oomph.engines.sglang.scheduler.live import Live
from oomph.engines.sglang.scheduler.scheduler import Scheduler
from oomph.engines.sglang.scheduler.settings import Settings
from oomph.facts.sglang.facts import at
from oomph.simulate.config import Job
from oomph.simulate.timing import MILLISECOND
from oomph.units import cdiv

PATIENCE = 50  # rounds without a batch after which nothing will ever be scheduled, as in drive.py
MOST_STEPS = 20_000


def ours(case: dict[str, Any]) -> dict[str, Any]:
    """The same rounds as drive.py, of our scheduler."""
    scheduler = Scheduler(_settings(case))
    waiting = deque(sorted(case["jobs"], key=lambda job: (job["at"], job["id"])))
    steps: list[Any] = []
    clock = idle = 0
    while len(steps) < MOST_STEPS and idle <= PATIENCE:
        while waiting and waiting[0]["at"] <= clock:
            scheduler.enqueue(_request(waiting.popleft(), scheduler.settings))
        batch, previous = scheduler.next_batch(), scheduler.in_flight
        if batch is not None:
            entries = [[request.job.id, new] for request, new, _ in batch.prompts]
            entries += [[request.job.id, 1] for request in batch.decoding]
            steps.append([batch.kind, entries, scheduler.free])
        if scheduler.settings.overlap:
            scheduler.in_flight = batch
            if previous is not None:
                scheduler.process(previous)
        elif batch is not None:
            scheduler.process(batch)
        if batch is None and scheduler.last is None:
            scheduler.ratio = scheduler.settings.first_ratio
            idle += 1
            if not scheduler.waiting and scheduler.chunked is None and not scheduler.running:
                if not waiting:
                    return {"id": case["id"], "steps": steps, "end": "done"}
                clock = max(clock, waiting[0]["at"])
        else:
            idle = 0
        scheduler.last = batch
        clock += MILLISECOND if batch is not None else 0
    return {"id": case["id"], "steps": steps, "end": "stuck" if idle > PATIENCE else "cut"}


def _settings(case: dict[str, Any]) -> Settings:
    names = {name: value for name, value in case["config"].items() if name not in ("window", "window_tokens")}
    return Settings(rules=at(case["release"]).scheduler, **names)


def _request(job: dict[str, Any], settings: Settings) -> Live:
    page, prompt = settings.page_size, job["prompt"]
    room = min(settings.longest - prompt - 1, settings.tokens - cdiv(prompt, page) * page - page - 1)
    chain = tuple((segment, tokens) for segment, tokens in job["chain"])
    own = Job(job["id"], job["at"], prompt, job["output"], chain, job["priority"])
    return Live(own, max(0, min(job["output"], room)), job["fixed"])


def _read(path: str) -> list[dict[str, Any]]:
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def main() -> int:
    paths = [word for word in sys.argv[1:] if word != "-v"]
    cases = {case["id"]: case for case in _read(paths[0])}
    if len(paths) == 1:
        for case in cases.values():
            print(json.dumps(ours(case), separators=(",", ":")))
        return 0
    counts: Counter[str] = Counter()
    for real in _read(paths[1]):
        if real["end"] == "error":
            counts["not driven"] += 1
            print(real["id"], real["error"][-300:])
            continue
        own = ours(cases[real["id"]])
        counts["steps"] += len(real["steps"])
        if own == real:
            counts["equal"] += 1
            continue
        counts["different"] += 1
        pairs = enumerate(zip(real["steps"], own["steps"]))
        first = next((index for index, (a, b) in pairs if a != b), min(len(real["steps"]), len(own["steps"])))
        print(f"{real['id']}: step {first} of {len(real['steps'])}, ours {len(own['steps'])}, {own['end']}")
        if "-v" in sys.argv:
            print(f"  real {real['steps'][first : first + 1]}\n  ours {own['steps'][first : first + 1]}")
    total = counts["equal"] + counts["different"]
    print(f"{counts['equal']} of {total} workloads equal, {counts['steps']:,} steps, {counts['not driven']} not driven")
    return 0 if counts["equal"] == total else 1


if __name__ == "__main__":
    sys.exit(main())
