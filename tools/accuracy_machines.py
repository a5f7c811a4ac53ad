"""`make accuracy`: posted starts on unified memory, AMD and Intel cards (tests/truth/machines.jsonl)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from machine_truth import grade, kv_inside, planned, rows
from oomph.errors import OomphError


def show(*, every: bool = False) -> None:
    groups = {"given": [row for row in rows() if not row["id"].startswith("p")],
              "found later": [row for row in rows() if row["id"].startswith("p")]}  # fmt: skip
    for name, group in groups.items():
        if group:
            _show(name, group, every)


def _show(name: str, group: list[dict[str, Any]], every: bool) -> None:
    grades: Counter[str] = Counter()
    inside: list[bool] = []
    skipped = [row["id"] for row in group if not row["command"]]
    for row in group:
        if not row["command"]:
            continue
        try:
            foreseen = planned(row)
        except OomphError as refused:
            grades["refused"] += 1
            print(f"  {row['id']}: {refused.message[:90]}")
            continue
        grades[grade(row, foreseen) or "not about memory"] += 1
        within = kv_inside(row, foreseen)
        inside += [within] if within is not None else []
        if every:
            print(f"  {row['id']:<5}{row['outcome']:<21}{foreseen.verdict.outcome:<9}{grade(row, foreseen)}")
    total = sum(grades.values())
    print(
        f"posted machines, {name}: {total} planned: " + ", ".join(f"{n} {word}" for word, n in sorted(grades.items()))
    )
    if inside:
        print(f"  KV memory inside its interval: {sum(inside)} of {len(inside)}")
    if skipped:
        print(f"  not planned (the row says why): {' '.join(skipped)}")


if __name__ == "__main__":
    import sys

    show(every="--all" in sys.argv)
