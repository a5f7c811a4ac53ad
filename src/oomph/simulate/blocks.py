"""The block pool with every block: a free queue in the engine's order, tables, hashes (v1/core/block_pool.py,
single_type_kv_cache_manager.py). What is found in it is in hits.py."""

from __future__ import annotations

from collections import OrderedDict

from oomph.simulate.config import Config, Group, block_keys
from oomph.simulate.live import Live
from oomph.simulate.pools import settled
from oomph.simulate.rules import cacheable, kept, replayed
from oomph.units import cdiv


class Block:
    __slots__ = ("key", "number", "ref")

    def __init__(self, number: int) -> None:
        self.number = number
        self.ref = 0
        self.key: tuple[int, int] | None = None


class Free:
    """Blocks are made when they are first used: memory follows what was touched, not the pool's size."""

    def __init__(self, config: Config) -> None:
        self.c = config
        self.null = Block(0)
        self.made, self.usable = 0, config.usable
        self.stack: list[Block] = []  # reused first: blocks without a hash (0.24+)
        self.queue: OrderedDict[int, Block] = OrderedDict()
        self.cache: dict[tuple[int, int], dict[int, Block]] = {}
        self.watched: set[int] = set()  # hashes of the request that was looked up last
        self.version = 0  # of what the cache holds of them

    @property
    def free(self) -> int:
        return self.usable - self.made + len(self.stack) + len(self.queue)

    def take(self, n: int) -> list[Block]:
        out = []
        for _ in range(n):
            if self.stack:
                block = self.stack.pop()
            elif self.made < self.usable:  # never used: at the head of the queue from the start
                self.made += 1
                block = Block(self.made)
            else:
                block = self.queue.popitem(last=False)[1]
                if block.key is not None:
                    self._forget(block)
            block.ref = 1
            out.append(block)
        return out

    def _forget(self, block: Block) -> None:
        assert block.key is not None
        same = self.cache[block.key]
        del same[block.number]
        if not same:
            del self.cache[block.key]
        if block.key[1] in self.watched:
            self.version += 1
        block.key = None

    def give(self, blocks: list[Block]) -> None:
        first = []
        for block in blocks:
            if block is self.null:
                continue
            block.ref -= 1
            if block.ref == 0:
                if self.c.uncached_first and block.key is None:
                    first.append(block)
                else:
                    self.queue[block.number] = block
        self.stack.extend(reversed(first))

    def touch(self, blocks: list[Block]) -> None:
        for block in blocks:
            if block is not self.null:
                if block.ref == 0:
                    del self.queue[block.number]
                block.ref += 1

    def hash(self, block: Block, key: tuple[int, int]) -> None:
        block.key = key
        self.cache.setdefault(key, {})[block.number] = block
        if key[1] in self.watched:
            self.version += 1


