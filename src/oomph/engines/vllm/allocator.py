"""PyTorch's caching allocator, as far as it decides how many bytes count as allocated (CUDACachingAllocator.cpp).

A tensor of at most 1 MiB comes out of a shared 2 MiB segment and counts as its size rounded up to 512 bytes. A larger
one takes the best fitting cached block, or a new segment: 20 MiB below 10 MiB, its size rounded up to 2 MiB above. The
rest of a block is split off only where it exceeds 1 MiB and the request is below `max_split`; otherwise the tensor
counts as the whole block. Freed blocks stay cached, so the order of what comes and goes decides the sum.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from oomph.units import MIB, round_up

SMALL = MIB  # kSmallSize
SMALL_BUFFER = 2 * MIB
LARGE_BUFFER = 20 * MIB  # kLargeBuffer; also the limit to which a cached block may exceed an unsplittable request
MIN_LARGE = 10 * MIB  # kMinLargeAlloc
ROUND_LARGE = 2 * MIB
ROUND = 512  # kMinBlockSize
NO_LIMIT = 1 << 62
_SMALL_ORDER = (0, 0)


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
    """A piece of a segment; `order` stands for its address, `asked` is the tensor's own size."""

    __slots__ = ("asked", "free", "next", "order", "prev", "size")

    def __init__(self, size: int, order: tuple[int, int]) -> None:
        self.size = size
        self.asked = size
        self.order = order
        self.free = False
        self.prev: Block | None = None
        self.next: Block | None = None


class Allocator:
    """Large blocks one by one, small ones as a sum. Not a value: a load is played through one of these."""

    def __init__(self, max_split: int = NO_LIMIT, *, expandable: bool = False) -> None:
        self.max_split = max_split
        self.expandable = expandable
        self.allocated = 0
        self.reserved = 0  # large segments only
        self.peak = 0
        self._segments = 0
        self._cached: list[tuple[int, tuple[int, int], Block]] = []
        self._small: dict[int, Block] = {}  # small tensors of one size share a block: only their sum counts
        self.moved: dict[int, int] = {}  # how many more cached blocks of each size there are since it was emptied

    def alloc(self, nbytes: int) -> Block:
        if nbytes <= SMALL or self.expandable:
            block = self.small(nbytes)
        else:
            size = -(-nbytes // ROUND) * ROUND
            block = self._find(size) or self._segment(size)
            if size < self.max_split and block.size - size > SMALL:
                self._split(block, size)
            block.asked = nbytes
        self.allocated += block.size
        if self.allocated > self.peak:
            self.peak = self.allocated
        return block

    def alloc_many(self, nbytes: int, count: int) -> list[Block]:
        if nbytes > SMALL and not self.expandable:
            return [self.alloc(nbytes) for _ in range(count)]
        many = Block(count * max(ROUND, round_up(nbytes, ROUND)), _SMALL_ORDER)
        self.allocated += many.size
        self.peak = max(self.peak, self.allocated)
        return [many]

    def leave(self, nbytes: int) -> None:
        """What a buffer made before, without a limit on splitting, has left of its segment."""
        rest = request_size(nbytes) - round_up(nbytes, ROUND)
        if nbytes > SMALL and rest > SMALL and not self.expandable:
            self._split(self._segment(nbytes), round_up(nbytes, ROUND))

    def free(self, block: Block) -> None:
        self.allocated -= block.size
        if block.order is _SMALL_ORDER:
            return
        block.free = True
        if block.next is not None and block.next.free:
            self._uncache(block.next)
            self._join(block, block.next)
        if block.prev is not None and block.prev.free:
            before = block.prev
            self._uncache(before)
            self._join(before, block)
            block = before
        self._cache(block)

    def empty_cache(self) -> None:
        """Segments that are free as a whole go back to the driver."""
        whole = [entry for entry in self._cached if entry[2].prev is None and entry[2].next is None]
        for size, _, block in whole:
            self._uncache(block)
            self.reserved -= size

    def small(self, nbytes: int) -> Block:
        """The block that stands for all small tensors of a size."""
        return self._small.get(nbytes) or self._make_small(nbytes)

    def _make_small(self, nbytes: int) -> Block:
        block = self._small[nbytes] = Block(max(ROUND, round_up(nbytes, ROUND)), _SMALL_ORDER)
        block.asked = nbytes
        return block

    def _find(self, size: int) -> Block | None:
        at = bisect_left(self._cached, (size,))
        if at == len(self._cached):
            return None
        found = self._cached[at][2]
        if size < self.max_split <= found.size or (size >= self.max_split and found.size >= size + LARGE_BUFFER):
            return None
        del self._cached[at]
        self.moved[found.size] = self.moved.get(found.size, 0) - 1
        found.free = False
        return found

    def _segment(self, size: int) -> Block:
        self._segments += 1
        segment = Block(request_size(size), (self._segments, 0))
        self.reserved += segment.size
        return segment

    def _split(self, block: Block, size: int) -> None:
        rest = Block(block.size - size, (block.order[0], block.order[1] + size))
        block.size = size
        rest.prev, rest.next, rest.free = block, block.next, True
        if block.next is not None:
            block.next.prev = rest
        block.next = rest
        self._cache(rest)

    def _join(self, block: Block, after: Block) -> None:
        block.size += after.size
        block.next = after.next
        if after.next is not None:
            after.next.prev = block

    def _cache(self, block: Block) -> None:
        insort(self._cached, (block.size, block.order, block))
        self.moved[block.size] = self.moved.get(block.size, 0) + 1

    def _uncache(self, block: Block) -> None:
        self.moved[block.size] = self.moved.get(block.size, 0) - 1
        del self._cached[bisect_left(self._cached, (block.size, block.order))]
