"""84 failures and healthy servers in own words, English, German and Chinese, with the stage that is meant.

Those of vLLM were written from the facts of failures that were made (tests/truth/deaths-0.32.0.jsonl.gz,
tests/doctor/whole), those of llama.cpp and SGLang from what is known of their failures; all before the rules that read
them."""

import json
from pathlib import Path
from typing import Any

import pytest

import oomph
from oomph.ir.evidence import asserts

FILE = Path(__file__).parents[1] / "truth" / "paraphrases.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
# where the stage is neither asserted nor one of the two that are named; the second half was judged once: 35 of 40
MISSED = {"worked on": 3, "judged once": 5}


@pytest.mark.parametrize("half", MISSED)
def test_the_stage_is_asserted_or_one_of_two(half: str) -> None:
    missed = []
    for row in (row for row in ROWS if row["half"] == half):
        answer = oomph.explain(f"{row['text']}\n", plan=False)
        stages = {row["stage"], *row["also"]}
        if row["failed"]:
            assert answer.failed is not False, row["id"]
            assert answer.stage in stages or not asserts(answer.stage_basis), row["id"]
            missed += [row["id"]] if not stages & {answer.stage, *(one.stage for one in answer.stages)} else []
        else:
            assert answer.failed is not True, row["id"]
        assert row["engine"] == (answer.engine.name or "other") or answer.speaker, row["id"]
    assert len(missed) <= MISSED[half], missed
