"""vLLM's KV cache manager, literally: real blocks in a real free queue, one list for each request and group.

Written from kv_cache_manager.py, kv_cache_coordinator.py, single_type_kv_cache_manager.py and block_pool.py, 0.11.0 to
0.32.0; what changed in between is asked of the config.
"""

from __future__ import annotations

from typing import Any

from oomph.engines.vllm.scheduler.rules import cacheable, kept, replayed
from oomph.simulate.config import Config, Group, Job, block_keys
from oomph.units import cdiv


class Block:
    def __init__(self, number: int) -> None:
        self.number, self.ref, self.key = number, 0, None


class Pool:
    def __init__(self, num_blocks: int, uncached_first: bool) -> None:
        self.blocks = [Block(i) for i in range(num_blocks)]
        self.null = self.blocks[0]
        self.queue: dict[int, Block] = {b.number: b for b in self.blocks[1:]}  # ordered: first is evicted first
        self.cache: dict[Any, dict[int, Block]] = {}
        self.uncached_first = uncached_first

    @property
    def free(self) -> int:
        return len(self.queue)

    def take(self, n: int) -> list[Block]:
        assert n <= self.free, "a block was handed out twice"
        out = []
        for _ in range(n):
            number = next(iter(self.queue))
            block = self.queue.pop(number)
            assert block.ref == 0
            if block.key is not None:
                same = self.cache[block.key]
                del same[number]
                if not same:
                    del self.cache[block.key]
                block.key = None
            block.ref = 1
            out.append(block)
        return out

    def give(self, blocks: list[Block]) -> None:
        first, last = [], []
        for block in blocks:
            if block is self.null:
                continue
            block.ref -= 1
            assert block.ref >= 0
            if block.ref == 0:
                (first if self.uncached_first and block.key is None else last).append(block)
        for block in last:
            self.queue[block.number] = block
        if first:
            rest = self.queue
            self.queue = {b.number: b for b in first}
            self.queue.update(rest)

    def touch(self, blocks: list[Block]) -> None:
        for block in blocks:
            if block is not self.null:
                if block.ref == 0:
                    del self.queue[block.number]
                block.ref += 1


class Req:
    def __init__(self, job: Job, groups: tuple[Group, ...]) -> None:
        self.job = job
        self.output = job.output
        self.tokens = job.prompt  # prompt and known output
        self.computed = 0
        self.placeholders = 0
        self.in_flight = 0
        self.stale = 0
        self.drafts = 0
        self.decodes = 0
        self.chunking = False
        self.junction = 0
        self.reached, self.lone = -1, 0  # tokens when it was preempted though nobody else ran; how often in a row
        self.started = self.first_token = self.finished = -1
        self.preemptions = 0
        self.cached = -1
        self.waiting = True
        self.gone = False
        self.forget(len(groups))

    def forget(self, groups: int) -> None:
        self.blocks: list[list[Block]] = [[] for _ in range(groups)]
        self.keyed = [0] * groups
        self.held = False  # has it been given blocks
        self.last_state = [-1] * groups  # align: index of the state before the current one
        self.retired = [0] * groups
        self.inner: dict[int, tuple[int, int]] = {}  # align: position of a state inside the chunk, its place (0.32)


