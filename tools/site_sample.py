"""site_sample.py FOLDER [COUNT] [SEED]: random figures of a site, planned again by `oomph plan --json`."""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any


def planned(row: dict[str, Any]) -> tuple[int, int, float]:
    words = [sys.executable, "-m", "oomph", "plan", "--json", "--no-advice", "--gpu", f"{row['count']}x {row['card']}"]
    words += ["--engine", f"{row['engine']}=={row['release']}", "--", *shlex.split(row["command"])]
    answer = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    kv = answer["kv"] or {}
    weights = answer["ranks"][0]["terms"]["weights"]["bytes"]
    return weights, kv.get("logged_tokens", 0), kv.get("max_concurrency", 0.0)


def main(argv: list[str]) -> int:
    rows = [json.loads(line) for line in (Path(argv[0]) / "figures.jsonl").read_text().splitlines()]
    count, seed = int(argv[1]) if len(argv) > 1 else 50, argv[2] if len(argv) > 2 else "44"
    wrong = 0
    for row in random.Random(seed).sample(rows, count):
        ours = (row["weights_bytes"], row["tokens"], row["users"])
        if (theirs := planned(row)) != ours:
            wrong += 1
            print(f"{row['command']} on {row['count']} x {row['card']}: {ours}, planned again {theirs}")
    print(f"{count - wrong} of {count} figures (of {len(rows)}) are those of oomph plan")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
