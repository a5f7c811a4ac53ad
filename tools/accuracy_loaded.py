"""accuracy_loaded.py [TRUTH_DIR]: weights after loading against real start-ups on one H200 (tests/truth/h200.jsonl)."""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter

_ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(_ROOT / "tests" / "engines" / "vllm"))
from h200_truth import Case, rows  # noqa: E402


def main() -> None:
    truth = Path(sys.argv[1]) if len(sys.argv) > 1 else _ROOT / "tests" / "truth"
    exact = within = count = 0
    worst = ("", 0.0)
    seconds = 0.0
    for row in rows(truth):
        want = row["weights_bytes"]
        if not want:
            continue
        case = Case(row, truth)
        started = perf_counter()
        plan = case.plan()
        seconds += perf_counter() - started
        off = (plan.loaded_bytes - want) / want
        count += 1
        exact += plan.loaded_bytes == want
        within += abs(off) <= 0.0015
        worst = max(worst, (row["id"], off), key=lambda w: abs(w[1]))
        print(
            f"{row['id']:36s} created {plan.created_bytes:>12d} ours {plan.loaded_bytes:>12d} theirs {want:>12d} "
            f"{off:+.4%}  peak +{(plan.peak_bytes - plan.loaded_bytes) / 2**20:.0f} MiB "
            f"({plan.peak_where.doing} {plan.peak_where.where} {plan.peak_where.module})"
        )
    print(
        f"weights after loading: {exact} of {count} to the byte, {within} within 0.15 %, worst {worst[1]:+.4%} "
        f"({worst[0]}); {1e3 * seconds / count:.1f} ms a row"
    )


if __name__ == "__main__":
    main()
