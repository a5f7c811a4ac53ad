"""PyTorch's caching allocator, as far as it decides how many bytes count as allocated (CUDACachingAllocator.cpp).

A tensor of at most 1 MiB comes out of a shared 2 MiB segment and counts as its size rounded up to 512 bytes. A larger
one takes the best fitting cached block, or a new segment: 20 MiB below 10 MiB, its size rounded up to 2 MiB above. The
rest of a block is split off only where it exceeds 1 MiB and the request is below `max_split`; otherwise the tensor
counts as the whole block. Freed blocks stay cached, so the order of what comes and goes decides the sum.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from functools import lru_cache

from oomph.units import MIB, round_up

SMALL = MIB  # kSmallSize
SMALL_BUFFER = 2 * MIB
LARGE_BUFFER = 20 * MIB  # kLargeBuffer; also the limit to which a cached block may exceed an unsplittable request
MIN_LARGE = 10 * MIB  # kMinLargeAlloc
ROUND_LARGE = 2 * MIB
ROUND = 512  # kMinBlockSize
NO_LIMIT = 1 << 62
_NOWHERE = (0, 0)


def request_size(nbytes: int) -> int:
    """What "Tried to allocate ..." names: the segment that a request of this size asks the driver for."""
    if nbytes > MIN_LARGE - ROUND:
        return -(-nbytes // ROUND_LARGE) * ROUND_LARGE
    return LARGE_BUFFER if nbytes > SMALL else SMALL_BUFFER


def small_size(nbytes: int) -> int:
    """The bytes as which a small tensor counts; 0 where it is no small one."""
    return max(ROUND, round_up(nbytes, ROUND)) if nbytes <= SMALL else 0


def filled(nbytes: int) -> int:
    """Of a segment of 20 MiB, what counts as allocated once it has as many tensors of a size as go into it."""
    size = -(-nbytes // ROUND) * ROUND
    left = LARGE_BUFFER % size
    return LARGE_BUFFER - left if left > SMALL else LARGE_BUFFER


class Block:
    """A piece of a segment; `order` stands for its address, `request` is the tensor's own size."""

    __slots__ = ("free", "next", "order", "prev", "request", "size")

    is_split, is_whole = True, False

    def __init__(self, size: int, order: tuple[int, int], request: int = 0) -> None:
        self.size = size
        self.request = request or size
        self.order = order
        self.free = False
        self.prev: Block | None = None
        self.next: Block | None = None


class SmallBlock(Block):
    """Its address plays no part: one block stands for all small tensors of a size."""

    __slots__ = ()

    is_split = False


class WholeBlock(Block):
    """A whole segment for good: one block stands for all tensors of a size in segments of a size."""

    __slots__ = ()

    is_split, is_whole = False, True


@lru_cache(maxsize=4096)
def small_block(nbytes: int) -> Block:
    """The block that stands for all small tensors of a size."""
    return SmallBlock(max(ROUND, round_up(nbytes, ROUND)), _NOWHERE, nbytes)


