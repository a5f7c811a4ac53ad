"""Bytes that SGLang's model classes create on one rank (parameters and buffers, before anything is loaded)."""

from __future__ import annotations

import json
from functools import lru_cache

import pytest
import sglang_truth

from oomph.engines.sglang.resolve import resolve
from oomph.engines.sglang.weights import RankPlace, created_weights
from oomph.facts.sglang.facts import at
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.plan import load
from oomph.units import GIB

_H100 = Device("NVIDIA H100 80GB HBM3", 85_520_809_984, (9, 0))


def created(model_name: str, flags: dict[str, object]) -> int:
    model = load(model_name)
    ranks = int(str(flags.get("tp_size", 1)))
    question = Deployment(Engine("sglang", "0.5.23"), model_name, flags, (_H100,) * ranks)
    settings, shape = resolve(model, question)
    return sum(place.nbytes for place in created_weights(model, shape, settings, at("0.5.23"), RankPlace()))


@lru_cache(1)
def errors() -> dict[str, float]:
    lines = (sglang_truth.TRUTH / "sglang-weights.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return {
        f"{row['model']} {row['flags']}": abs(created(row["model"], row["flags"]) - row["created"]) / row["created"]
        for row in rows
    }


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
