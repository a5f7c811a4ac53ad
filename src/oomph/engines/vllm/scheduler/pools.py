"""The block pool in three forms with one face: CountPool counts, RunPool (runs.py) knows runs of blocks, BlockPool
(blocks.py) every block.

Counting is enough while no request shares a prefix: a block is then only free or held. With prefixes the free queue's
order decides what is evicted, as in v1/core/block_pool.py; where one group reads everything, whole runs stand in it.

    lookup(req)                   tokens found in the prefix cache
    admit(req, cached, new, spare)  the gate, then a waiting request's first blocks; False: they are not there
    extend(req, new)              free what left the window, then grow; False: not enough
    remember(req, tokens)         whose tokens are known: others may find their blocks
    release(req)
    begin()                       a step begins
"""

from oomph.engines.vllm.scheduler.live import Live
from oomph.simulate.config import Config, Group
from oomph.units import cdiv


class CountPool:
    caching = False

    def __init__(self, config: Config) -> None:
        self.c = config
        self.groups = config.groups
        self.counts = [group.count for group in config.groups]
        self.free = config.usable
        self.capped = config.gate == "capped"
        self.first = config.lookahead if config.lookahead_first else 0
        self.margin = config.align_frees == "margin"
        # one by one for ever, and nothing is given back before the end: then it pays to know when the next block is due
        self.grows = not config.regular and all(group.kind in ("full", "state") for group in config.groups)

    def begin(self) -> None:
        pass

    def lookup(self, req: Live) -> int:
        return 0

    def remember(self, req: Live, tokens: int) -> None:
        pass

    def head_need(self, req: Live, room: int) -> int:
        """Blocks that must be free before a waiting request starts (0: nobody knows, so look in every step)."""
        if self.c.aligned:
            return 0
        need = sum(group.count * n for group, n in zip(self.groups, self.start(min(req.tokens, room))))
        return max(need, self.gate(req))

    def gate(self, req: Live) -> int:
        return 0 if self.c.gate == "chunk" else self.c.need(req.tokens)

    def start(self, new: int) -> list[int]:
        """Length of each group's table after the first chunk."""
        slots = min(new + self.first, self.c.max_model_len)
        return [group.required(new if group.kind == "align" else slots) for group in self.groups]

    def admit(self, req: Live, cached: int, new: int, spare: int) -> bool:
        if self.gate(req) + spare > self.free:
            return False
        lens = self.start(new)
        states = [self._states(req, group, new) for group in self.groups]
        need = sum(group.count * (state or n) for group, n, state in zip(self.groups, lens, states))
        if need + spare > self.free:
            return False
        self.free -= need
        req.lens, req.skips = lens, [0] * len(lens)
        req.next_slots = 0
        req.last_state, req.real = [-1] * len(lens), {}
        for i, state in enumerate(states):
            if state:
                req.real[i] = list(range(lens[i] - state, lens[i]))
        return True

    def _states(self, req: Live, group: Group, new: int) -> int:
        """Blocks of a recurrent layer's first chunk; 0: not of that kind."""
        if group.kind != "align":
            return 0
        return 1 + group.drafts + self.c.inner_state(group, 0, new, max(req.job.prompt, req.tokens - 1))

    def extend(self, req: Live, new: int) -> bool:
        need = 0
        lens, skips = req.lens, req.skips
        main = req.computed + new
        slots = min(main + self.c.lookahead, self.c.max_model_len)
        if slots <= req.next_slots:
            return True
        processed = req.processed(self.c)
        grown = []
        inner: dict[int, int] = {}  # 1: this chunk keeps a state inside itself
        for i, group in enumerate(self.groups):
            if group.kind == "align":
                self._give_states(req, i, processed)
                required = max(cdiv(main, group.block_size) + group.drafts, lens[i])
                grown.append(required)
                inner[i] = self._keeps_inside(req, i, main) if group.checkpoint else 0
                need += group.count * min(required - lens[i], 1 + inner[i])
                continue
            if group.kind not in ("full", "state"):
                past = max(0, processed - group.drafts) if group.kind == "all" and self.margin else processed
                skipped = min(group.skipped(past), lens[i])
                if skipped > skips[i]:
                    self.free += group.count * (skipped - skips[i])
                    skips[i] = skipped
            required = max(group.required(slots), lens[i])
            grown.append(required)
            need += group.count * (required - lens[i])
        if need > self.free:
            return False
        for i, group in enumerate(self.groups):
            if group.kind == "align":
                self._take_states(req, i, grown[i], inner[i])
            else:
                self.free -= group.count * (grown[i] - lens[i])
        req.lens = grown
        if self.grows:
            sizes = [n * group.block_size for group, n in zip(self.groups, grown) if group.kind == "full"]
            req.next_slots = min(sizes, default=1 << 60)
        return True

    def _give_states(self, req: Live, i: int, known: int) -> None:
        """What of a recurrent state's table is no longer read (MambaManager.remove_skipped_blocks)."""
        group, real, last = self.groups[i], req.real[i], req.last_state[i]
        known = max(0, known - group.drafts) if self.margin else known
        until = group.skipped(known)
        gone = [p for p in real if p < until]
        if self.c.align_frees != "range":  # from the right, up to the first place without a block
            gone = [p for p in gone if all(q in real for q in range(p, until))]
        if last in real and last not in gone and last < cdiv(known, group.block_size) - 1:
            gone.append(last)
        if gone:
            req.real[i] = [p for p in real if p not in gone]
            self.free += group.count * len(gone)

    def _keeps_inside(self, req: Live, i: int, main: int) -> int:
        group = self.groups[i]
        place = cdiv(main, group.block_size) - 2
        if place in req.real[i] and place < req.lens[i] - group.drafts:
            return 0
        return self.c.inner_state(group, req.computed, main, max(req.job.prompt, req.tokens - 1))

    def _take_states(self, req: Live, i: int, required: int, inner: int) -> None:
        group, real, before = self.groups[i], req.real[i], req.lens[i]
        if required <= before:
            return
        req.last_state[i] = before - 1 - group.drafts
        skipped = required - group.drafts - 1 - inner
        length = max(before, skipped)
        for position in range(before - group.drafts, before):  # drafts' states move along
            if position >= skipped:
                break
            real.remove(position)
            real.append(length)
            length += 1
        real.extend(range(length, required))
        self.free -= group.count * (required - length)

    def release(self, req: Live) -> None:
        for i, (group, n, skip) in enumerate(zip(self.groups, req.lens, req.skips)):
            self.free += group.count * (len(req.real[i]) if group.kind == "align" else n - skip)
        req.lens = req.skips = []