FreeSizes = tuple[list[int], dict[int, int]]
FreeBlocks = tuple[list[tuple[int, tuple[int, int], Block]], dict[int, int]]


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

    def alloc(self, nbytes: int) -> Block:
        if nbytes <= SMALL or self.expandable:
            block = small_block(nbytes)
        else:
            size = -(-nbytes // ROUND) * ROUND
            if size >= self.max_split:
                block = self.take_whole(size, nbytes)
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
            blocks = [SmallBlock(count * max(ROUND, round_up(nbytes, ROUND)), _NOWHERE)]
            self.allocated += blocks[0].size
        self.peak = max(self.peak, self.allocated)
        return blocks

    def alloc_rows(self, nbytes: int, count: int) -> tuple[list[Block], int]:
        """As `alloc_many`, for tensors below 10 MiB where what they leave of a new segment is taken by none of those
        that come before they go: segments that they fill alone are counted, not listed. Returns the blocks, and how
        many such segments there are besides."""
        size = -(-nbytes // ROUND) * ROUND
        each = LARGE_BUFFER // size
        blocks: list[Block] = []
        while count and bisect_left(self._cached, (size,)) < len(self._cached):
            blocks.append(self.carve(size, count * size))
            count -= blocks[-1].size // size
        segments = count // each
        self._segments += segments
        self.reserved += segments * LARGE_BUFFER
        blocks += self._rows(size, count - segments * each)
        self.allocated += sum(block.size for block in blocks) + segments * filled(nbytes)
        self.peak = max(self.peak, self.allocated)
        return blocks, segments

    def free_rows(self, nbytes: int, segments: int) -> None:
        """The segments that `alloc_rows` counted."""
        self.allocated -= segments * filled(nbytes)
        if segments:
            self.add_whole(LARGE_BUFFER, segments)

    def _rows(self, size: int, count: int) -> Iterator[Block]:
        """What a block has left of one tensor is the best fit for the next, as long as it is large enough."""
        while count:
            block = self.carve(size, count * size)
            count -= block.size // size
            yield block

    def pass_through(self, sizes: Iterable[int]) -> None:
        """Tensors that come one after the other and go together, where splitting has no limit: what was free is free
        again afterwards, and so are the segments that had to be added for them."""
        free = [entry[0] for entry in self._cached]
        added: list[int] = []
        total = 0
        for nbytes in sizes:
            size = -(-nbytes // ROUND) * ROUND or ROUND
            if nbytes > SMALL:
                at = bisect_left(free, size)
                if at < len(free):
                    block = free.pop(at)
                else:
                    block = request_size(size)
                    added.append(block)
                if block - size > SMALL:
                    insort(free, block - size)
                else:
                    size = block
            total += size
        self.peak = max(self.peak, self.allocated + total)
        for size in added:
            segment = self._segment(size)
            segment.free = True
            insort(self._cached, (segment.size, segment.order, segment))

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
        self.release(block)

    def release(self, block: Block) -> None:
        """A split block becomes free, one with those beside it that are."""
        block.free = True
        cached = self._cached
        after, before = block.next, block.prev
        if after is not None and after.free:
            del cached[bisect_left(cached, (after.size, after.order))]
            block.size += after.size
            block.next = after = after.next
            if after is not None:
                after.prev = block
        if before is not None and before.free:
            del cached[bisect_left(cached, (before.size, before.order))]
            before.size += block.size
            before.next = after
            if after is not None:
                after.prev = before
            block = before
        if block.size >= self.max_split:
            self.add_whole(block.size, 1)
        else:
            insort(cached, (block.size, block.order, block))

    @property
    def cached(self) -> int:
        """Bytes of large blocks that are free and were not given back."""
        return sum(entry[0] for entry in self._cached) + sum(size * n for size, n in self.free_whole.items())

    def empty_cache(self) -> None:
        """Segments that are free as a whole go back to the driver."""
        segments = [entry for entry in self._cached if entry[2].prev is None and entry[2].next is None]
        for entry in segments:
            self._cached.remove(entry)
            self.reserved -= entry[0]
        for size, count in list(self.free_whole.items()):
            self.add_whole(size, -count)
            self.reserved -= count * size

    def add_whole(self, size: int, count: int) -> None:
        """So many more free segments of a size."""
        before = self.free_whole.get(size, 0)
        if not before:
            insort(self._free_sizes, size)
        if before + count:
            self.free_whole[size] = before + count
        else:
            del self.free_whole[size], self._free_sizes[bisect_left(self._free_sizes, size)]

    def take_whole(self, size: int, nbytes: int) -> Block:
        """The best fitting free segment, or a new one, for a tensor of `nbytes` whose size is rounded already."""
        free = self._free_sizes
        at = bisect_left(free, size) if free else 0
        if at < len(free) and free[at] < size + LARGE_BUFFER:
            segment = free[at]
            self.add_whole(segment, -1)
        else:
            segment = request_size(size)
            self.reserved += segment
        block = self._whole.get((segment, nbytes))
        if block is None:
            block = self._whole[segment, nbytes] = WholeBlock(segment, _NOWHERE, nbytes)
        return block

    def carve(self, size: int, most: int) -> Block:
        """The best fitting free block, or a new segment, cut to as many tensors of a size as it has room for."""
        cached = self._cached
        at = bisect_left(cached, (size,))
        if at < len(cached):
            block = cached.pop(at)[2]
            block.free = False
        else:
            block = self._segment(size)
        share = most if most <= block.size else block.size // size * size
        if block.size - share > SMALL:
            self._split(block, share)
        return block

    def touch(self, size: int) -> int:
        """As how many bytes a tensor counts that goes again before anything else comes: what is free stays as it is,
        but for a segment that has to be added."""
        cached = self._cached
        at = bisect_left(cached, (size,))
        if at < len(cached):
            whole = cached[at][0]
            return size if whole - size > SMALL else whole
        block = self.carve(size, size)
        counted = block.size
        self.release(block)
        return counted

    def _segment(self, size: int) -> Block:
        self._segments += 1
        segment = Block(request_size(size), (self._segments, 0))
        self.reserved += segment.size
        return segment

    def _split(self, block: Block, size: int) -> None:
        """The rest of a block becomes a free one."""
        segment, at = block.order
        left, after = block.size - size, block.next
        rest = Block(left, (segment, at + size))
        block.size = size
        rest.prev, rest.next, rest.free = block, after, True
        if after is not None:
            after.prev = rest
        block.next = rest
        if left >= self.max_split:  # of a buffer made before there was a limit
            self.add_whole(left, 1)
        else:
            insort(self._cached, (left, rest.order, rest))

    def free_blocks(self) -> FreeBlocks:
        """Those that may be split, and how many whole segments of each size."""
        return self._cached.copy(), self.free_whole.copy()

    def free_sizes(self) -> FreeSizes:
        """Of those that may be split, in order, and how many whole segments of each size."""
        return [entry[0] for entry in self._cached], self.free_whole.copy()
