"""A log that does not say how large the card is: what can be said of a larger share of it."""

from __future__ import annotations

import pytest

from oomph.doctor.explain import explain


def dead_at_the_check(weights: float, need: float, have: float) -> str:
    return (
        "INFO 10-02 11:12:20 [api_server.py:1896] vLLM API server version 0.11.0\n"
        f"INFO 10-02 11:13:01 [gpu_model_runner.py:2653] Model loading took {weights:.4f} GiB and 5.2 seconds\n"
        f"INFO 10-02 11:13:30 [gpu_worker.py:298] Available KV cache memory: {have:.2f} GiB\n"
        f"ValueError: To serve at least one request with the models's max seq len (32768), ({need:.2f} GiB KV cache is"
        f" needed, which is larger than the available KV cache memory ({have:.2f} GiB).\n"
    )


@pytest.mark.parametrize(
    ("weights", "need", "have", "position"),
    [(14.25, 4.0, 0.41, None), (14.25, 2.0, 0.41, 1), (40.0, 4.0, 0.41, None), (40.0, 5.5, 3.0, 2)],
)
def test_a_higher_share_is_offered_after_what_the_log_proves_and_only_where_it_can_be_enough(
    weights: float, need: float, have: float, position: int | None
) -> None:
    changes = [remedy.change.label for remedy in explain(dead_at_the_check(weights, need, have)).remedies]
    assert changes[0].startswith("--max-model-len")
    shares = [n for n, change in enumerate(changes) if change.startswith("--gpu-memory-utilization")]
    assert shares == ([] if position is None else [position])


def test_the_card_for_which_it_is_enough_is_named() -> None:
    answer = explain(dead_at_the_check(14.25, 2.0, 0.41))
    assert "--gpu-memory-utilization 0.95" in [remedy.change.label for remedy in answer.remedies]
    assert "31.8 GiB or more" in answer.cause.text
