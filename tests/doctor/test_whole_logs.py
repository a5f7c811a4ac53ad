"""Whole logs of starts that were made to fail at a known point, on one H200: stage and cause are known for certain.

`whole/` has those whose shape no other fixture has; the labels of all 88 are in tests/truth/field/made.jsonl. Left out
of the logs are carets, routes, the redrawn states of a bar, and the traceback that multiprocessing prints once more.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from oomph.doctor.explain import explain

HERE = Path(__file__).parent
MADE = HERE.parent / "truth" / "field" / "made.jsonl"
LABELS: dict[str, dict[str, Any]] = {
    row["case"][3:]: row["label"] for row in map(json.loads, MADE.read_text().splitlines())
}
NAMES = sorted(path.stem for path in (HERE / "whole").glob("*.log"))
# what is answered wrongly today; an answer that becomes right is taken from here
WRONG = {
    ("address_space", "cause"),  # 64 MiB are refused with 122 GiB free: a limit of the address space, not of the card
    ("adapter_missing", "stage"),  # the engine was up when the server looked for the adapter
    ("image_profile", "cause"),  # the encoder's frames; answered is the process beside it, which holds 120 GiB
}


def answers(name: str) -> dict[str, bool]:
    label, answer = LABELS[name], explain(HERE / "whole" / f"{name}.log")
    if label["failed"] is not True:
        return {"failed": answer.failed is label["failed"]}
    stages = [label["stage"], *label["stage_also"]]
    right = {"failed": answer.failed is True, "cause": answer.cause.id in label["causes"]}
    return right | ({"stage": answer.stage in stages} if label["stage"] else {})


@pytest.mark.parametrize("name", NAMES)
def test_stage_and_cause_of_a_whole_log(name: str) -> None:
    missed = {(name, part) for part, right in answers(name).items() if not right}
    assert missed == {pair for pair in WRONG if pair[0] == name}


def test_every_whole_log_has_a_label() -> None:
    assert set(NAMES) <= set(LABELS)
    assert {name for name, _ in WRONG} <= set(NAMES)
