"""The KV pools as counts of free blocks, one for each window: exact as long as nobody finds a block again.

`kvCacheManager.cpp`: a prompt takes all its blocks at its first chunk, whole ones once for all beams (addSequence); a
token that begins a block takes one for each beam (adjustBlocksIfNeeded), after the blocks that have left a sliding
window were given back (detachFrontBlock); rejected drafts give theirs back (rewindKVCache).
"""

from oomph.engines.trtllm.kv.blocks import Window
from oomph.engines.trtllm.scheduler.capacity import Capacity, Live
from oomph.errors import OomphError
from oomph.units import cdiv


class CountedPools:
    def __init__(self, capacity: Capacity) -> None:
        self.capacity = capacity
        self.windows = [window for window, _ in capacity.windows]
        self.free = [blocks for _, blocks in capacity.windows]

    def start(self, request: Live) -> None:
        """The whole prompt has a slot from its first chunk on."""
        request.tokens = request.prompt
        request.cut = [0] * len(self.windows)
        request.blocks = [0] * len(self.windows)
        for pool in range(len(self.windows)):
            self._take(request, pool, self._prompt_blocks(request, self.windows[pool]))

    def resize(self, request: Live, tokens: int) -> None:
        """So many tokens have a slot: more than before, or fewer where drafts were rejected."""
        for pool, window in enumerate(self.windows):
            if window.size < self.capacity.max_seq_len and tokens > request.tokens:
                self._slide(request, pool, tokens)
            self._take(request, pool, self._blocks_at(request, pool, tokens))
        request.tokens = tokens

    def grow(self, requests: list[Live]) -> None:
        """A slot more for each that may have one, where one pool holds every token."""
        block, beams, taken = self.windows[0].block, self.capacity.beams, 0
        for request in requests:
            if request.tokens - request.prompt < request.max_new:
                if request.tokens % block == 0:
                    request.blocks[0] += beams
                    taken += beams
                request.tokens += 1
        self.free[0] -= taken
        if self.free[0] < 0:
            raise out_of_blocks(self.windows[0])

    def release(self, request: Live) -> None:
        self.free = [free + blocks for free, blocks in zip(self.free, request.blocks)]
        request.blocks = []

    def store_prompt(self, request: Live) -> None:
        """Nobody looks for it here."""

    def freed_by(self, requests: list[Live]) -> list[int]:
        """Blocks that would be free if these were paused."""
        return [sum(request.blocks[pool] for request in requests) for pool in range(len(self.windows))]

    def shared_blocks(self, request: Live, *, with_free: bool = False) -> int:
        return 0

    def new_block(self, request: Live) -> int | None:
        """The first block of its prompt that the cache does not have."""
        return None

    def _prompt_blocks(self, request: Live, window: Window) -> int:
        """Beams share the last block of a prompt if it is full (isShareLastContextBlock); with block reuse never."""
        tokens = min(request.prompt, window.longest + window.spare)
        apart = tokens % window.block > 0 or self.capacity.reuses
        return cdiv(tokens, window.block) + (self.capacity.beams - 1 if apart else 0)

    def _blocks_at(self, request: Live, pool: int, tokens: int) -> int:
        window, beams = self.windows[pool], self.capacity.beams
        more = cdiv(tokens, window.block) - cdiv(request.prompt, window.block)
        return self._prompt_blocks(request, window) + more * beams - request.cut[pool]

    def _slide(self, request: Live, pool: int, tokens: int) -> None:
        """What has left the window is given back. Of a single step token by token, as the engine does it: a block is
        given back before the next one is taken."""
        window = self.windows[pool]
        first = request.tokens + 1 if tokens - request.tokens <= 1 + self.capacity.drafts else tokens
        for count in range(first, tokens + 1):
            request.cut[pool] = max(request.cut[pool], (count - window.size) // window.block)
            self._take(request, pool, self._blocks_at(request, pool, count))

    def _take(self, request: Live, pool: int, blocks: int) -> None:
        self.free[pool] -= blocks - request.blocks[pool]
        request.blocks[pool] = blocks
        if self.free[pool] < 0:
            raise out_of_blocks(self.windows[pool])


def out_of_blocks(window: Window) -> OomphError:
    """The scheduler has let in more than there is: prompts longer than a window's reserve, and beams that do not share
    the last block of a prompt."""
    return OomphError(
        f"this load breaks the engine: Can't allocate new blocks for window size {window.size}. No free blocks left.",
        hint="fewer requests at once: a smaller max_batch_size",
    )
