"""A plugin's record is read as the log that is in it, and a broken one as any other text."""

import json

import pytest

import oomph
from oomph.logs.reader import read_text
from oomph.logs.record import read_record

RECORD = {
    "oomph_record": 1,
    "engine": {"name": "vllm", "version": "0.32.0"},
    "command": ["vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "36000"],
    "card": "NVIDIA GeForce RTX 4090",
    "log": [
        "Available KV cache memory: 4.36 GiB",
        "ValueError: To serve at least one request with the model's max seq len (36000), (4.94 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (4.36 GiB).",
    ],
}


def test_the_lines_the_command_and_the_card_of_a_record_are_used() -> None:
    explanation = oomph.explain(json.dumps(RECORD, indent=1))
    assert explanation.failed and explanation.stage == "kv_check"
    assert explanation.model == "Qwen/Qwen3-8B" and explanation.engine.version == "0.32.0"
    assert any(remedy.verified for remedy in explanation.remedies)


@pytest.mark.parametrize(
    "text", ['{"oomph_record": 1', '{\n"oomph_record": 1, "log": 5}', '{"other": 1}', '{"log": ["x"]}']
)
def test_what_is_no_record_is_a_text(text: str) -> None:
    assert read_record(read_text(text)) is None


def test_the_stage_that_a_record_asserts_counts() -> None:
    """Its lines end before the death; the plugin was there."""
    record = {**RECORD, "log": RECORD["log"][:1], "death": {"stage": "cudagraph_capture"}}
    explanation = oomph.explain(json.dumps(record, indent=1))
    assert explanation.failed
    assert (explanation.stage, explanation.stage_basis) == ("cudagraph_capture", "message")
