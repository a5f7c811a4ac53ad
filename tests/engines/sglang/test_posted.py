"""Start-ups of SGLang that strangers posted: the two readings of free memory in, max_total_num_tokens out.

The builds were between releases; the nearest release that had the rules of the time stands for them.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from oomph.ir.plan import Plan
from oomph.plan import parse, run
from oomph.sources.gpu import parse_gpus
from oomph.units import GIB


def planned(command: str, gpus: str, release: str, free: float | None = None, weights: float | None = None) -> Plan:
    words = f"python -m sglang.launch_server --model-path {command}".split()
    pinned = {name: round(n * GIB) for name, n in (("free_before_load", free), ("weights", weights)) if n is not None}
    return run(replace(parse(words, f"sglang=={release}"), gpus=parse_gpus(gpus), given=pinned))


@pytest.mark.parametrize(
    ("command", "gpus", "release", "free", "weights", "tokens", "slots"),
    [
        # ktransformers issue 1870: experts on the host
        ("Qwen/Qwen3.5-397B-A17B --tp 2 --mem-fraction-static 0.85", "2x RTX 4090", "0.5.9", 22.84, 3.76, 580_364, 82),
        # a user's notes of February 2026, a card of 16 GB
        ("ibm-granite/granite-4.0-h-micro", "RTX 4080", "0.5.9", 15.24, 5.98, 399_740, 38),
    ],
)
def test_tokens_as_posted(
    command: str, gpus: str, release: str, free: float, weights: float, tokens: int, slots: int
) -> None:
    plan = planned(command, gpus, release, free, weights)
    assert plan.kv is not None and plan.kv.logged_tokens == pytest.approx(tokens, rel=0.0101)
    assert plan.resolved["max_mamba_cache_size"] == slots


def test_tokens_without_any_reading() -> None:
    """SGLang pull request 17392, attention in four groups: the weights and the free memory are oomph's own."""
    flags = "--tp 4 --dp 4 --ep 4 --enable-dp-attention --mem-fraction-static 0.8"
    plan = planned(f"Qwen/Qwen3-30B-A3B {flags}", "4x H200", "0.5.8")
    assert plan.kv is not None and plan.kv.logged_tokens == pytest.approx(1_029_388, rel=0.01)


@settings(max_examples=40, deadline=None)
@given(st.floats(18, 78), st.floats(0, 4), st.sampled_from(["0.5.7", "0.5.11", "0.5.17", "0.5.23"]))
def test_more_free_memory_is_never_worse(free: float, more: float, release: str) -> None:
    small = planned("Qwen/Qwen3-8B", "H100", release, free, 15.3)
    large = planned("Qwen/Qwen3-8B", "H100", release, free + more, 15.3)
    assert small.kv is not None and large.kv is not None
    assert large.kv.logged_tokens >= small.kv.logged_tokens
