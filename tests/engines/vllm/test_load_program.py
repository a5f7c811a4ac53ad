"""A place that follows the program of the one before it ends where it would end allocation by allocation."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

import oomph
from oomph.engines.common.allocator import LARGE_BUFFER, Allocator
from oomph.engines.vllm import planner
from oomph.engines.vllm.weights import loaded
from oomph.engines.vllm.weights.load import peak as load_peak
from oomph.engines.vllm.weights.load.peak import Load
from oomph.engines.vllm.weights.load.player import Player
from oomph.engines.vllm.weights.load.program import Program
from oomph.units import MIB

LOADS = [
    ("openai/gpt-oss-120b", "H100", ""),
    ("openai/gpt-oss-120b", "B200", ""),
    ("openai/gpt-oss-20b", "RTX 4090", "--cpu-offload-gb 4"),
    ("Qwen/Qwen3-32B-AWQ", "RTX 4090", "--cpu-offload-gb 8"),
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


@pytest.mark.parametrize(
    ("model", "flags"),
    [
        ("Qwen/Qwen3-32B-AWQ", "--cpu-offload-gb 8"),
        ("openai/gpt-oss-20b", "--cpu-offload-gb 4"),
        ("Qwen/Qwen3-8B", "--cpu-offload-gb 6 --cpu-offload-params gate_up_proj"),
    ],
)
def test_offloaded_layers_do_what_each_alone_does(model: str, flags: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[Load] = []

    def remember(*arguments: object) -> Load:
        loads.append(load_peak.play(*arguments))  # type: ignore[arg-type]
        return loads[-1]

    monkeypatch.setattr(loaded, "play", remember)
    for alone in (False, True):
        if alone:
            literal = lambda player, place, form: player.offload(player.build(place, form))  # noqa: E731
            monkeypatch.setattr(Player, "build_and_offload", literal)
        for known in (loaded._played, loaded._played_alike, loaded._weights, planner._shared_input):
            known.cache_clear()
        oomph.plan(f"vllm serve {model} {flags}", gpu="RTX 4090", advise=False)
    first, second = loads
    for name in ("built", "loaded", "peak", "places", "offloaded", "pool", "changed"):
        assert getattr(first, name) == getattr(second, name), name
    for share in range(20):
        limit = first.peak.total * share // 20
        assert first.first_beyond(limit) == second.first_beyond(limit)


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


def _with_holes(limit: int, sizes: list[int]) -> Allocator:
    """Some blocks that stay, and free ones between them."""
    memory = Allocator(limit)
    for block in [memory.alloc(size) for size in sizes][::2]:
        memory.free(block)
    return memory


@given(st.lists(SIZES, max_size=12), st.lists(st.integers(1, 60 * MIB), max_size=8))
def test_tensors_that_go_together_leave_what_each_would_leave(before: list[int], sizes: list[int]) -> None:
    quick, literal = _with_holes(1 << 62, before), _with_holes(1 << 62, before)
    quick.pass_through(sizes)
    for block in [literal.alloc(size) for size in sizes]:
        literal.free(block)
    assert quick.free_sizes() == literal.free_sizes()
    assert (quick.allocated, quick.reserved, quick.peak) == (literal.allocated, literal.reserved, literal.peak)


@given(st.lists(SIZES, max_size=12), SIZES, st.sampled_from([LARGE_BUFFER, 1 << 62]))
def test_a_tensor_that_goes_at_once_leaves_what_it_would_leave(before: list[int], size: int, limit: int) -> None:
    quick, literal = _with_holes(limit, before), _with_holes(limit, before)
    block = literal.alloc(size)
    assert quick.touch(-(-size // 512) * 512) == block.size
    literal.free(block)
    assert quick.free_sizes() == literal.free_sizes() and quick.reserved == literal.reserved


@given(st.lists(SIZES, max_size=12), st.integers(MIB + 1, 10 * MIB - 512), st.integers(1, 60))
def test_rows_of_tensors_count_as_each_of_them(before: list[int], size: int, count: int) -> None:
    quick, literal = _with_holes(LARGE_BUFFER, before), _with_holes(LARGE_BUFFER, before)
    blocks, segments = quick.alloc_rows(size, count)
    others = literal.alloc_many(size, count)
    assert (quick.allocated, quick.reserved, quick.peak) == (literal.allocated, literal.reserved, literal.peak)
    for block in blocks:
        quick.free(block)
    quick.free_rows(size, segments)
    for block in others:
        literal.free(block)
    assert quick.free_sizes() == literal.free_sizes() and quick.allocated == literal.allocated


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
    fewer = Program([], start={size: 3}, lowest={size: 2}, added={}, need=0)
    assert fewer.is_valid({size: 2})  # one is still left at the lowest point
    assert not fewer.is_valid({size: 1})
