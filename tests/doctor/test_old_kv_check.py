"""The old engine's KV check counts in tokens: what it says is left is pinned when the remedies are planned."""

from __future__ import annotations

from oomph import explain

LOG = """Here is what I run:
vllm serve meta-llama/Meta-Llama-3.1-8B-Instruct --max-model-len 4096
INFO 01-05 10:00:00 [__init__.py:10] vLLM API server version 0.8.4
ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in \
KV cache (2048). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.
"""


def test_remedies_are_planned_with_the_room_that_the_line_names() -> None:
    answer = explain(LOG, gpus="RTX 4090")
    assert answer.cause.id == "K03"
    fixes = {judged.change.label: judged for judged in answer.advice.fixes}
    lengths = [
        int(label.split()[1]) for label in fixes if label.startswith("--max-model-len ") and label.count("--") == 1
    ]
    assert lengths and max(lengths) <= 2048
    assert "--kv-cache-dtype fp8" not in fixes  # twice 2,048 tokens are still fewer than 32,768


def test_the_length_of_the_failing_line_counts_not_that_of_another_command() -> None:
    answer = explain(LOG, gpus="RTX 4090")
    assert "--max-model-len 32768" in answer.command
