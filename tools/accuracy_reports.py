"""accuracy_reports.py REPORTS [--causes FILE] [--half NAME] [--list]: `explain` against labelled reports, by basis.

REPORTS has one JSON object per line: `id`, `text` and `label` (or its fields beside them): `failed`, `stage`,
`stage_also`, `stage_tellable`, `engine`, `useless`. The texts are other people's and stay outside of the repository.
FILE says which rules answer the cause of a report: {"id": {"right": ["M01"], "half": ["K02"]}}; without it causes are
only listed. A figure that was seen while rules were written is in-sample; say so where it is quoted.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import oomph
from oomph.errors import OomphError
from oomph.facts.topics import topics_of
from oomph.ir.evidence import asserts

VLLM_ONLY = re.compile(
    r"--(?:gpu-memory-utilization|max-num-batched-tokens|max-num-seqs|enforce-eager|max-model-len)\b"
)
ENGINES = {"llama.cpp": "llamacpp", "trt-llm": "trtllm", "tensorrt-llm": "trtllm"}


class Tally:
    """How many of what were right, and which were not."""

    def __init__(self) -> None:
        self.right: Counter[str] = Counter()
        self.total: Counter[str] = Counter()
        self.misses: dict[str, list[str]] = defaultdict(list)

    def add(self, what: str, is_right: bool, note: str) -> None:
        self.total[what] += 1
        self.right[what] += is_right
        if not is_right:
            self.misses[what].append(note)

    def show(self, misses: bool) -> None:
        for what, total in self.total.items():
            print(f"{what:44} {self.right[what]}/{total} = {self.right[what] / total:.0%}")
            for miss in self.misses[what] if misses else ():
                print("     ", miss)


def judge(row: dict[str, Any], causes: dict[str, Any], tally: Tally, listing: bool) -> None:
    label = row.get("label", row)
    name = str(row["id"])
    try:
        answer = oomph.explain(row["text"].rstrip("\n") + "\n", plan=not os.environ.get("NO_PLAN"))
    except OomphError as refused:
        tally.add("not refused", False, f"{name}: {refused}")
        return
    tally.add("not refused", True, name)
    if listing:
        pair = "/".join(f"{one.stage}:{one.probability}" for one in answer.stages)
        known = f"{answer.engine.name} {answer.failed} {answer.stage} ({answer.stage_basis}) {pair}"
        cause = f"{answer.cause.id} sure={answer.cause.sure} | {answer.cause.title}"
        print(f"{name} [{label.get('stage')}] {known} {cause} | label: {label.get('cause', '')[:110]}")
    _failed(answer, label, name, tally)
    if label.get("failed"):
        _stage(answer, label, name, tally)
        _cause(answer, causes.get(name), name, tally)
    _advice(answer, label, name, tally)


def _failed(answer: oomph.Explanation, label: dict[str, Any], name: str, tally: Tally) -> None:
    if label.get("failed"):
        tally.add("no false all-clear", answer.failed is not False, f"{name}: {answer.cause.title}")
        tally.add("said to have failed", answer.failed is True, f"{name}: {answer.failed}")
    elif label.get("failed") is False:
        tally.add("no false alarm", answer.failed is not True, f"{name}: {answer.stage} {answer.cause.title}")


def _stage(answer: oomph.Explanation, label: dict[str, Any], name: str, tally: Tally) -> None:
    stages = {label.get("stage"), *label.get("stage_also", label.get("also", []))}
    if not label.get("stage") or not label.get("stage_tellable", True):
        return
    named: set[str | None] = {one.stage for one in answer.stages} or {answer.stage}
    note = f"{name}: {label['stage']}, said {answer.stage} ({answer.stage_basis}) of {sorted(map(str, named))}"
    tally.add(f"stage by {answer.stage_basis or 'nothing'}", answer.stage in stages, note)
    if asserts(answer.stage_basis):
        tally.add("asserted stages right", answer.stage in stages, note)
    tally.add("stage asserted or among two", bool(stages & named), note)


def _cause(answer: oomph.Explanation, rules: dict[str, list[str]] | None, name: str, tally: Tally) -> None:
    if rules is None:
        return
    right, half = answer.cause.id in rules["right"], answer.cause.id in rules.get("half", [])
    tally.add("cause right", right, f"{name}: {answer.cause.id} {answer.cause.title}")
    tally.add("cause right or half right", right or half, f"{name}: {answer.cause.id} {answer.cause.title}")
    if answer.cause.sure:
        tally.add("sure causes right or half right", right or half, f"{name}: {answer.cause.id} {answer.cause.title}")


def _advice(answer: oomph.Explanation, label: dict[str, Any], name: str, tally: Tally) -> None:
    advised = [one.change.label for one in answer.remedies]
    useless = {topic for words in label.get("tried", []) for topic in topics_of(words)}
    again = [words for words in advised if topics_of(words) & useless]
    tally.add("no advice of what was tried", not again, f"{name}: {again}")
    engine = ENGINES.get(str(label.get("engine")), str(label.get("engine")))
    foreign = [words for words in advised if engine != "vllm" and VLLM_ONLY.search(words)]
    tally.add("no flag of vLLM's for another", not foreign, f"{name} ({engine}): {foreign}")
    wrong = answer.engine.name not in ("", engine)
    tally.add("no other engine", not wrong, f"{name}: {answer.engine.name}, is {engine}")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("reports", type=Path)
    parser.add_argument("--causes", type=Path)
    parser.add_argument("--half", default="")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    rows = [json.loads(line) for line in given.reports.read_text(encoding="utf-8").splitlines()]
    causes = json.loads(given.causes.read_text(encoding="utf-8")) if given.causes else {}
    tally = Tally()
    for row in rows:
        if not given.half or row.get("half") == given.half:
            judge(row, causes, tally, given.list)
    tally.show(misses=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
