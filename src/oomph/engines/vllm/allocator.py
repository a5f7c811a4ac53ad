"""PyTorch's caching allocator, as far as it decides how many bytes count as allocated (CUDACachingAllocator.cpp).

A tensor of at most 1 MiB comes out of a shared 2 MiB segment and counts as its size rounded up to 512 bytes. A larger
one takes the best fitting cached block, or a new segment: 20 MiB below 10 MiB, its size rounded up to 2 MiB above. The
rest of a block is split off only where it exceeds 1 MiB and the request is below `max_split`; otherwise the tensor
counts as the whole block. Freed blocks stay cached, so the order of what comes and goes decides the sum.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from functools import lru_cache

from oomph.units import MIB, round_up

SMALL = MIB  # kSmallSize
SMALL_BUFFER = 2 * MIB
LARGE_BUFFER = 20 * MIB  # kLargeBuffer; also the limit to which a cached block may exceed an unsplittable request
MIN_LARGE = 10 * MIB  # kMinLargeAlloc
ROUND_LARGE = 2 * MIB
ROUND = 512  # kMinBlockSize
NO_LIMIT = 1 << 62
_SMALL_ORDER, _WHOLE_ORDER = (0, 0), (-1, 0)


def request_size(nbytes: int) -> int:
    """What "Tried to allocate ..." names: the segment that a request of this size asks the driver for."""
    size = max(ROUND, round_up(nbytes, ROUND))
    if size <= SMALL:
        return SMALL_BUFFER
    return LARGE_BUFFER if size < MIN_LARGE else round_up(size, ROUND_LARGE)


def small_size(nbytes: int) -> int:
    """The bytes as which a small tensor counts; 0 where it is no small one."""
    return max(ROUND, round_up(nbytes, ROUND)) if nbytes <= SMALL else 0


class Block:
    """A piece of a segment; `order` stands for its address, `request` is the tensor's own size. Where the address plays
    no part, one block stands for all tensors of a size: small ones, and those that are a whole segment for good."""

    __slots__ = ("free", "is_split", "is_whole", "next", "order", "prev", "request", "size")

    def __init__(self, size: int, order: tuple[int, int], request: int = 0) -> None:
        self.size = size
        self.request = request or size
        self.order = order
        self.free = False
        self.is_split, self.is_whole = order[0] > 0, order[0] < 0
        self.prev: Block | None = None
        self.next: Block | None = None


@lru_cache(maxsize=4096)
def small_block(nbytes: int) -> Block:
    """The block that stands for all small tensors of a size."""
    return Block(max(ROUND, round_up(nbytes, ROUND)), _SMALL_ORDER, nbytes)


class Allocator:
    """Blocks of segments that are split one by one, whole segments by their number, small tensors as a sum. Not a
    value: a load is played through one of these.

    Requests of `max_split` and more take a whole segment, and the others never take a free one of that size: what is
    split and what is whole do not meet, but for segments of 20 MiB that are free again (`max_split` is 20 MiB or none).
    """

    def __init__(self, max_split: int = NO_LIMIT, *, expandable: bool = False) -> None:
        self.max_split = max_split
        self.expandable = expandable
        self.allocated = 0
        self.reserved = 0  # large segments only
        self.peak = 0
        self._segments = 0
        self._cached: list[tuple[int, tuple[int, int], Block]] = []
        self._whole: dict[tuple[int, int], Block] = {}
        self.free_whole: dict[int, int] = {}  # how many whole segments of each size are free
        self._free_sizes: list[int] = []  # those sizes, in order
        self.moved: dict[int, int] = {}  # how many more cached blocks of each size there are since it was emptied

    def alloc(self, nbytes: int) -> Block:
        if nbytes <= SMALL or self.expandable:
            block = small_block(nbytes)
        else:
            size = -(-nbytes // ROUND) * ROUND
            if size >= self.max_split:
                block = self._take_whole(size, nbytes)
            else:
                block = self.carve(size, size)
                block.request = nbytes
        self.allocated += block.size
        if self.allocated > self.peak:
            self.peak = self.allocated
        return block

    def is_whole(self, nbytes: int) -> bool:
        """Whether a tensor takes a whole segment for good."""
        return nbytes > self.max_split - ROUND and not self.expandable

    def alloc_many(self, nbytes: int, count: int) -> list[Block]:
        """Tensors that come and go together. Those that lie side by side are one block."""
        if nbytes > SMALL and not self.expandable:
            size = -(-nbytes // ROUND) * ROUND
            if size >= self.max_split:
                return [self.alloc(nbytes) for _ in range(count)]
            blocks = list(self._rows(size, count))
            self.allocated += sum(block.size for block in blocks)
        else:
            blocks = [Block(count * max(ROUND, round_up(nbytes, ROUND)), _SMALL_ORDER)]
            self.allocated += blocks[0].size
        self.peak = max(self.peak, self.allocated)
        return blocks

    def _rows(self, size: int, count: int) -> Iterator[Block]:
        """What a block has left of one tensor is the best fit for the next, as long as it is large enough."""
        while count:
            block = self.carve(size, count * size)
            count -= block.size // size
            yield block

    def leave(self, nbytes: int) -> None:
        """What a buffer made before, without a limit on splitting, has left of its segment."""
        rest = request_size(nbytes) - round_up(nbytes, ROUND)
        if nbytes > SMALL and rest > SMALL and not self.expandable:
            self._split(self._segment(nbytes), round_up(nbytes, ROUND))

    def free(self, block: Block) -> None:
        self.allocated -= block.size
        if not block.is_split:
            if block.is_whole:
                self.add_whole(block.size, 1)
            return
        block.free = True
        after, before = block.next, block.prev
        if after is not None and after.free:
            self._uncache(after)
            block.size += after.size
            block.next = after.next
            if after.next is not None:
                after.next.prev = block
        if before is not None and before.free:
            self._uncache(before)
            before.size += block.size
            before.next = block.next
            if block.next is not None:
                block.next.prev = before
            block = before
        self._cache(block)

    def empty_cache(self) -> None:
        """Segments that are free as a whole go back to the driver."""
        whole = [entry for entry in self._cached if entry[2].prev is None and entry[2].next is None]
        for size, _, block in whole:
            self._uncache(block)
            self.reserved -= size
        for size, count in list(self.free_whole.items()):
            self.add_whole(size, -count)
            self.reserved -= count * size

    def add_whole(self, size: int, count: int) -> None:
        """So many more free segments of a size."""
        self.moved[size] = self.moved.get(size, 0) + count
        left = self.free_whole.get(size, 0) + count
        if left == count:
            insort(self._free_sizes, size)
        if left:
            self.free_whole[size] = left
        else:
            del self.free_whole[size], self._free_sizes[bisect_left(self._free_sizes, size)]

    def _take_whole(self, size: int, nbytes: int) -> Block:
        at = bisect_left(self._free_sizes, size)
        if at < len(self._free_sizes) and self._free_sizes[at] < size + LARGE_BUFFER:
            segment = self._free_sizes[at]
            self.add_whole(segment, -1)
        else:
            segment = request_size(size)
            self.reserved += segment
        block = self._whole.get((segment, nbytes))
        if block is None:
            block = self._whole[segment, nbytes] = Block(segment, _WHOLE_ORDER, nbytes)
        return block

    def carve(self, size: int, most: int) -> Block:
        """The best fitting free block, or a new segment, cut to as many tensors of a size as it has room for."""
        cached, moved = self._cached, self.moved
        at = bisect_left(cached, (size,))
        if at < len(cached):
            block = cached.pop(at)[2]
            block.free = False
            moved[block.size] = moved.get(block.size, 0) - 1
        else:
            block = self._segment(size)
        wanted = most if most <= block.size else block.size // size * size
        if block.size - wanted > SMALL:
            self._split(block, wanted)
        return block

    def _segment(self, size: int) -> Block:
        self._segments += 1
        segment = Block(request_size(size), (self._segments, 0))
        self.reserved += segment.size
        return segment

    def _split(self, block: Block, size: int) -> None:
        """The rest of a block becomes a free one."""
        rest = Block(block.size - size, (block.order[0], block.order[1] + size))
        block.size = size
        rest.prev, rest.next, rest.free = block, block.next, True
        if block.next is not None:
            block.next.prev = rest
        block.next = rest
        self._cache(rest)

    def _cache(self, block: Block) -> None:
        if block.size >= self.max_split:
            self.add_whole(block.size, 1)
            return
        insort(self._cached, (block.size, block.order, block))
        self.moved[block.size] = self.moved.get(block.size, 0) + 1

    def _uncache(self, block: Block) -> None:
        self.moved[block.size] = self.moved.get(block.size, 0) - 1
        del self._cached[bisect_left(self._cached, (block.size, block.order))]
