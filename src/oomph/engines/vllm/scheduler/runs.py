"""The block pool of one group that reads everything, in runs: blocks that follow each other in a prompt, have the same
holders and stand together in the free queue are one object, so that a request costs what its conversation has of
turns and not what it has of blocks.

A chain of segments names its blocks: those that end inside one segment, behind the same segments before it, are a
strand. Blocks leave a request from its end, so that the cache never has a block without those before it, and a strand
never has a hole. Which blocks a request that decodes in `Growing` has filled follows from the step, and is written
down when somebody asks (`_catch_up`). What is taken while steps are summed is taken from the queue later (`_evict`).
"""

from oomph.engines.vllm.scheduler.live import Live
from oomph.engines.vllm.scheduler.pools import CountPool
from oomph.engines.vllm.scheduler.steady import Steady
from oomph.simulate.config import OWN, Config, Job
from oomph.units import cdiv


class Run:
    """Blocks lo .. hi - 1 of a strand. `rest` follows where this run was cut."""

    __slots__ = ("after", "before", "hi", "lo", "ref", "rest", "strand")

    def __init__(self, strand: int | None, lo: int, hi: int, ref: int) -> None:
        self.strand, self.lo, self.hi, self.ref = strand, lo, hi, ref  # no strand: blocks without a hash
        self.rest: Run | None = None
        self.before = self.after = self  # in the free queue


Strand = tuple[int, int, int]  # its hash, its first block and the one behind its last
Hit = tuple[Run, int, int]


def strands(job: Job, block_size: int) -> list[Strand]:
    """Where a request's blocks are, from its first token on (block_keys of simulate/config.py)."""
    path: list[Strand] = []
    parent = stop = begin = 0
    for segment, length in (*job.chain, (OWN + job.id, job.prompt + job.output)):
        stop += length
        end = stop // block_size
        if end > begin:
            path.append((hash((parent, segment)), begin, end))
            begin = end
        parent = hash((parent, segment, length))
    return path


