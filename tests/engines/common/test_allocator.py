"""PyTorch's caching allocator, as far as it decides the bytes that count as allocated."""

from __future__ import annotations

from hypothesis import given, strategies as st

from oomph.engines.common.allocator import LARGE_BUFFER, Allocator, Block, request_size
from oomph.units import MIB


def test_small_tensors_round_to_512_bytes() -> None:
    memory = Allocator()
    for size in (0, 1, 511, 512, 513, MIB):
        memory.alloc(size)
    assert memory.allocated == 512 * 4 + 1024 + MIB


def test_tensors_below_ten_mebibytes_share_segments() -> None:
    memory = Allocator()
    memory.alloc(6 * MIB)
    memory.alloc(6 * MIB)
    # 8 MiB are left of the 20; 7.5 leave half a mebibyte, too little to be split off
    assert memory.alloc(7 * MIB + MIB // 2).size == 8 * MIB


def test_the_rest_of_a_large_block_is_split_off_only_below_the_limit() -> None:
    size = 30 * MIB + 512
    assert Allocator().alloc(size).size == size
    assert Allocator(20 * MIB).alloc(size).size == 32 * MIB


def test_a_cached_block_counts_whole_when_it_cannot_be_split() -> None:
    memory = Allocator(20 * MIB)
    memory.free(memory.alloc(64 * MIB))
    assert memory.alloc(48 * MIB).size == 64 * MIB  # Llama's second qkv_proj in the block of the rotary table
    memory.free(memory.alloc(64 * MIB))
    assert memory.alloc(44 * MIB).size == 44 * MIB  # 20 MiB larger is too large


def test_neighbours_join_when_they_are_freed() -> None:
    memory = Allocator()
    blocks = [memory.alloc(6 * MIB) for _ in range(3)]
    for block in (blocks[0], blocks[2], blocks[1]):
        memory.free(block)
    assert memory.alloc(9 * MIB).order == blocks[0].order


def test_the_size_that_torch_names_when_it_fails() -> None:
    assert request_size(57_802_752) == 56 * MIB
    assert request_size(3 * MIB) == LARGE_BUFFER
    assert request_size(100) == 2 * MIB
    assert request_size(10 * MIB + 1) == 12 * MIB


@given(
    st.lists(st.tuples(st.integers(0, 64 * MIB), st.booleans()), max_size=40),
    st.sampled_from([20 * MIB, 1 << 62]),
    st.booleans(),
)
def test_what_is_allocated_is_what_is_held(steps: list[tuple[int, bool]], limit: int, expandable: bool) -> None:
    memory = Allocator(limit, expandable=expandable)
    held: list[Block] = []
    for size, free in steps:
        if free and held:
            memory.free(held.pop(size % len(held)))
        else:
            held.append(memory.alloc(size))
            assert held[-1].size >= size
            assert held[-1].size - size <= LARGE_BUFFER
    assert memory.allocated == sum(block.size for block in held)
    assert memory.peak >= memory.allocated
    for block in held:
        memory.free(block)
    assert memory.allocated == 0
