"""The block pool in two forms with one face: CountPool counts, BlockPool knows every block.

Counting is enough while no request shares a prefix: a block is then only free or held. With prefixes the free queue's
order decides what is evicted, and BlockPool keeps it as v1/core/block_pool.py does.

    lookup(req)                    tokens found in the prefix cache
    gate(req, tokens)              blocks that admission asks for
    start(req, cached, new, spare) give a waiting request its first blocks; False: they are not there
    extend(req, slots, settled, known)  free what left the window, then grow; False: not enough
    release(req)
"""

from __future__ import annotations

from collections import OrderedDict
from math import lcm

from oomph.simulate.config import Config, Group, Job, block_keys
from oomph.units import cdiv


class Live:
    """A request inside the engine. `lens`/`skips`: blocks of each group, and how many of those were given back."""

    __slots__ = (
        "blocks",
        "cached",
        "computed",
        "decodes",
        "drafts",
        "finish",
        "first_token",
        "frees",
        "gone",
        "grows",
        "in_flight",
        "job",
        "k0",
        "keyed",
        "keys",
        "lens",
        "next_skip",
        "next_slots",
        "order",
        "output",
        "placeholders",
        "preemptions",
        "skips",
        "started",
        "tokens",
        "waiting",
        "warm",
    )  # fmt: skip

    def __init__(self, job: Job, output: int) -> None:
        self.job = job
        self.output = output
        self.tokens = job.prompt  # prompt and known output
        self.computed = self.placeholders = self.in_flight = self.drafts = self.decodes = 0
        self.warm = -1  # decode steps since it was admitted
        self.order = self.preemptions = 0
        self.waiting, self.gone = True, False
        self.started = self.first_token = -1
        self.cached = 0
        self.lens: list[int] = []
        self.skips: list[int] = []
        self.blocks: list[list[Block]] = []
        self.keyed: list[int] = []
        self.keys: dict[int, list[int]] = {}  # by block size: the hashes of its chain's blocks
        self.next_slots = self.next_skip = 0
        self.k0 = 0  # steady: computed = step - k0
        self.finish = 0  # steady: the step that samples the last token
        self.frees = 0  # steady: groups (bits) whose window it has outgrown
        self.grows = 0  # steady: groups (bits) whose window it still fills


