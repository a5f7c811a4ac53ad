"""What a request finds in the prefix cache (kv_cache_coordinator.py, find_longest_cache_hit of each kind of group)."""

from oomph.engines.vllm.scheduler.live import Live
from oomph.engines.vllm.scheduler.queue import Block, BlockQueue, Tables
from oomph.simulate.config import Config, Group, block_keys
from oomph.units import cdiv


def request_keys(req: Live, group: int, size: int) -> list[int]:
    """The hashes of a request's blocks in a group whose blocks have `size` tokens, computed once."""
    if group not in req.keys:
        req.keys[group] = block_keys(req.job, size, req.job.prompt + req.output, group)
    return req.keys[group]


class Hits:
    def __init__(self, config: Config, queue: BlockQueue) -> None:
        self.queue, self.c = queue, config
        self.groups = config.expanded()
        self.hybrid = len(self.groups) > 1
        kinds = sorted(dict.fromkeys(self.groups), key=lambda g: g.kind != "full")
        self.kinds = [(g, [i for i, other in enumerate(self.groups) if other == g]) for g in kinds]
        self.block = config.block
        self.sizes = {g.block_size for g in kinds}
        self.simple = len(kinds) == 2 and kinds[0].kind == "full"
        self.question: tuple[Live | None, int] = (None, 0)
        self.answer: tuple[Tables, int] = ([], 0)

    def find(self, req: Live) -> tuple[Tables, int]:
        """(blocks for each group, tokens). A second question about a request looks only if the cache has changed."""
        queue = self.queue
        if self.question == (req, req.tokens) and not queue.changed:
            return self.answer
        if self.question[0] is not req:
            self.answer = [[]], 0
            queue.watched = {
                key for i, group in enumerate(self.groups) for key in request_keys(req, i, group.block_size)
            }
        self.question, queue.changed = (req, req.tokens), False
        req.junction = 0
        most = req.tokens - 1
        if not self.hybrid:
            group = self.groups[0]
            hit = self._longest(req, group, [0], most, self.c.drop_last_hit)
            self.answer = hit, len(hit[0]) * group.block_size
            return self.answer
        hits, length, longest = self._agree(req, most)
        if self.c.junctions and longest > length:
            req.junction = longest
        tables: Tables = [[] for _ in self.groups]
        for at, (group, ids) in enumerate(self.kinds):
            for i, blocks in zip(ids, hits[at]):
                tables[i] = blocks[: length // group.block_size] if group.kind == "full" else blocks
        self.answer = tables, length
        return self.answer

    def _agree(self, req: Live, most: int) -> tuple[dict[int, Tables], int, int]:
        """Every kind of group shortens the hit until all agree; EAGLE's dropped block is looked for once (0.20+)."""
        rule, drops = self.c.eagle, self.c.drop_last_hit
        hits: dict[int, Tables] = {}
        length, longest = most, 0
        dropped: set[int] = set()
        while True:
            current = length
            for at, (group, ids) in enumerate(self.kinds):
                size = group.block_size
                if group.kind == "full" and at in hits:
                    current = current // size * size
                    if rule == "past":
                        current = min(current, len(hits[at][0]) * size)
                    continue
                drop, until = drops, current
                if drops and rule in ("once", "past"):
                    drop = at not in dropped
                    if drop and (group.kind not in ("align", "all") or not self.c.settled):
                        small = min(self.sizes)
                        until = min(current + size, req.tokens // small * small if rule == "past" else most)
                hits[at] = self._longest(req, group, ids, until, drop)
                hit = len(hits[at][0]) * size
                if drop:
                    dropped.add(at)
                elif hit < current:
                    dropped.clear()
                current = hit
                longest = max(longest, hit)
            if current >= length:
                return hits, length, longest
            length = current
            if rule == "each" or (self.simple and rule != "spiral"):
                return hits, length, longest

    def _longest(self, req: Live, group: Group, ids: list[int], length: int, drop: bool) -> Tables:
        size, align, null = group.block_size, self.block, self.queue.null
        keys = [request_keys(req, i, size) for i in ids]
        count = min(length // size, req.tokens // size)
        columns: Tables = []  # one for each block index from `begin`
        begin = 0
        if group.kind in ("align", "all"):
            for i in range(count - 1, -1, -1):
                if (i + 1) * size % align == 0 and (row := self._cached(keys, i)) is not None:
                    return [[null] * i + [block] for block in row]
            return [[] for _ in ids]
        if group.kind == "window":
            begin, columns = self._in_window(group, keys, count, drop)
        else:
            if group.kind == "chunk":
                begin = length // group.span * group.span // size
            for place in range(begin, count):
                row = self._cached(keys, place)
                if row is None:
                    break
                columns.append(row)
        if drop and (columns or begin):
            begin, columns = (begin, columns[:-1]) if columns else (begin - 1, columns)
        while (begin + len(columns)) * size % align:
            begin, columns = (begin, columns[:-1]) if columns else (begin - 1, columns)
        nulls = [null] * begin
        return [nulls + [c[i] for c in columns] for i in range(len(ids))]

    def _in_window(self, group: Group, keys: list[list[int]], count: int, drop: bool) -> tuple[int, Tables]:
        """From right to left: the last run of blocks that fills a window; a shorter run counts only at the start."""
        size, align = group.block_size, self.block
        wanted = cdiv(group.span - 1, size) + drop
        short = drop and self.c.eagle in ("once", "past")
        run: Tables = []
        for i in range(count - 1, -1, -1):
            row = self._cached(keys, i)
            if row is None:
                run = []
                continue
            if not run and (i if short else i + 1) * size % align:
                continue
            run.append(row)
            if len(run) >= wanted:
                return i, run[::-1]
        run = run[::-1]
        while len(run) * size % align:
            run.pop()
        return 0, run

    def _cached(self, keys: list[list[int]], place: int) -> list[Block] | None:
        row = []
        for own in keys:
            block = self.queue.cache.get(own[place])
            if block is None:
                return None
            row.append(block)
        return row
