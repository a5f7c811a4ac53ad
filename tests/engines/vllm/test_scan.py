"""A recurrent layer's scan against the allocator's peak while an H200 read prompts (tests/truth/h200-served.jsonl)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import test_served as served

from oomph.engines.vllm import planner, terms
from oomph.engines.vllm.profile.activation import _chunks, _gated, _mamba, scan_tensors
from oomph.engines.vllm.profile.batch import Batch
from oomph.engines.vllm.serving.after_start import Working, after_start
from oomph.engines.vllm.traits import Traits
from oomph.ir.model import State


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


def _batch(tp: int, triton: bool = True) -> Any:
    return SimpleNamespace(layout=SimpleNamespace(tp=tp), dtype="BF16", triton_gdn=triton)


@pytest.mark.parametrize(("tp", "heads", "groups"), [(1, 4, 2), (2, 2, 1), (4, 1, 1), (8, 1, 1)])
def test_each_rank_scans_its_heads_and_one_at_the_least(tp: int, heads: int, groups: int) -> None:
    """100 tokens in 2 sequences are 2 chunks of 64, or 2 of 256; heads of 8 x 16, states in float32."""
    state = State("gdn", num_heads=4, head_dim=8, groups=2, key_dim=16, dtype="F32")
    key, value, one = 100 * groups * 16 * 2, 100 * heads * 8 * 2, heads * 8 * 16
    copied = (2 * key + value, key, key, value, 2 * one * 4, 2 * one * 4)
    products, passed = 100 * heads * 64 * 2, 2 * one * 2
    assert _gated(state, _batch(tp, False), 100, 2) == (*copied, value)
    assert _gated(state, _batch(tp), 100, 2) == (
        *copied, products, 100 * heads * 16 * 2, value, passed, value, value,
    )  # fmt: skip
    state = State("mamba2", num_heads=4, head_dim=8, groups=2, state_size=16, intermediate=4, dtype="F32")
    convolved = 100 * (max(1, 4 // tp) + 2 * groups * 16) * 2
    decays = 2 * (heads * 2 * 256 * 4,)
    model: Any = SimpleNamespace(architecture="MambaForCausalLM")
    first, last = _mamba(model, state, _batch(tp), 100, 2)
    assert first == (convolved, *decays, 2 * one * 4, 2 * one * 4)
    assert last == (convolved, *decays, 2 * one * 4, 2 * groups * 256 * 256 * 4, 2 * one * 4)


@pytest.mark.parametrize(
    ("tokens", "sequences", "chunks"), [(64, 1, 1), (65, 1, 2), (128, 2, 2), (129, 2, 4), (10, 10, 10)]
)
def test_a_sequence_begins_a_chunk_of_its_own(tokens: int, sequences: int, chunks: int) -> None:
    assert _chunks(tokens, sequences, 64) == chunks
