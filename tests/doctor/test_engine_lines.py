"""What SGLang, TensorRT-LLM, llama.cpp, Ollama and the programs around them print when they fail, over the years and in
our own words for the rest: each line of engine_lines.jsonl has the stages and the causes that are right for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oomph.doctor.explain import explain_case, read_case

ROWS = [
    json.loads(line) for line in (Path(__file__).parent / "engine_lines.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize("number", range(len(ROWS)), ids=lambda n: f"{n}-{ROWS[n]['engine']}-{ROWS[n]['causes'][0]}")
def test_a_line_has_its_stage_and_its_cause(number: int) -> None:
    row = ROWS[number]
    result = explain_case(read_case(row["text"] + "\n"))
    assert result.failed
    assert result.engine.name == row["engine"]
    assert result.stage in row["stage"]
    assert result.cause.id in row["causes"]
    assert result.remedies