class Blocks:
    """KVCacheManager with its coordinator and a manager for each group."""

    def __init__(self, config: Config) -> None:
        self.c = config
        self.groups = config.expanded()
        self.pool = Pool(config.num_blocks, config.uncached_first)
        self.hybrid = len(self.groups) > 1
        kinds = sorted(dict.fromkeys(self.groups), key=lambda g: g.kind != "full")
        self.kinds = [(g, [i for i, other in enumerate(self.groups) if other == g]) for g in kinds]
        self.caching = config.prefix_caching and all(g.kind != "state" for g in self.groups)
        self.this_step: set[Any] = set()  # states that get a hash in this step

    # --- find_longest_cache_hit ---------------------------------------------------------------------------------

    def lookup(self, req: Req) -> tuple[list[list[Block]], int]:
        req.junction = 0
        none: list[list[Block]] = [[] for _ in self.groups]
        if not self.caching:
            return none, 0
        most = req.tokens - 1
        if not self.hybrid:
            hit = self.longest(req, self.groups[0], [0], most, self.c.drop_last_hit)
            return hit, len(hit[0]) * self.groups[0].block_size
        hits, length, longest = self.agree(req, most)
        if self.c.junctions and longest > length:
            req.junction = longest
        out = [[] for _ in self.groups]
        for (group, ids), found in zip(self.kinds, hits, strict=True):
            for i, blocks in zip(ids, found, strict=True):
                out[i] = blocks[: length // group.block_size] if group.kind == "full" else blocks
        return out, length

    def agree(self, req: Req, most: int) -> tuple[list[Any], int, int]:
        """Every kind of group shortens the hit until all agree."""
        rule, hits = self.c.eagle, [None] * len(self.kinds)
        simple = len(self.kinds) == 2 and self.kinds[0][0].kind == "full"
        length, longest, dropped = most, 0, set()
        while True:
            current = length
            for at, (group, ids) in enumerate(self.kinds):
                if group.kind == "full" and hits[at] is not None:
                    current = current // group.block_size * group.block_size
                    if rule == "past":
                        current = min(current, len(hits[at][0]) * group.block_size)
                    continue
                drop, until = self.c.drop_last_hit, current
                if rule in ("once", "past"):
                    drop = drop and at not in dropped
                    if drop and (group.kind not in ("align", "all") or not self.c.settled):
                        whole = len(block_keys(req.job, self.hash_size, req.tokens)) * self.hash_size
                        until = min(current + group.block_size, whole if rule == "past" else most)
                hits[at] = self.longest(req, group, ids, until, drop)
                found = len(hits[at][0]) * group.block_size
                if drop:
                    dropped.add(at)
                elif found < current:
                    dropped.clear()
                current = found
                longest = max(longest, current)
            if current >= length:
                return hits, length, longest
            length = current
            if rule == "each" or (simple and rule != "spiral"):
                return hits, length, longest

    @property
    def hash_size(self) -> int:
        return min(g.block_size for g in self.groups)

    def longest(self, req: Req, group: Group, ids: list[int], length: int, drop: bool) -> list[list[Block]]:
        size, align = group.block_size, self.c.block
        count = length // size
        keys = block_keys(req.job, size, req.tokens)

        def cached(i: int) -> list[Block] | None:
            if i >= len(keys):
                return None
            found = [self.pool.cache.get((g, keys[i])) for g in ids]
            return None if any(f is None for f in found) else [next(iter(f.values())) for f in found]

        out: list[list[Block]] = [[] for _ in ids]
        if group.kind in ("align", "all"):
            for i in range(count - 1, -1, -1):
                row = cached(i)
                if row is not None and (i + 1) * size % align == 0:
                    return [[self.pool.null] * i + [block] for block in row]
            return out
        if group.kind == "window":
            wanted = cdiv(group.span - 1, size) + drop
            out = [[self.pool.null] * count for _ in ids]
            run, found = 0, False
            for i in range(count - 1, -1, -1):
                row = cached(i)
                if row is None:
                    run = 0
                    continue
                if run == 0 and (i if drop and self.c.eagle in ("once", "past") else i + 1) * size % align:
                    continue
                for mine, block in zip(out, row, strict=True):
                    mine[i] = block
                run += 1
                if run >= wanted:
                    for mine in out:
                        del mine[i + run :]
                    found = True
                    break
            if not found:
                for mine in out:
                    del mine[run:]
                self.trim(out, size)
        else:
            begin = length // group.span * group.span // size if group.kind == "chunk" else 0
            out = [[self.pool.null] * begin for _ in ids]
            for i in range(begin, count):
                row = cached(i)
                if row is None:
                    break
                for mine, block in zip(out, row, strict=True):
                    mine.append(block)
        if drop and out[0]:
            for mine in out:
                mine.pop()
        self.trim(out, size)
        return out

    def trim(self, out: list[list[Block]], size: int) -> None:
        while out[0] and len(out[0]) * size % self.c.block:
            for mine in out:
                mine.pop()

    # --- allocate_slots -----------------------------------------------------------------------------------------

    def need(self, req: Req, i: int, tokens: int, main: int, hit: list[Block], computed: int, capped: bool) -> int:
        """get_num_blocks_to_allocate."""
        group, mine = self.groups[i], req.blocks[i]
        if group.kind in ("align", "all") and hit and hit[-1].key in self.this_step and self.c.same_step_waits:
            return self.c.num_blocks + 1
        evictable = sum(b.ref == 0 and b is not self.pool.null for b in hit)
        if group.kind == "align":
            new = cdiv(main, group.block_size) + group.drafts - len(hit) - len(mine)
            inner = self.inner(req, i, computed, main)
            if not capped:
                req.inner.pop(i, None)
                if inner:
                    req.inner[i] = (self.checkpoint(main), cdiv(main, group.block_size) - 2)
            if new > 0:
                most = 1 + inner if req.held else 1 + inner + group.drafts
                new = min(new, most) if self.c.align_frees == "range" else most
            return max(new, 0) + evictable
        required = group.required(tokens)
        if capped and group.cap:
            required = min(required, group.cap)
        if req.held:
            return max(required - len(mine), 0)
        skipped = group.skipped(computed)
        evictable = sum(b.ref == 0 and b is not self.pool.null for b in hit[skipped:])
        return max(required - max(skipped, len(hit)), 0) + evictable

    def checkpoint(self, tokens: int) -> int:
        """get_mamba_prefill_checkpoint_position."""
        if self.c.drop_last_hit:
            return max(tokens // self.c.block * self.c.block - self.c.block, 0)
        return (tokens - 1) // self.c.block * self.c.block

    def inner(self, req: Req, i: int, start: int, end: int) -> int:
        """_needs_internal_checkpoint and is_mamba_prefill_checkpoint_valid."""
        group, mine, size = self.groups[i], req.blocks[i], self.c.block
        place, position = cdiv(end, size) - 2, self.checkpoint(end)
        if not group.checkpoint or end < max(req.job.prompt, req.tokens - 1) or start % size:
            return 0
        if place <= (start - 1) // size or not start + size <= position < end:
            return 0
        if (position - start) % group.checkpoint or place < 0:
            return 0
        if place >= len(mine) or mine[place] is self.pool.null:
            return 1
        return int(req.held and place >= len(mine) - group.drafts)

    def admit(self, req: Req, hits: list[list[Block]], cached: int, new: int, lookahead: int, spare: int) -> bool:
        """A waiting request: the gate, then its first blocks."""
        if self.c.gate != "chunk":
            total = min(req.tokens, self.c.max_model_len)
            capped = self.c.gate == "capped"
            need = sum(self.need(req, i, total, total, hits[i], cached, capped) for i in range(len(self.groups)))
            if need + spare > self.pool.free:
                return False
        main = cached + new
        slots = min(main + lookahead, self.c.max_model_len)
        need = sum(self.need(req, i, slots, main, hits[i], cached, False) for i in range(len(self.groups)))
        if need + spare > self.pool.free:
            return False
        for i, (group, hit) in enumerate(zip(self.groups, hits, strict=True)):
            skipped = group.skipped(cached) if hit else 0
            found = hit[skipped:]
            self.pool.touch(found)
            req.blocks[i] = [self.pool.null] * skipped + found
            req.keyed[i] = len(req.blocks[i])
        for i in range(len(self.groups)):
            self.grow(req, i, slots, main)
        req.held = True
        self.remember(req, min(main, req.tokens))
        return True

    def extend(self, req: Req, new: int, lookahead: int) -> bool:
        main = req.computed + new
        slots = min(main + lookahead, self.c.max_model_len)
        settled = max(0, req.computed - req.in_flight) if self.c.settled and self.c.lag else req.computed
        for i in range(len(self.groups)):
            self.skip(req, i, settled)
        need = sum(self.need(req, i, slots, main, [], req.computed, False) for i in range(len(self.groups)))
        if need > self.pool.free:
            return False
        for i in range(len(self.groups)):
            self.grow(req, i, slots, main)
        self.remember(req, min(main, req.tokens))
        return True

    def grow(self, req: Req, i: int, slots: int, main: int) -> None:
        """allocate_new_blocks."""
        group, mine = self.groups[i], req.blocks[i]
        if group.kind != "align":
            mine += self.pool.take(max(0, group.required(slots) - len(mine)))
            return
        required = cdiv(main, group.block_size) + group.drafts
        if required <= len(mine):
            return
        before = len(mine)
        if req.held:
            req.last_state[i] = before - 1 - group.drafts
        elif before:
            req.last_state[i] = before - 1
        skipped = required - group.drafts - 1 - (i in req.inner)
        mine += [self.pool.null] * (skipped - before)
        if req.held:
            for j in range(before - group.drafts, before):
                if j >= skipped:
                    break
                mine.append(mine[j])
                mine[j] = self.pool.null
        mine += self.pool.take(required - len(mine))

    def skip(self, req: Req, i: int, computed: int) -> None:
        """remove_skipped_blocks."""
        group, mine = self.groups[i], req.blocks[i]
        rule = self.c.align_frees
        if group.kind in ("align", "all") and rule == "margin":  # drafts of the step before may be rejected
            computed = max(0, computed - group.drafts)
        removed = []
        until = min(group.skipped(computed), len(mine))
        through = group.kind == "align" and rule == "range"
        for j in range(until - 1, req.retired[i] - 1 if through else -1, -1):
            if mine[j] is self.pool.null:
                if through:
                    continue
                break
            removed.append(mine[j])
            mine[j] = self.pool.null
        if through:
            req.retired[i] = max(req.retired[i], until)
        self.pool.give(removed)
        last = req.last_state[i]
        if group.kind == "align" and 0 <= last < cdiv(computed, group.block_size) - 1:
            self.pool.give([mine[last]])
            mine[last] = self.pool.null

    def remember(self, req: Req, tokens: int) -> None:
        """cache_blocks: from now on others find them."""
        if not self.caching:
            return
        for i, group in enumerate(self.groups):
            keys = block_keys(req.job, group.block_size, tokens)
            sure = cacheable(self.c, self.c.block, group, tokens, self.hybrid)
            first, last = req.keyed[i], sure // group.block_size
            if first < last:
                mask = kept(self.c, self.c.block, group, first, last, req.job.prompt, req.junction)
                for j in range(first, last):
                    if mask is None or mask[j - first]:
                        self.hash(req, i, j, keys)
                req.keyed[i] = last
            replay = replayed(self.c, self.c.block, req.job.prompt)
            if i in req.inner:
                self.hash_inner(req, i, keys)
            elif self.c.split == "resend" and group.kind == "align" and sure == replay > 0:
                self.hash(req, i, last - 1, keys)

    def hash_inner(self, req: Req, i: int, keys: list[int]) -> None:
        position, place = req.inner[i]
        block = req.blocks[i][place]
        keep = position in (self.checkpoint(req.job.prompt), req.junction)
        key = (i, keys[position // self.groups[i].block_size - 1]) if keep else (i, 0)
        if keep and block.key == key:
            return
        if block.key is not None:
            del self.pool.cache[block.key][block.number]
            if not self.pool.cache[block.key]:
                del self.pool.cache[block.key]
            block.key = None
        if keep:
            block.key = key
            self.pool.cache.setdefault(key, {})[block.number] = block
            self.this_step.add(key)

    def hash(self, req: Req, i: int, j: int, keys: list[int]) -> None:
        block = req.blocks[i][j]
        if block is self.pool.null:
            return
        block.key = (i, keys[j])
        self.pool.cache.setdefault(block.key, {})[block.number] = block
        if self.groups[i].kind in ("align", "all"):
            self.this_step.add(block.key)

    def release(self, req: Req) -> None:
        for i in range(len(self.groups)):
            self.pool.give(list(reversed(req.blocks[i])))
        req.forget(len(self.groups))
