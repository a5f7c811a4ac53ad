"""MXFP4 experts on Hopper: SGLang turns each layer's into the order that OpenAI's Triton kernels read.

`_swizzle_mxfp4` (layers/quantization/mxfp4.py:171, 0.5.17) pads and permutes the values through 32-bit copies, keeps
the checkpoint's scales beside the new ones, and empties the allocator's cache after each layer. What was split off a
copy's segment stays: so the load is played through PyTorch's allocator. On an H200 gpt-oss-20b had 14.64 GB allocated
and 16.13 GB reserved; this gives 14.64 and 16.10.
"""

from functools import lru_cache

from msgspec import Struct

from oomph.engines.common.allocator import Allocator, Block
from oomph.units import round_up

# triton_kernels/tensor_details/layout_details: hopper_value.py pads both sides to 64, hopper_scale.py rows to
# 2 x 8 warps x 2 x 8 and columns to 2
_VALUE_ROWS = 64
_SCALE_ROWS, _SCALE_COLUMNS = 256, 2
_GROUP = 32  # values of one scale


class Repacked(Struct, frozen=True):
    reserved_bytes: int  # what the experts of all layers hold in the end, segments' unused rests included


@lru_cache(maxsize=256)
def repacked_for_triton(layers: int, experts: int, hidden: int, intermediate: int) -> Repacked:
    """`intermediate`: one rank's share, already rounded up."""
    player = _Player(experts)
    shapes = ((hidden // 2, 2 * intermediate, hidden // _GROUP), (intermediate // 2, hidden, intermediate // _GROUP))
    biases = 4 * layers * experts * (2 * intermediate + hidden)  # float32 now; too small to leave anything
    created = []
    for _ in range(layers):
        for rows, columns, scales in shapes:
            created.append(player.take(experts * rows * columns))
            player.take(experts * columns * scales)
    for layer in range(layers):
        for rows, columns, scales in shapes:
            player.values(rows, columns)
            player.scales(columns, scales)
        player.drop(*created[2 * layer : 2 * layer + 2])
        player.memory.empty_cache()
    return Repacked(player.memory.reserved + biases)


class _Player:
    """The copies that one call makes, in the order in which Python lets them go."""

    def __init__(self, experts: int) -> None:
        self.experts = experts
        self.memory = Allocator()
        self.take = self.memory.alloc

    def drop(self, *blocks: Block) -> None:
        for block in blocks:
            self.memory.free(block)

    def values(self, rows: int, columns: int) -> Block:
        """HopperMXValueLayout.swizzle_data: padded, padded again by nothing, permuted; then bits of four values are
        interleaved."""
        size = self.experts * round_up(rows, _VALUE_ROWS) * round_up(columns, _VALUE_ROWS)
        data = self.take(size)
        for _ in range(2):
            data = self._copied(size, data)
        packed = self._packed(size)
        self.drop(data)
        return packed

    def scales(self, rows: int, columns: int) -> Block:
        """HopperMXScaleLayout.swizzle_data."""
        size, padded = (
            self.experts * rows * columns,
            self.experts * round_up(rows, _SCALE_ROWS) * round_up(columns, _SCALE_COLUMNS),
        )
        data = self._copied(size, self.take(size))
        data = self._copied(padded, data)
        return self._copied(padded, data)

    def _copied(self, size: int, old: Block) -> Block:
        new = self.take(size)
        self.drop(old)
        return new

    def _packed(self, size: int) -> Block:
        """_pack_bits: a 32-bit word for every four bytes."""
        first, second, third = (self._both_halves(size, terms=2) for _ in range(3))
        fourth = self._both_halves(size, terms=3)
        total = self._joined(size, self._shifted(size))
        total = self._copied(size, self._joined(size, self._shifted(size), total))
        self.drop(first, second, third, fourth)
        return total

    def _both_halves(self, size: int, terms: int) -> Block:
        low = self._spread(size, terms)
        half = self.take(size // 4)
        high = self._spread(size, terms)
        self.drop(half)
        return self._joined(size, low, self._copied(size, high))

    def _spread(self, size: int, terms: int) -> Block:
        """_compress_fp4 and _compress_fourth: masked, shifted and joined, one term after the other."""
        words = self.take(size)
        total = self._copied(size, self.take(size))
        for _ in range(terms - 1):
            total = self._joined(size, total, self._copied(size, self.take(size)))
        self.drop(words)
        return total

    def _shifted(self, size: int) -> Block:
        return self._copied(size, self.take(size))

    def _joined(self, size: int, *parts: Block) -> Block:
        new = self.take(size)
        self.drop(*parts)
        return new
