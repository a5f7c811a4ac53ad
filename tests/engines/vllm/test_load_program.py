"""A place that follows the program of the one before it ends where it would end allocation by allocation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oomph
from oomph.engines.vllm import load_peak, loaded, planner
from oomph.engines.vllm.allocator import LARGE_BUFFER, Allocator
from oomph.engines.vllm.load_program import Program
from oomph.units import MIB

LOADS = [
    ("openai/gpt-oss-120b", "H100", ""),
    ("openai/gpt-oss-120b", "B200", ""),
    ("openai/gpt-oss-20b", "RTX 4090", "--cpu-offload-gb 4"),
    ("nvidia/Gemma-4-31B-IT-NVFP4", "2x RTX 5070 Ti", "-tp 2"),
    ("Qwen/Qwen3-32B-AWQ", "H100", "--max-num-batched-tokens 1024"),
    ("RedHatAI/Qwen3-8B-NVFP4", "RTX 4090", "--max-num-batched-tokens 3000"),
    ("deepseek-ai/DeepSeek-V3.1", "8x A100 80GB", "-tp 8"),
]


@pytest.mark.parametrize(("model", "gpu", "flags"), LOADS)
def test_a_program_does_what_each_allocation_does(
    model: str, gpu: str, flags: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = []
    play = load_peak.play

    def remember(*arguments: object) -> object:
        loads.append(play(*arguments))  # type: ignore[arg-type]
        return loads[-1]

    monkeypatch.setattr(loaded, "play", remember)
    for follows in (True, False):
        if not follows:
            monkeypatch.setattr(Program, "is_valid", lambda program, free: False)
        for known in (loaded._played, loaded._played_alike, loaded._weights, planner._shared_input):
            known.cache_clear()
        plan = oomph.plan(f"vllm serve {model} {flags} --enforce-eager", gpu=gpu, advise=False)
        assert plan.ranks
    first, second = loads
    assert first == second


SIZES = st.integers(MIB + 1, 19 * MIB)


@given(st.lists(SIZES, max_size=8), SIZES, st.integers(1, 40), st.sampled_from([LARGE_BUFFER, 1 << 62]))
def test_tensors_side_by_side_take_what_each_alone_takes(before: list[int], size: int, count: int, limit: int) -> None:
    """Blocks that are free in between, then `count` equal tensors, then all of them gone again."""
    together, alone = Allocator(limit), Allocator(limit)
    for memory in (together, alone):
        blocks = [memory.alloc(each) for each in before]
        for block in blocks[::2]:
            memory.free(block)
    rows = together.alloc_many(size, count)
    ones = [alone.alloc(size) for _ in range(count)]
    assert together.allocated == alone.allocated and together.reserved == alone.reserved
    for block in rows:
        together.free(block)
    for block in ones:
        alone.free(block)
    assert together.allocated == alone.allocated
    assert together.alloc(size).size == alone.alloc(size).size


def test_a_program_is_valid_where_the_same_segments_are_free() -> None:
    size = 64 * MIB
    program = Program([], start={size: 2}, lowest={size: 1}, added={}, need=0)
    assert program.is_valid({size: 2}) and program.is_valid({size: 3})
    assert not program.is_valid({size: 1})  # the place would have to take a new one
    assert not program.is_valid({})
    assert not program.is_valid({size: 2, 66 * MIB: 1})  # one of a size that was not there might be taken instead
    assert not Program([], {size: 2}, {size: 0}, {}, 0).is_valid({size: 3})  # there was none left at some point
    twenty = Program([], {}, {}, {}, need=2)
    assert twenty.is_valid({LARGE_BUFFER: 2}) and not twenty.is_valid({LARGE_BUFFER: 1})
