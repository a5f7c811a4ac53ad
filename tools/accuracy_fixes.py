"""accuracy_fixes.py [-v]: is the fix that worked among the first three?

tests/truth/fixes.jsonl has the failing rows of the truth sets whose poster states model, GPU and a fix that worked, as
levers. A row whose log is kept as figures (field-logs.jsonl) is printed again and explained with what was said beside
it; of the others the command is planned. Right: one of the first three is the real fix, or a cheaper one that also
fits (its plan says so, and the real one stands behind it or is of a dearer kind).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import accuracy_logs

from oomph.answers.plan import plan
from oomph.doctor.explain import explain
from oomph.errors import OomphError
from oomph.ir.advice import KINDS
from oomph.sources.gpu import parse_gpus

TRUTH = Path(__file__).parents[1] / "tests" / "truth"
FIRST = 3


class Offer(NamedTuple):
    lever: str
    kind: str
    words: str
    is_planned: bool  # its plan fits


class Answer(NamedTuple):
    name: str
    verdict: str  # "real", "cheaper", "missed", or why the failure is not there to be fixed
    offers: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        return self.verdict in ("real", "cheaper")

    @property
    def is_judged(self) -> bool:
        return self.verdict in ("real", "cheaper", "missed")


def answers() -> Iterator[Answer]:
    logs = {row["id"]: row for row in accuracy_logs.read(TRUTH)}
    for line in (TRUTH / "fixes.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        try:
            offers = _explained(row, logs[row["id"]]["log"]) if row.get("log", True) else _planned(row)
        except OomphError as error:
            yield Answer(row["id"], f"not planned: {error.message[:80]}", ())
            continue
        if offers is None:
            yield Answer(row["id"], "the failure is not reproduced", ())
        else:
            yield Answer(row["id"], _verdict(row, offers), tuple(offer.lever for offer in offers[:FIRST]))


def _explained(row: dict[str, Any], log: str) -> list[Offer] | None:
    answer = explain(log, gpus=parse_gpus(row["gpu"]), command=row["command"].split(), engine=row.get("engine"))
    if not answer.failed and not answer.remedies:
        return None
    return [Offer(r.change.lever, r.change.kind, r.change.label, r.verified) for r in answer.remedies]


def _planned(row: dict[str, Any]) -> list[Offer] | None:
    before = plan(row["command"], gpu=row["gpu"], engine=row.get("engine", ""))
    if before.verdict.outcome == "fits" or before.advice is None:
        return None
    return [Offer(fix.change.lever, fix.change.kind, fix.change.label, True) for fix in before.advice.fixes]


def _verdict(row: dict[str, Any], offers: list[Offer]) -> str:
    first, real = offers[:FIRST], set(row["fix"])
    if any(_is_one_of(real, offer) for offer in first):
        return "real"
    behind = any(_is_one_of(real, offer) for offer in offers[FIRST:])
    dearer = KINDS.index(row["kind"])
    if any(offer.is_planned and (behind or KINDS.index(offer.kind) < dearer) for offer in first):
        return "cheaper"
    return "missed"


def _is_one_of(real: set[str], offer: Offer) -> bool:
    """By its lever; what is done on the host has no lever of its own, but a word."""
    return bool(real & set(offer.lever.split(" + "))) or (
        offer.kind == "host" and any(word in offer.words for word in real)
    )


def show(every_row: bool = False) -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    every = list(answers())
    judged = [answer for answer in every if answer.is_judged]
    right = sum(answer.is_right for answer in judged)
    share = 100 * right / max(1, len(judged))
    print(
        f"{len(every)} failing rows state model, GPU and a fix that worked; {len(judged)} are reproduced; "
        f"the real fix or a cheaper one is among the first {FIRST} in {right} ({share:.0f} %)"
    )
    for answer in every:
        if every_row or not answer.is_right:
            print(f"  {answer.name}: {answer.verdict}; offered: {', '.join(answer.offers) or 'nothing'}")


if __name__ == "__main__":
    show("-v" in sys.argv)