class CountPool:
    def __init__(self, config: Config) -> None:
        self.groups = config.groups
        self.counts = [g.count for g in config.groups]
        self.free = config.usable
        self.capped = config.gate == "capped"

    def lookup(self, req: Live) -> int:
        return 0

    def gate(self, req: Live, tokens: int) -> int:
        return sum(g.count * g.admission(tokens, self.capped) for g in self.groups)

    def start(self, req: Live, cached: int, new: int, spare: int) -> bool:
        lens = [g.first if g.kind == "state" else cdiv(new, g.block_size) for g in self.groups]
        need = sum(n * c for n, c in zip(lens, self.counts))
        if need + spare > self.free:
            return False
        self.free -= need
        req.lens, req.skips = lens, [0] * len(lens)
        return True

    def extend(self, req: Live, slots: int, settled: int, known: int) -> bool:
        need = 0
        lens, skips = req.lens, req.skips
        grown = []
        for i, g in enumerate(self.groups):
            if g.kind == "state":
                required = g.later
            else:
                required = -(-slots // g.block_size)
                if g.kind != "full":
                    skipped = min(g.skipped(settled), lens[i])
                    if skipped > skips[i]:
                        self.free += g.count * (skipped - skips[i])
                        skips[i] = skipped
            required = max(required, lens[i])
            grown.append(required)
            need += g.count * (required - lens[i])
        if need > self.free:
            return False
        self.free -= need
        req.lens = grown
        return True

    def release(self, req: Live) -> None:
        self.free += sum(c * (n - s) for c, n, s in zip(self.counts, req.lens, req.skips))
        req.lens = req.skips = []


class Block:
    __slots__ = ("key", "number", "ref")

    def __init__(self, number: int) -> None:
        self.number = number
        self.ref = 0
        self.key: tuple[int, int] | None = None


class BlockPool:
    """Blocks are made when they are first used: memory follows what was touched, not the pool's size."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.groups = config.expanded()
        self.capped = config.gate == "capped"
        self.null = Block(0)
        self.made, self.usable = 0, config.usable
        self.stack: list[Block] = []  # reused first: blocks without a hash (0.24+)
        self.queue: OrderedDict[int, Block] = OrderedDict()
        self.cache: dict[tuple[int, int], dict[int, Block]] = {}
        self.align = lcm(*(g.block_size for g in self.groups if g.kind != "state"), 1)
        self.cacheable = config.prefix_caching and all(g.kind != "state" for g in self.groups)
        kinds = sorted(dict.fromkeys(self.groups), key=lambda g: g.kind != "full")
        self.kinds = [(g, [i for i, other in enumerate(self.groups) if other == g]) for g in kinds]
        self.hits: list[list[Block]] = []
        self.hit_of: tuple[Live | None, int, int] = (None, 0, 0)
        self.watched: set[int] = set()  # hashes of the request that was looked up last
        self.version = 0  # of what the cache holds of them
        self.hit_length = 0

    @property
    def free(self) -> int:
        return self.usable - self.made + len(self.stack) + len(self.queue)

    # --- blocks

    def _take(self, n: int) -> list[Block]:
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

    def _give(self, blocks: list[Block]) -> None:
        first = []
        for block in blocks:
            if block is self.null:
                continue
            block.ref -= 1
            if block.ref == 0:
                if self.config.uncached_first and block.key is None:
                    first.append(block)
                else:
                    self.queue[block.number] = block
        self.stack.extend(reversed(first))

    # --- the pool's face

    def lookup(self, req: Live) -> int:
        """find_longest_cache_hit: every kind of group shortens the hit until all agree."""
        if self.hit_of == (req, req.tokens, self.version):
            return self.hit_length
        if self.hit_of[0] is not req:
            self.watched = {key for g, _ in self.kinds for key in self._keys(req, g.block_size)}
        self.hit_of = (req, req.tokens, self.version)
        self.hits = [[] for _ in self.groups]
        self.hit_length = 0
        if not self.cacheable:
            return 0
        length = req.tokens - 1
        found: dict[int, list[list[Block]]] = {}
        while True:
            current = length
            for at, (group, ids) in enumerate(self.kinds):
                if group.kind == "full" and at in found:
                    current = current // group.block_size * group.block_size
                    continue
                found[at] = self._longest(req, group, ids, current)
                current = len(found[at][0]) * group.block_size
            if current >= length:
                break
            length = current
            if len(self.kinds) <= 2 and self.kinds[0][0].kind == "full":
                break
        for at, (group, ids) in enumerate(self.kinds):
            for mine, blocks in zip(ids, found[at]):
                self.hits[mine] = blocks[: length // group.block_size]
        self.hit_length = length
        return length

    def _keys(self, req: Live, size: int) -> list[int]:
        if size not in req.keys:
            req.keys[size] = block_keys(req.job, size, req.job.prompt + req.output)
        return req.keys[size]

    def _longest(self, req: Live, group: Group, ids: list[int], length: int) -> list[list[Block]]:
        size, drop = group.block_size, self.config.drop_last_hit
        count = length // size
        keys = self._keys(req, size)[:count]
        columns: list[list[Block]] = []  # one for each block index from `begin`
        begin = 0
        if group.kind == "window":
            begin, columns = self._in_window(group, ids, keys, count)
        else:
            if group.kind == "chunk":
                begin = length // group.span * group.span // size
            for key in keys[begin:count]:
                blocks = self._cached(ids, key)
                if blocks is None:
                    break
                columns.append(blocks)
        if drop and (columns or begin):
            begin, columns = (begin, columns[:-1]) if columns else (begin - 1, columns)
        while (begin + len(columns)) * size % self.align:
            begin, columns = (begin, columns[:-1]) if columns else (begin - 1, columns)
        nulls = [self.null] * begin
        return [nulls + [c[i] for c in columns] for i in range(len(ids))]

    def _in_window(self, group: Group, ids: list[int], keys: list[int], count: int) -> tuple[int, list[list[Block]]]:
        """From right to left: the last run of blocks that fills a window; a shorter run counts only at the start."""
        size, drop = group.block_size, self.config.drop_last_hit
        wanted = cdiv(group.span - 1, size) + drop
        run: list[list[Block]] = []
        for i in range(min(count, len(keys)) - 1, -1, -1):
            blocks = self._cached(ids, keys[i])
            if blocks is None:
                run = []
                continue
            if not run and (i if drop else i + 1) * size % self.align:
                continue
            run.append(blocks)
            if len(run) >= wanted:
                return i, run[::-1]
        return 0, run[::-1]

    def _cached(self, ids: list[int], key: int) -> list[Block] | None:
        out = []
        for i in ids:
            same = self.cache.get((i, key))
            if same is None:
                return None
            out.append(next(iter(same.values())))
        return out

    def gate(self, req: Live, tokens: int) -> int:
        return self._need([g.admission(tokens, self.capped) for g in self.groups])

    def _need(self, wanted: list[int]) -> int:
        """get_num_blocks_to_allocate of a fresh request: new blocks, and found ones that are in the free queue."""
        skipped = [g.skipped(self.hit_length) for g in self.groups]
        need = sum(max(w - max(s, len(h)), 0) for w, s, h in zip(wanted, skipped, self.hits))
        if need <= self.free:  # else the answer is no already
            null = self.null
            need += sum(b.ref == 0 and b is not null for s, h in zip(skipped, self.hits) for b in h[s:])
        return need

    def start(self, req: Live, cached: int, new: int, spare: int) -> bool:
        wanted = [g.first if g.kind == "state" else cdiv(cached + new, g.block_size) for g in self.groups]
        if self._need(wanted) + spare > self.free:
            return False
        req.blocks = []
        for group, hit in zip(self.groups, self.hits):
            skipped = group.skipped(cached)
            for block in hit[skipped:]:
                if block is not self.null:
                    if block.ref == 0:
                        del self.queue[block.number]
                    block.ref += 1
            req.blocks.append([self.null] * skipped + hit[skipped:])
        req.keyed = [len(b) for b in req.blocks]
        req.skips = [0] * len(self.groups)
        for mine, w in zip(req.blocks, wanted):
            mine += self._take(max(0, w - len(mine)))
        self._remember(req, min(cached + new, req.tokens))
        req.next_slots = req.next_skip = 0
        return True

    def extend(self, req: Live, slots: int, settled: int, known: int) -> bool:
        if slots <= req.next_slots and settled < req.next_skip and not self.config.spec_tokens:
            return True
        for i, group in enumerate(self.groups):
            if group.kind != "full":
                self._skip(req, i, group.skipped(settled))
        wanted = [g.later if g.kind == "state" else -(-slots // g.block_size) for g in self.groups]
        need = sum(max(0, w - len(mine)) for mine, w in zip(req.blocks, wanted))
        if need > self.free:
            return False
        for mine, w in zip(req.blocks, wanted):
            mine += self._take(max(0, w - len(mine)))
        self._remember(req, known)
        self._next(req, slots, settled, known)
        return True

    def _next(self, req: Live, slots: int, settled: int, known: int) -> None:
        """Until which slot, and until which token, the next calls change nothing."""
        ends = [g.block_size - known % g.block_size for g in self.groups if g.kind != "state"]
        room = [len(m) * g.block_size - slots for m, g in zip(req.blocks, self.groups) if g.kind != "state"]
        req.next_slots = slots + max(0, min([*room, *(e - 1 for e in ends)], default=0))
        edges = [settled + 1 << 40]
        for g in self.groups:
            if g.kind == "window":
                past = max(0, settled - g.span + 1)
                edges.append(g.span - 1 + (past // g.block_size + 1) * g.block_size)
            elif g.kind == "chunk":
                edges.append((settled // g.span + 1) * g.span)
        req.next_skip = min(edges)

    def _skip(self, req: Live, i: int, skipped: int) -> None:
        mine = req.blocks[i]
        removed = []
        for j in range(min(skipped, len(mine)) - 1, -1, -1):
            if mine[j] is self.null:
                break
            removed.append(mine[j])
            mine[j] = self.null
        if removed:
            self._give(removed)

    def _remember(self, req: Live, tokens: int) -> None:
        """cache_full_blocks: from now on others find these blocks."""
        if not self.cacheable:
            return
        for i, group in enumerate(self.groups):
            if tokens // group.block_size <= req.keyed[i]:
                continue
            keys = self._keys(req, group.block_size)
            full = min(len(keys), tokens // group.block_size)
            for j in range(req.keyed[i], full):
                block = req.blocks[i][j]
                if block is not self.null:
                    block.key = (i, keys[j])
                    self.cache.setdefault(block.key, {})[block.number] = block
                    if keys[j] in self.watched:
                        self.version += 1
            req.keyed[i] = max(req.keyed[i], full)

    def release(self, req: Live) -> None:
        for mine in req.blocks:
            self._give(mine[::-1])
        req.blocks = []
