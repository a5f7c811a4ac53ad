"""A recurrent layer's scan against the allocator's peak while an H200 read prompts (tests/truth/h200-served.jsonl)."""

from __future__ import annotations

from typing import Any

import pytest
import test_served as served

from oomph.engines.vllm import planner, terms
from oomph.engines.vllm.activation import scan_tensors
from oomph.engines.vllm.batch import Batch
from oomph.engines.vllm.serving import Working, after_start
from oomph.engines.vllm.traits import Traits


@pytest.mark.parametrize(
    ("row", "load", "tokens", "sequences"),
    [
        ("nemo3_14_v1_eager", "full", 8192, 1),  # Mamba-2, one long prompt: states in float32, twice
        ("nemo3_14_v1_eager", "logprobs", 4096, 256),  # short prompts: a chunk for every sequence
        ("pick2_nemo9_ctx", "full", 2048, 1),
        ("pick2_nemo9_ctx", "options", 1632, 102),
        ("g3_q36_v1", "mixed", 8192, 32),  # gated delta net, compiled
        ("g3_q36_v1", "options", 1024, 64),
        ("e3_q36_img", "mixed", 8192, 32),  # and not compiled
        ("e3_q36_img", "full", 8192, 1),
    ],
)
def test_the_peak_of_a_scan(row: str, load: str, tokens: int, sequences: int, monkeypatch: pytest.MonkeyPatch) -> None:
    index = served.IDS.index(row)
    (peak,) = [x["peak_bytes"] for x in served.ROWS[index]["loads"] if x["name"] == load]
    traits, batch = _batches(index, monkeypatch)
    alive = sum(scan_tensors(traits, batch, tokens, sequences))
    assert alive == pytest.approx(peak, rel=0.01)


def _batches(index: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Traits, Batch]:
    """The traits and the batch with which a start-up is planned."""
    seen: list[tuple[Traits, Batch]] = []
    planned = after_start

    def spy(traits: Traits, batch: Batch, *others: Any) -> tuple[Working, Working]:
        seen.append((traits, batch))
        return planned(traits, batch, *others)

    monkeypatch.setattr(terms, "after_start", spy)
    planner._shared_input.cache_clear()  # a plan that was made before is not made again
    served.planned.__wrapped__(index)
    return seen[-1]
