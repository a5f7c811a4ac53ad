"""Bytes that SGLang's model classes create on one rank (parameters and buffers, before anything is loaded)."""

from __future__ import annotations

from functools import lru_cache

import pytest
import sglang_truth
from sglang_truth import created

from oomph.units import GIB


@lru_cache(1)
def errors() -> dict[str, float]:
    return {name: abs(ours - truth) / truth for name, ours, truth in sglang_truth.created_weights_kept()}


def test_created_weights_are_sglangs() -> None:
    """A tenth of a per cent in 95 of 100 pairs of a model and a layout."""
    near = [name for name, error in errors().items() if error <= 0.001]
    assert len(errors()) >= 60
    assert len(near) / len(errors()) >= 0.95, sorted(errors().items(), key=lambda pair: -pair[1])[:8]


@pytest.mark.parametrize("groups", [2, 4])
def test_attention_groups_repeat_the_attention(groups: int) -> None:
    """--enable-dp-attention: each group has all of the attention that one GPU of it needs, and every embedding."""
    alone = created("Qwen/Qwen3-30B-A3B", {"tp_size": 4})
    shared = created("Qwen/Qwen3-30B-A3B", {"tp_size": 4, "dp_size": groups, "enable_dp_attention": True})
    assert alone < shared < created("Qwen/Qwen3-30B-A3B", {})


def test_expert_parallelism_keeps_whole_experts() -> None:
    """Half the experts whole are as many bytes as all of them halved."""
    split = created("Qwen/Qwen3-30B-A3B", {"tp_size": 4})
    whole = created("Qwen/Qwen3-30B-A3B", {"tp_size": 4, "ep_size": 4})
    assert abs(split - whole) < GIB // 100
