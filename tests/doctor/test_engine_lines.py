"""What SGLang, TensorRT-LLM, llama.cpp, Ollama and the programs around them print when they fail, over the years and in
our own words for the rest: each line of engine_lines.jsonl has the stages and the causes that are right for it."""

from __future__ import annotations

import json
import re
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


@pytest.mark.parametrize(
    ("text", "lever", "most"),
    [
        (
            "llama_context: n_ctx = 4096\nCUDA error: out of memory\n  in ggml/src/ggml-cuda/ggml-cuda.cu:420",
            "ctx_size",
            4096,
        ),
        (
            "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --mem-fraction-static 0.7\n"
            "[2025-06-11 08:01:02 TP0] CUDA error: CUBLAS_STATUS_ALLOC_FAILED",
            "mem_fraction_static_down",
            0.7,
        ),
    ],
)
def test_a_remedy_lowers_what_is_in_force(text: str, lever: str, most: float) -> None:
    remedies = explain_case(read_case(text + "\n")).remedies
    changes = [remedy.change.label for remedy in remedies if remedy.change.lever == lever]
    assert changes
    numbers = [float(number) for change in changes for number in re.findall(r"\d+(?:\.\d+)?", change)]
    assert max(numbers) < most