class RunPool(CountPool):
    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.caching = True
        self.size = config.groups[0].block_size
        self.cache: dict[int, list[Run]] = {}  # by strand: its runs, those first that got their hash first
        self.growing: dict[int, Live] = {}  # by strand: who fills it unseen
        self.clock = 0  # such a request has hashes for its first clock - k0 tokens
        self.steady = Growing(config, self)
        self.queue = Run(None, 0, 0, 1)  # the head of a ring: its `after` is reused first
        self.queued = 0  # blocks in it; the other free ones have no hash or were never used
        self.hits: list[Hit] = []

    def begin(self) -> None:
        self.clock = self.steady.k + 1 - self.c.lag

    # --- the free queue

    def _append(self, run: Run) -> None:
        last = self.queue.before
        run.before, run.after = last, self.queue
        last.after = self.queue.before = run
        self.queued += run.hi - run.lo

    def _remove(self, run: Run) -> None:
        run.before.after, run.after.before = run.after, run.before
        self.queued -= run.hi - run.lo

    def _evict(self) -> None:
        """Blocks of the queue that have been taken since: the last block of its first run first."""
        while self.queued > self.free:
            run = self.queue.after
            count = min(self.queued - self.free, run.hi - run.lo)
            run.hi -= count
            self.queued -= count
            if run.lo == run.hi:
                self._remove(run)
                if run.strand is not None:
                    self._forget(run, run.strand)

    def _forget(self, run: Run, strand: int) -> None:
        runs = self.cache[strand]
        runs.remove(run)
        if not runs:
            del self.cache[strand]

    # --- what a request finds

    def lookup(self, req: Live) -> int:
        if self.queued > self.free:
            self._evict()
        self.hits, limit, at = [], (req.tokens - 1) // self.size, 0
        for strand, begin, end in self._path(req):
            if begin >= limit:
                break
            if strand in self.growing:
                self._catch_up(strand)
            runs = self.cache.get(strand)
            if runs is None:
                break
            end = min(end, limit)
            run = runs[0]
            if len(runs) == 1 and run.lo == begin:
                at = min(run.hi, end)
                self.hits.append((run, begin, at))
            else:
                at = self._first_copies(runs, begin, end)
            if at < end:
                break
        if at and self.c.drop_last_hit:
            at -= 1
            run, lo, hi = self.hits.pop()
            if hi - 1 > lo:
                self.hits.append((run, lo, hi - 1))
        return at * self.size

    def _path(self, req: Live) -> list[Strand]:
        if not req.path:
            req.path = strands(req.job, self.size)
        return req.path

    def _first_copies(self, runs: list[Run], at: int, end: int) -> int:
        """Of each block the copy that got its hash first. Returns where there is none."""
        while at < end:
            until, copy = end, None
            for run in runs:
                if run.lo > at:
                    until = min(until, run.lo)
                elif at < run.hi:
                    until, copy = min(until, run.hi), run
                    break
            if copy is None:
                break
            self.hits.append((copy, at, until))
            at = until
        return at

    # --- allocate_slots

    def head_need(self, req: Live, room: int) -> int:
        if any(strand in self.growing for strand, _, _ in self._path(req)):
            return 0
        cached = self.lookup(req)
        count = cached // self.size
        first = cdiv(min(cached + min(req.tokens - cached, room) + self.first, self.c.max_model_len), self.size)
        return max(first - count, self.gate(req) - count + self._evictable())

    def gate(self, req: Live) -> int:
        return 0 if self.c.gate == "chunk" else cdiv(min(req.tokens, self.c.max_model_len), self.size)

    def _evictable(self) -> int:
        return sum(hi - lo for run, lo, hi in self.hits if not run.ref)

    def admit(self, req: Live, cached: int, new: int, spare: int) -> bool:
        main, count = cached + new, cached // self.size
        required = max(cdiv(min(main + self.first, self.c.max_model_len), self.size), count)
        if max(required, self.gate(req)) - count + self._evictable() > self.free - spare:
            return False
        req.runs = []
        for run, lo, hi in self.hits:
            self._hold(req, run, lo, hi)
        self.free -= required - count
        req.lens, req.skips, req.keyed = [required], [0], [count]
        req.next_key = req.quiet = req.strand = 0
        self.remember(req, min(main, req.tokens))
        return True

    def _hold(self, req: Live, run: Run, lo: int, hi: int) -> None:
        while run.hi <= lo:  # it was cut by an earlier part of this hit
            assert run.rest is not None
            run = run.rest
        if run.lo < lo:
            run = self._cut(run, lo)
        if hi < run.hi:
            self._cut(run, hi)
        if not run.ref:
            self._remove(run)
            self.free -= hi - lo
        run.ref += 1
        req.runs.append((run, hi))

    def _cut(self, run: Run, at: int) -> Run:
        """The part from `at` on: it stands before the rest in the queue, whose last blocks are reused first."""
        assert run.strand is not None
        rest = Run(run.strand, at, run.hi, run.ref)
        rest.rest, run.rest, run.hi = run.rest, rest, at
        runs = self.cache[run.strand]
        runs.insert(runs.index(run) + 1, rest)
        if not run.ref:
            rest.before, rest.after = run.before, run
            run.before.after = run.before = rest
        return rest

    def extend(self, req: Live, new: int) -> bool:
        config, main = self.c, req.computed + new
        more = cdiv(min(main + config.lookahead, config.max_model_len), self.size) - req.lens[0]
        if more > self.free:
            return False
        if more > 0:
            self.free -= more
            req.lens[0] += more
        self.remember(req, min(main, req.tokens))
        slots = req.lens[0] * self.size - config.lookahead + 1
        req.quiet = 0 if config.spec_tokens else min(slots, req.next_key, req.total - 1, config.max_model_len - 1)
        return True

    # --- cache_blocks

    def remember(self, req: Live, tokens: int) -> None:
        if tokens < req.next_key:
            return
        if self.queued > self.free:
            self._evict()
        done, last = req.keyed[0], tokens // self.size
        while done < last:
            strand, _, end = self._path(req)[req.strand]
            if end <= done:
                req.strand += 1
                continue
            if strand in self.growing and self.growing[strand] is not req:
                self._catch_up(strand)
            self._hash(req, strand, done, min(end, last))
            done = min(end, last)
        req.keyed[0], req.next_key = last, (last + 1) * self.size

    def _hash(self, req: Live, strand: int, lo: int, hi: int) -> None:
        runs = self.cache.setdefault(strand, [])
        if req.runs and runs:
            first, end = req.runs[-1]
            run = _parts(first, end)[0]
            latest = runs[-1] is run or all(other.hi <= lo for other in runs)  # no other copy got its hash in between
            if run.strand == strand and run.ref == 1 and latest:
                run.hi = hi
                req.runs[-1] = first, hi
                return
        run = Run(strand, lo, hi, 1)
        runs.append(run)
        req.runs.append((run, hi))

    def release(self, req: Live) -> None:
        if self.queued > self.free:
            self._evict()
        bare = req.lens[0] - req.keyed[0]  # blocks without a hash
        self.free += bare
        if bare and not self.c.uncached_first:
            self._append(Run(None, 0, bare, 0))
        for run, hi in reversed(req.runs):
            for part in _parts(run, hi):
                part.ref -= 1
                if not part.ref:
                    self.free += part.hi - part.lo
                    self._append(part)
        req.runs = []

    # --- who decodes unseen

    def fills(self, req: Live) -> list[int]:
        """The strands that it writes from now on."""
        done, last = req.keyed[0], req.total // self.size
        return [strand for strand, begin, end in self._path(req)[req.strand :] if end > done and begin < last]

    def _catch_up(self, strand: int) -> None:
        req = self.growing[strand]
        self.remember(req, self.clock - req.k0)


class Growing(Steady):
    """Steady requests whose blocks others may find."""

    def __init__(self, config: Config, pool: RunPool) -> None:
        super().__init__(config)
        self.pool = pool

    def ready(self, req: Live) -> bool:
        """Nobody else fills the same strands unseen: of two copies the first counts."""
        return not any(strand in self.pool.growing for strand in self.pool.fills(req))

    def join(self, req: Live) -> None:
        super().join(req)
        req.fills = self.pool.fills(req)
        self.pool.growing.update(dict.fromkeys(req.fills, req))

    def _leave(self, req: Live) -> None:
        super()._leave(req)
        self.pool.remember(req, req.computed - self.c.lag)
        for strand in req.fills:
            del self.pool.growing[strand]
        req.quiet = 0


def _parts(run: Run, hi: int) -> list[Run]:
    """What somebody holds who took a run up to block `hi`, last blocks first."""
    parts = [run]
    while parts[-1].hi < hi:
        rest = parts[-1].rest
        assert rest is not None
        parts.append(rest)
    return parts[::-1]
