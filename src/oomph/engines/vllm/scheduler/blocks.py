"""The block pool with every block: each request's tables and their hashes (single_type_kv_cache_manager.py). The free
queue is in queue.py; what a request finds in the cache is in hits.py."""

from collections.abc import Iterable
from itertools import compress

from oomph.engines.vllm.scheduler.hits import Hits, request_keys
from oomph.engines.vllm.scheduler.live import Live
from oomph.engines.vllm.scheduler.queue import Block, BlockQueue, Key, Tables
from oomph.engines.vllm.scheduler.rules import cacheable, kept, replayed
from oomph.simulate.config import Config, Group
from oomph.units import cdiv


class BlockPool(BlockQueue):
    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.groups, self.block = config.expanded(), config.block
        self.capped = config.gate == "capped"
        self.caching = config.prefix_caching and all(group.kind != "state" for group in self.groups)
        self.hybrid = len(self.groups) > 1
        self.recurrent = any(group.kind in ("align", "all") for group in self.groups)
        self.this_step: set[Key] = set()  # states that get a hash in this step
        self.prefill_end = 0  # of the request at hand: where its prompt, or what it replays, ends
        self.hits: Tables = []
        self.finder = Hits(config, self)

    def begin(self) -> None:
        self.this_step.clear()

    def lookup(self, req: Live) -> int:
        if not self.caching:
            self.hits = [[] for _ in self.groups]
            return 0
        self.hits, length = self.finder.find(req)
        return length

    # --- allocate_slots

    def admit(self, req: Live, cached: int, new: int, spare: int) -> bool:
        config, hits, room = self.c, self.hits, self.free - spare
        if any(h and h[-1].key in self.this_step for h in hits) and config.same_step_waits:
            return False
        skips = [group.skipped(cached) if h else 0 for group, h in zip(self.groups, hits)]
        self.prefill_end = max(req.job.prompt, req.tokens - 1)
        gate = 0
        if config.gate != "chunk":
            total = min(req.tokens, config.max_model_len)
            for group, hit, skip in zip(self.groups, hits, skips):
                gate += self._fresh(group, total, cached, total, hit, skip, self.capped)
            if gate > room:
                return False
        main = cached + new
        slots = min(main + (config.lookahead if config.lookahead_first else 0), config.max_model_len)
        need = sum(
            self._fresh(group, slots, cached, main, hit, skip, False)
            for group, hit, skip in zip(self.groups, hits, skips)
        )
        evictable = 0
        for group, hit, skip in zip(self.groups, hits, skips):
            evictable += sum(b.ref == 0 and b is not self.null for b in (hit if group.kind == "align" else hit[skip:]))
        if max(need, gate) + evictable > room:
            return False
        req.blocks = []
        for hit, skip in zip(hits, skips):
            self.touch(hit[skip:])
            req.blocks.append([self.null] * skip + hit[skip:])
        req.keyed = [len(b) for b in req.blocks]
        req.last_state, req.retired = [-1] * len(hits), [0] * len(hits)
        req.checkpoints = self._inner_states(req, cached, main, [0] * len(hits))
        for i in range(len(hits)):
            self._grow(req, i, slots, main, False)
        req.next_slots = req.next_skip = req.next_key = 0
        req.tails = []
        self.remember(req, min(main, req.tokens))
        return True

    def _fresh(
        self, group: Group, tokens: int, cached: int, main: int, hit: list[Block], skipped: int, capped: bool
    ) -> int:
        """New blocks of a request that has none yet."""
        if group.kind == "align":
            new = cdiv(main, group.block_size) + group.drafts - len(hit)
            if new <= 0:
                return 0
            most = 1 + group.drafts + self.c.inner_state(group, cached, main, self.prefill_end)
            return min(new, most) if self.c.align_frees == "range" else most
        required = group.required(tokens)
        if capped and group.cap:
            required = min(required, group.cap)
        return max(required - max(skipped, len(hit)), 0)

    def extend(self, req: Live, new: int) -> bool:
        config = self.c
        main = req.computed + new
        slots = min(main + config.lookahead, config.max_model_len)
        past = req.processed(config)
        if slots <= req.next_slots and past < req.next_skip and not config.spec_tokens and not req.checkpoints:
            if req.tails or main >= req.next_key:
                self.remember(req, min(main, req.tokens))
            return True
        for i, group in enumerate(self.groups):
            if group.kind not in ("full", "state"):
                self._skip(req, i, group, past)
        self.prefill_end = max(req.job.prompt, req.tokens - 1)
        lens = [len(mine) for mine in req.blocks]
        req.checkpoints = inner = self._inner_states(req, req.computed, main, lens)
        need = 0
        for i, (group, mine) in enumerate(zip(self.groups, req.blocks)):
            if group.kind == "align":
                need += max(0, min(cdiv(main, group.block_size) + group.drafts - len(mine), 1 + (i in inner)))
            else:
                need += max(0, group.required(slots) - len(mine))
        if need > self.free:
            return False
        for i in range(len(self.groups)):
            self._grow(req, i, slots, main, True)
        self._next(req, past)
        self.remember(req, min(main, req.tokens))
        self._rest(req)
        return True

    def _rest(self, req: Live) -> None:
        config = self.c
        watchful = req.tails or req.checkpoints or config.spec_tokens
        until = min(req.next_slots - config.lookahead + 1, req.next_skip, req.next_key, req.total - 1)
        req.quiet = 0 if watchful else min(until, config.max_model_len - 1)

    def _inner_states(self, req: Live, start: int, main: int, lens: list[int]) -> dict[int, tuple[int, int]]:
        """By group: the position whose state this chunk keeps inside itself, and its place in the table (0.32)."""
        inner = {}
        for i, group in enumerate(self.groups):
            if not group.checkpoint or not self.c.inner_state(group, start, main, self.prefill_end):
                continue
            place = cdiv(main, group.block_size) - 2
            if place >= lens[i] - (group.drafts if lens[i] else 0) or req.blocks[i][place] is self.null:
                inner[i] = self.c.checkpoint_position(main), place
        return inner

    def _grow(self, req: Live, i: int, slots: int, main: int, running: bool) -> None:
        group, mine = self.groups[i], req.blocks[i]
        if group.kind != "align":
            mine += self.take(max(0, group.required(slots) - len(mine)))
            return
        before, required = len(mine), cdiv(main, group.block_size) + group.drafts
        if required <= before:
            return
        if running or before:
            req.last_state[i] = before - 1 - (group.drafts if running else 0)
        skipped = required - group.drafts - 1 - (i in req.checkpoints)
        mine += [self.null] * (skipped - before)
        if running:
            for j in range(before - group.drafts, min(before, skipped)):  # drafts' states move along
                mine.append(mine[j])
                mine[j] = self.null
        mine += self.take(required - len(mine))

    def _skip(self, req: Live, i: int, group: Group, past: int) -> None:
        mine, null = req.blocks[i], self.null
        if group.drafts and self.c.align_frees == "margin":
            past = max(0, past - group.drafts)
        until = min(group.skipped(past), len(mine))
        through = group.kind == "align" and self.c.align_frees == "range"
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
        if group.kind == "align" and 0 <= last < cdiv(past, group.block_size) - 1 and mine[last] is not null:
            self.give([mine[last]])
            mine[last] = null

    def _next(self, req: Live, past: int) -> None:
        """Until which slot, and until which token, the next calls change nothing."""
        slots, skip = 1 << 60, 1 << 60
        for i, group in enumerate(self.groups):
            if group.kind == "state":
                continue
            slots = min(slots, (len(req.blocks[i]) - group.drafts) * group.block_size)
            if group.kind == "window":
                skip = min(
                    skip, group.span - 1 + (max(0, past - group.span + 1) // group.block_size + 1) * group.block_size
                )
            elif group.kind == "chunk":
                skip = min(skip, (past // group.span + 1) * group.span)
            elif group.kind in ("align", "all"):
                waits = req.last_state[i] >= 0 and req.blocks[i][req.last_state[i]] is not self.null
                skip = min(skip, 0 if waits else (max(0, past - 1) // group.block_size + 1) * group.block_size + 1)
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
        config, edge = self.c, 1 << 60
        req.tails = []
        for i, group in enumerate(self.groups):
            sure = cacheable(config, self.block, group, tokens, self.hybrid)
            first, last = req.keyed[i], sure // group.block_size
            if first < last:
                mask = kept(config, self.block, group, first, last, req.job.prompt, req.junction)
                self._hash(req, i, range(first, last) if mask is None else compress(range(first, last), mask))
                req.keyed[i] = last
            if i in req.checkpoints:
                self._hash_inner_state(req, i, *req.checkpoints[i])
            elif (
                config.split == "resend"
                and group.kind == "align"
                and sure == replayed(config, self.block, req.job.prompt) > 0
            ):
                self._hash(req, i, (last - 1,))
                if self.hybrid:  # alone, it does so only in the step that ends there
                    req.tails.append((i, last - 1, request_keys(req, i, group.block_size)[last - 1]))
            edge = min(edge, (tokens // group.block_size + 1) * group.block_size)
        req.next_key = 0 if req.checkpoints else edge
        self._rest(req)

    def _hash_inner_state(self, req: Live, i: int, position: int, place: int) -> None:
        """_cache_partial_tail_block (0.32.0) with a checkpoint: the state is found again if it is the prompt's own, or
        where others branch off; that of a replayed answer overwrites its block and is not."""
        block = req.blocks[i][place]
        if position not in (self.c.checkpoint_position(req.job.prompt), req.junction):
            self.forget(block)
            return
        key = request_keys(req, i, self.groups[i].block_size)[position // self.groups[i].block_size - 1]
        if block.key != key:
            self.hash(block, key)
            self.this_step.add(key)

    def _hash(self, req: Live, i: int, places: Iterable[int]) -> None:
        group, mine = self.groups[i], req.blocks[i]
        keys = request_keys(req, i, group.block_size)
        for j in places:
            block, key = mine[j], keys[j]
            if block is self.null:
                continue
            if block.key != key:
                self.hash(block, key)
            if self.recurrent and group.kind in ("align", "all"):
                self.this_step.add(key)

    def release(self, req: Live) -> None:
        for mine in req.blocks:
            self.give(mine[::-1])
        req.blocks = []
