"""Draws cases for drive.py: python tools/real_sglang_scheduler/cases.py RELEASE COUNT [SEED] > CASES.jsonl

Random settings of SGLang's scheduler with a pool that is short, and random requests: some together, some one after the
other, some with prefixes in common, some longer than a chunk. It needs no oomph.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

MILLISECOND = 10**12
EVICTIONS = ("lru", "lru", "lru", "lru", "lfu", "fifo", "mru", "filo", "priority", "slru")
HRRN_SINCE = (0, 5, 20)


def settings(r: random.Random, release: str) -> dict[str, Any]:
    page = r.choice([1, 1, 16, 64])
    chunk = r.choice([256, 512, 2048, 0])
    by_priority = r.random() < 0.2
    policies = ["fcfs", "fcfs", "lpm", "dfs-weight", "lof"]
    if tuple(map(int, release.split("."))) >= HRRN_SINCE:
        policies.append("hrrn")
    radix = r.random() < 0.85 or not chunk  # without either, 0.5.20 fails at its first request
    return {
        "page_size": page,
        "policy": r.choice(["fcfs", "lof"]) if by_priority else r.choice(policies),
        "conservativeness": r.choice([1.0, 1.0, 0.3, 0.05]),
        "chunk": chunk,
        "mixed": bool(chunk) and r.random() < 0.3,
        "max_prefill_tokens": r.choice([1024, 16384]),
        "max_running_requests": r.choice([2, 4, 8, 16, 48]),
        "context_length": 4096,
        "radix": radix,
        "eviction": r.choice(EVICTIONS),
        "priority": by_priority,
        "tokens": r.choice([1500, 3000, 6000]) // page * page,
        "low_first": by_priority and r.random() < 0.5,
        "preemption_threshold": r.choice([0, 1, 10]),
        "overlap": r.random() < 0.75,
        "window": 0,
        "window_tokens": 0,
    }


def requests(r: random.Random, config: dict[str, Any]) -> list[dict[str, Any]]:
    longest = min(config["tokens"] - 2 * config["page_size"] - 2, 3900)
    gap, shared = r.choice([0, 3, 20, 60]), r.random() < 0.6
    jobs: list[dict[str, Any]] = []
    at = 0
    for number in range(r.randint(4, 32)):
        at += r.randint(0, gap) * MILLISECOND + r.choice([0, MILLISECOND // 3]) if gap else 0
        chain = []
        if shared and r.random() < 0.8:
            chain = [[r.randint(1, 3), r.choice([16, 40, 200, 700])] for _ in range(r.randint(1, 3))]
        jobs.append(
            {"id": number, "at": at, "prompt": min(longest, round(2 ** r.uniform(3, 11))),
             "output": round(2 ** r.uniform(0, 8)), "chain": chain,
             "priority": r.randint(0, 3) if config["priority"] else 0, "fixed": r.random() < 0.15}
        )  # fmt: skip
    return jobs


def draw(release: str, seed: int) -> dict[str, Any]:
    r = random.Random(f"{release}/{seed}")
    config = settings(r, release)
    return {"id": f"{release}/{seed}", "release": release, "config": config, "jobs": requests(r, config)}


def main() -> int:
    release, count = sys.argv[1], int(sys.argv[2])
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    for seed in range(first, first + count):
        print(json.dumps(draw(release, seed), separators=(",", ":")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
