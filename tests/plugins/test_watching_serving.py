"""While vLLM serves: when the KV cache will be full, and memory that only ever falls."""

import sys
from collections import deque
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

sys.path.insert(0, str(Path(__file__).parents[2] / "plugins" / "vllm" / "src"))
from oomph_vllm import lines, serving
from oomph_vllm.serving import Holder, steps_until_full


def test_requests_that_end_in_time_give_their_blocks_back() -> None:
    assert steps_until_full([Holder(160, 16), Holder(160, 280)], free_blocks=8, block_size=16) is None
    assert steps_until_full([Holder(160, 320), Holder(160, 320)], free_blocks=8, block_size=16) == 64


requests = st.lists(st.builds(Holder, st.integers(1, 4000), st.integers(0, 4000)), min_size=1, max_size=20)


@given(requests, st.integers(0, 2000), st.integers(0, 500))
def test_more_free_blocks_never_fill_earlier(running: list[Holder], free: int, more: int) -> None:
    first, later = (steps_until_full(running, blocks, 16) for blocks in (free, free + more))
    assert later is None or (first is not None and first <= later)


@given(requests, st.integers(0, 2000))
def test_a_cache_that_holds_everything_never_fills(running: list[Holder], spare: int) -> None:
    everything = sum(request.remaining for request in running) // 16 + 1
    assert steps_until_full(running, everything + spare, 16) is None


@pytest.mark.parametrize(("falls", "is_said"), [([40] * 6, True), ([40, 40, 0, 40, 40, 40], False)])
def test_growth_is_said_when_it_never_stops(monkeypatch: pytest.MonkeyPatch, falls: list[int], is_said: bool) -> None:
    said: list[str] = []
    monkeypatch.setattr(lines, "say", said.extend)
    monkeypatch.setattr(serving.Card, "marks", deque(maxlen=serving.MARKS))
    monkeypatch.setattr(serving.Clock, "said", {})
    free = 2**30
    for minute, fall in enumerate(falls):
        free -= fall * 2**20
        serving._look_at_growth(60.0 * minute, free)
    assert bool(said) is is_said
    if is_said:
        assert "has fallen for 5 minutes, by 0.20 GiB" in said[0] and "last 20 minutes" in said[0]
