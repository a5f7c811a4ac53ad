"""Blocks and the queue of free ones, in the order in which the engine reuses them (v1/core/block_pool.py)."""

from collections import OrderedDict

from oomph.simulate.config import Config

Key = int  # the hash of a block's tokens, of all tokens before them and of its group


class Block:
    __slots__ = ("key", "next", "number", "ref")

    def __init__(self, number: int) -> None:
        self.number = number
        self.ref = 0
        self.key: Key | None = None
        self.next: Block | None = None  # the next that has the same hash


Tables = list[list[Block]]  # one table for each group


class BlockQueue:
    """A block object exists once its block was first used: memory follows what was touched, not the pool's size."""

    def __init__(self, config: Config) -> None:
        self.c = config
        self.null = Block(0)
        self.objects, self.usable = 0, config.usable
        self.stack: list[Block] = []  # reused first: blocks without a hash (0.24+)
        self.queue: OrderedDict[int, Block] = OrderedDict()
        self.cache: dict[Key, Block] = {}  # of blocks with the same hash the first
        self.watched: set[Key] = set()  # hashes of the request that was looked up last
        self.changed = False  # whether the cache has gained or lost one of them since

    @property
    def free(self) -> int:
        return self.usable - self.objects + len(self.stack) + len(self.queue)

    def take(self, count: int) -> list[Block]:
        blocks = []
        for _ in range(count):
            if self.stack:
                block = self.stack.pop()
            elif self.objects < self.usable:  # never used: at the head of the queue from the start
                self.objects += 1
                block = Block(self.objects)
            else:
                block = self.queue.popitem(last=False)[1]
                self.forget(block)
            block.ref = 1
            blocks.append(block)
        return blocks

    def forget(self, block: Block) -> None:
        """The block loses its hash: nobody finds it any more."""
        key = block.key
        if key is None:
            return
        first = self.cache[key]
        if first is not block:
            while first.next is not block:
                assert first.next is not None
                first = first.next
            first.next = block.next
        elif block.next is not None:
            self.cache[key] = block.next
        else:
            del self.cache[key]
        self.changed = self.changed or key in self.watched
        block.key = block.next = None

    def give(self, blocks: list[Block]) -> None:
        without_hash = []
        for block in blocks:
            if block is self.null:
                continue
            block.ref -= 1
            if block.ref == 0:
                if self.c.uncached_first and block.key is None:
                    without_hash.append(block)
                else:
                    self.queue[block.number] = block
        self.stack.extend(reversed(without_hash))

    def touch(self, blocks: list[Block]) -> None:
        for block in blocks:
            if block is not self.null:
                if block.ref == 0:
                    del self.queue[block.number]
                block.ref += 1

    def hash(self, block: Block, key: Key) -> None:
        if block.key is not None:
            self.forget(block)
        block.key = key
        last = self.cache.setdefault(key, block)
        if last is not block:
            while last.next is not None:
                last = last.next
            last.next = block
        self.changed = self.changed or key in self.watched