class BlockPool(Free):
    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.groups, self.block = config.expanded(), config.block
        self.capped = config.gate == "capped"
        self.caching = config.prefix_caching and all(g.kind != "state" for g in self.groups)
        self.hybrid = len(self.groups) > 1
        self.recurrent = any(g.kind in ("align", "all") for g in self.groups)
        self.this_step: set[tuple[int, int]] = set()  # states that get a hash in this step
        self.hits: list[list[Block]] = []
        from oomph.simulate.hits import Hits

        self.finder = Hits(self)

    def begin(self) -> None:
        self.this_step.clear()

    def lookup(self, req: Live) -> int:
        self.hits, length = self.finder.find(req)
        return length

    def keys(self, req: Live, size: int) -> list[int]:
        if size not in req.keys:
            req.keys[size] = block_keys(req.job, size, req.job.prompt + req.output)
        return req.keys[size]

    # --- allocate_slots

    def admit(self, req: Live, cached: int, new: int, spare: int) -> bool:
        c, hits, room = self.c, self.hits, self.free - spare
        if any(h and h[-1].key in self.this_step for h in hits) and c.same_step_waits:
            return False
        skips = [g.skipped(cached) if h else 0 for g, h in zip(self.groups, hits)]
        if c.gate != "chunk":
            total = min(req.tokens, c.max_model_len)
            gate = sum(self._fresh(g, total, total, h, s, self.capped) for g, h, s in zip(self.groups, hits, skips))
            if gate > room:
                return False
        main = cached + new
        slots = min(main + (c.lookahead if c.lookahead_first else 0), c.max_model_len)
        need = sum(self._fresh(g, slots, main, h, s, False) for g, h, s in zip(self.groups, hits, skips))
        evictable = 0
        for g, h, s in zip(self.groups, hits, skips):
            evictable += sum(b.ref == 0 and b is not self.null for b in (h if g.kind == "align" else h[s:]))
        if max(need, gate if c.gate != "chunk" else 0) + evictable > room:
            return False
        req.blocks = []
        for h, s in zip(hits, skips):
            self.touch(h[s:])
            req.blocks.append([self.null] * s + h[s:])
        req.keyed = [len(b) for b in req.blocks]
        req.last_state, req.retired = [-1] * len(hits), [0] * len(hits)
        for i in range(len(hits)):
            self._grow(req, i, slots, main, False)
        req.next_slots = req.next_skip = req.next_key = 0
        req.tails = []
        self.remember(req, min(main, req.tokens))
        return True

    def _fresh(self, g: Group, tokens: int, main: int, hit: list[Block], skipped: int, capped: bool) -> int:
        """New blocks of a request that has none yet."""
        if g.kind == "align":
            new = cdiv(main, g.block_size) + g.drafts - len(hit)
            if new <= 0:
                return 0
            return min(new, 1 + g.drafts) if self.c.align_frees == "range" else 1 + g.drafts
        required = g.required(tokens)
        if capped and g.cap:
            required = min(required, g.cap)
        return max(required - max(skipped, len(hit)), 0)

    def extend(self, req: Live, new: int) -> bool:
        c = self.c
        main = req.computed + new
        slots = min(main + c.lookahead, c.max_model_len)
        past = settled(c, req)
        if slots <= req.next_slots and past < req.next_skip and not c.spec_tokens:
            if req.tails or main >= req.next_key:
                self.remember(req, min(main, req.tokens))
            return True
        for i, g in enumerate(self.groups):
            if g.kind not in ("full", "state"):
                self._skip(req, i, g, past)
        need = 0
        for g, mine in zip(self.groups, req.blocks):
            if g.kind == "align":
                need += cdiv(main, g.block_size) + g.drafts > len(mine)
            else:
                need += max(0, g.required(slots) - len(mine))
        if need > self.free:
            return False
        for i in range(len(self.groups)):
            self._grow(req, i, slots, main, True)
        self._next(req, past)
        self.remember(req, min(main, req.tokens))
        return True

    def _grow(self, req: Live, i: int, slots: int, main: int, held: bool) -> None:
        g, mine = self.groups[i], req.blocks[i]
        if g.kind != "align":
            mine += self.take(max(0, g.required(slots) - len(mine)))
            return
        before, required = len(mine), cdiv(main, g.block_size) + g.drafts
        if required <= before:
            return
        if held or before:
            req.last_state[i] = before - 1 - (g.drafts if held else 0)
        skipped = required - g.drafts - 1
        mine += [self.null] * (skipped - before)
        if held:
            for j in range(before - g.drafts, min(before, skipped)):  # drafts' states move along
                mine.append(mine[j])
                mine[j] = self.null
        mine += self.take(required - len(mine))

    def _skip(self, req: Live, i: int, g: Group, past: int) -> None:
        mine, null = req.blocks[i], self.null
        if g.drafts and self.c.align_frees == "margin":
            past = max(0, past - g.drafts)
        until = min(g.skipped(past), len(mine))
        through = g.kind == "align" and self.c.align_frees == "range"
        removed = []
        for j in range(until - 1, req.retired[i] - 1, -1):
            if mine[j] is not null:
                removed.append(mine[j])
                mine[j] = null
            elif not through:
                break
        if through:
            req.retired[i] = max(req.retired[i], until)
        if removed:
            self.give(removed)
        last = req.last_state[i]
        if g.kind == "align" and 0 <= last < cdiv(past, g.block_size) - 1 and mine[last] is not null:
            self.give([mine[last]])
            mine[last] = null

    def _next(self, req: Live, past: int) -> None:
        """Until which slot, and until which token, the next calls change nothing."""
        slots, skip = 1 << 60, 1 << 60
        for i, g in enumerate(self.groups):
            if g.kind == "state":
                continue
            slots = min(slots, (len(req.blocks[i]) - g.drafts) * g.block_size)
            if g.kind == "window":
                skip = min(skip, g.span - 1 + (max(0, past - g.span + 1) // g.block_size + 1) * g.block_size)
            elif g.kind == "chunk":
                skip = min(skip, (past // g.span + 1) * g.span)
            elif g.kind in ("align", "all"):
                waits = req.last_state[i] >= 0 and req.blocks[i][req.last_state[i]] is not self.null
                skip = min(skip, 0 if waits else (max(0, past - 1) // g.block_size + 1) * g.block_size + 1)
        req.next_slots, req.next_skip = slots, skip

    # --- cache_blocks

    def remember(self, req: Live, tokens: int) -> None:
        """From now on others find these blocks."""
        if not self.caching:
            return
        if tokens < req.next_key:
            for i, j, key in req.tails:
                if req.blocks[i][j] is not self.null:
                    self.this_step.add(key)
            return
        c, edge = self.c, 1 << 60
        req.tails = []
        for i, g in enumerate(self.groups):
            sure = cacheable(c, self.block, g, tokens, self.hybrid)
            first, last = req.keyed[i], sure // g.block_size
            if c.split == "resend" and g.kind == "align" and sure == replayed(c, self.block, req.job.prompt) > 0:
                self._hash(req, i, last - 1)
                req.tails.append((i, last - 1, (i, self.keys(req, g.block_size)[last - 1])))
            if first < last:
                mask = kept(c, self.block, g, first, last, req.job.prompt, req.junction)
                for j in range(first, last):
                    if mask is None or mask[j - first]:
                        self._hash(req, i, j)
                req.keyed[i] = last
            edge = min(edge, (tokens // g.block_size + 1) * g.block_size)
        req.next_key = edge

    def _hash(self, req: Live, i: int, j: int) -> None:
        block = req.blocks[i][j]
        if block is self.null:
            return
        g = self.groups[i]
        key = (i, self.keys(req, g.block_size)[j])
        if block.key != key:
            self.hash(block, key)
        if self.recurrent and g.kind in ("align", "all"):
            self.this_step.add(key)

    def release(self, req: Live) -> None:
        for mine in req.blocks:
            self.give(mine[::-1])
        req.blocks = []
