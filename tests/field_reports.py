"""Public reports with labels and answers (tests/truth/field/reports.jsonl): the first-sight figures, and the others.

The posts are not kept, only their addresses and the hashes of what was read; so the figures can be counted again from
the record, and anybody who has a post can judge it again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

RECORD = Path(__file__).parent / "truth" / "field" / "reports.jsonl"
Row = Mapping[str, Any]


class Figures(NamedTuple):
    reports: int
    failures: int
    placed: int  # failures whose text tells an expert the stage
    stage: int  # those whose stage is right
    cause: int
    remedy: int  # failures with a lever among the first three that would have helped
    false_all_clears: int
    false_alarms: int
    refused: int
    foreign_flags: int  # answers with a flag of another engine


def rows(half: str = "") -> list[Row]:
    every = [json.loads(line) for line in RECORD.read_text(encoding="utf-8").splitlines()]
    return [row for row in every if not half or row["half"] == half]


def figures(reports: Iterable[Row]) -> Figures:
    judged = list(reports)
    failures = [row for row in judged if row["label"]["failed"]]
    placed = [row for row in failures if row["label"]["stage"] is not None]
    return Figures(
        len(judged),
        len(failures),
        len(placed),
        sum(row["answer"].get("stage") == row["label"]["stage"] for row in placed),
        sum(row["answer"].get("cause") in row["label"]["causes"] for row in failures),
        sum(bool(set(row["answer"].get("levers", ())) & set(row["label"]["levers"])) for row in failures),
        sum(row["answer"].get("failed") is False for row in failures),
        sum(row["answer"].get("failed") is True for row in judged if row["label"]["failed"] is False),
        sum(bool(row["answer"].get("refused")) for row in judged),
        sum(bool(row["answer"].get("foreign_flags")) for row in judged),
    )


def lines() -> list[str]:
    """For people: the first-sight figures, a line per judged batch, apart from the in-sample ones."""
    judged = rows("judge")
    batches = list(dict.fromkeys(row["batch"] for row in judged))
    groups = [(f"first sight, {name} batch", [r for r in judged if r["batch"] == name]) for name in batches]
    engines = sorted({row["engine"] for row in judged})
    groups += [(f"first sight, {name}", [row for row in judged if row["engine"] == name]) for name in engines]
    build = rows("build")
    gathered = [row for row in build if row["batch"].startswith("gathered")]
    groups += [
        ("first sight, all batches", judged),
        ("first sight while it was built", gathered),
        ("in sample", [row for row in build if row not in gathered]),
    ]
    return [_line(name, figures(group)) for name, group in groups]


def _line(name: str, f: Figures) -> str:
    shares = ", ".join(
        f"{what} {count}/{total} ({100 * count / max(1, total):.0f} %)"
        for what, count, total in (
            ("stage", f.stage, f.placed),
            ("cause", f.cause, f.failures),
            ("remedy in the first three", f.remedy, f.failures),
        )
    )
    return (
        f"public reports, {name}: {f.reports}; {shares}; false all-clears {f.false_all_clears}, "
        f"false alarms {f.false_alarms}, refused {f.refused}, flags of another engine {f.foreign_flags}"
    )
