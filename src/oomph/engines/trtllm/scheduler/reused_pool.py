"""The KV pool of one window with its blocks one by one, where prompts are found again (enable_block_reuse).

`kvCacheManager.cpp`: full blocks are kept in a tree by what they and all before them hold. A prompt takes over those
that it finds, also while others use them (loadOrAllocateBlocks); its own join the tree when it is computed
(storeContextBlocks) and when it ends (releaseBlocks). A free block stays in the tree until it is given to somebody
else, the longest unused first (LRUEvictionPolicy), and what follows it in the tree goes with it. A block that is found
in part (enable_partial_reuse) is computed again here.
"""

from bisect import bisect_left
from collections import OrderedDict

from oomph.engines.trtllm.scheduler.capacity import Capacity, Live
from oomph.engines.trtllm.scheduler.counted_pool import out_of_blocks
from oomph.simulate.config import block_keys
from oomph.units import cdiv

_ROOT = 0  # the key of what comes before every prompt


class ReusedPool:
    """The interface is that of CountedPools, for one pool."""

    def __init__(self, capacity: Capacity) -> None:
        self.capacity = capacity
        self.window, count = capacity.windows[0]
        self.queue: OrderedDict[int, None] = OrderedDict.fromkeys(range(count))  # free blocks, the next one first
        self.users = [0] * count  # requests that hold a block
        self.keys: dict[int, int] = {}  # block -> what it holds, as long as it is in the tree
        self.blocks: dict[int, int] = {}  # ... and back
        self.parents: dict[int, int] = {}
        self.children: dict[int, list[int]] = {}

    @property
    def free(self) -> list[int]:
        return [len(self.queue)]

    def start(self, request: Live) -> None:
        """The last token of a prompt is always computed, and beams do not share the last block of a prompt."""
        size, beams = self.window.block, self.capacity.beams
        whole = cdiv(request.prompt, size)
        shareable = whole if beams == 1 else whole - 1
        keys = self._keys(request, request.prompt - 1)[:shareable]
        cached = [self.blocks[key] for key in keys[: self._count_known(keys)]]
        request.ids, request.tokens = [], request.prompt
        for block in cached:
            self.queue.pop(block, None)
            self.users[block] += 1
            request.ids.append(block)
        self._take(request, shareable - len(cached) + (whole - shareable) * beams)
        request.computed = len(cached) * size

    def grow(self, requests: list[Live]) -> None:
        """A slot more for each that may have one."""
        block, beams = self.window.block, self.capacity.beams
        for request in requests:
            if request.tokens - request.prompt < request.max_new:
                if request.tokens % block == 0:
                    self._take(request, beams)
                request.tokens += 1

    def resize(self, request: Live, tokens: int) -> None:
        more = cdiv(tokens, self.window.block) - cdiv(request.tokens, self.window.block)
        request.tokens = tokens
        self._take(request, more * self.capacity.beams)
        for _ in range(-more):  # one beam only: drafts and beams exclude each other
            last = request.ids.pop()
            self.users[last] -= 1
            self.queue[last] = None
            self.queue.move_to_end(last, last=False)

    def release(self, request: Live) -> None:
        """The answer joins the tree but for its last token, which was never computed; beams leave nothing behind."""
        if self.capacity.beams == 1:
            done = request.prompt + request.new - 1 if request.decodes else request.computed
            self._store(request, done)
        for block in reversed(request.ids):
            self.users[block] -= 1
            if not self.users[block]:
                self.queue[block] = None
        request.ids = []

    def store_prompt(self, request: Live) -> None:
        self._store(request, request.prompt)

    def freed_by(self, requests: list[Live]) -> list[int]:
        """Blocks that would be free if these were paused: those that nobody else uses."""
        counts: dict[int, int] = {}
        for request in requests:
            for block in request.ids:
                counts[block] = counts.get(block, 0) + 1
        return [sum(self.users[block] == count for block, count in counts.items())]

    def shared_blocks(self, request: Live, *, with_free: bool = False) -> int:
        """countReusableBlocks: full blocks of its prompt that are in the tree, and in use by somebody."""
        keys = self._keys(request, request.prompt)
        count = self._count_known(keys)
        return count if with_free else sum([self.users[self.blocks[key]] > 0 for key in keys[:count]])

    def new_block(self, request: Live) -> int | None:
        """findNewContextBlock: the first full block of its prompt that the tree does not have."""
        keys = self._keys(request, request.prompt)
        count = self._count_known(keys)
        return keys[count] if count < len(keys) else None

    def _keys(self, request: Live, tokens: int) -> list[int]:
        """Of the full blocks of its first tokens. A key says all that comes before it: they are computed once."""
        if request.keys is None:
            request.keys = block_keys(request.job, self.window.block, request.job.prompt + request.total)
        return request.keys[: tokens // self.window.block]

    def _count_known(self, keys: list[int]) -> int:
        """How many of a prompt's blocks are in the tree: those before the first that is not, as what follows a block
        goes with it."""
        return bisect_left(keys, True, key=lambda key: key not in self.blocks)

    def _take(self, request: Live, count: int) -> None:
        for _ in range(count):
            if not self.queue:
                raise out_of_blocks(self.window)
            block, _ = self.queue.popitem(last=False)
            if block in self.keys:
                self._forget(self.keys[block])
            self.users[block] = 1
            request.ids.append(block)

    def _store(self, request: Live, tokens: int) -> None:
        keys = self._keys(request, tokens)
        for index in range(self._count_known(keys), len(keys)):
            key, parent = keys[index], keys[index - 1] if index else _ROOT
            block = self._first_beam(request, index)
            self.blocks[key], self.keys[block], self.parents[key] = block, key, parent
            self.children.setdefault(parent, []).append(key)

    def _first_beam(self, request: Live, index: int) -> int:
        beams, whole = self.capacity.beams, cdiv(request.prompt, self.window.block)
        apart = index - (whole - 1)  # blocks from the last one of the prompt on have one for each beam
        return request.ids[index if apart <= 0 else whole - 1 + apart * beams]

    def _forget(self, key: int) -> None:
        """freeBlockAndAllDescendants."""
        self.children[self.parents[key]].remove(key)
        keys = [key]
        while keys:
            key = keys.pop()
            keys += self.children.pop(key, [])
            del self.keys[self.blocks.pop(key)], self.parents[key]
