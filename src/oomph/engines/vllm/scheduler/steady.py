"""Requests that only decode, summed: which step takes and frees how many blocks follows from residues.

A steady request with `computed = step - k0` takes a block of a group when computed % block_size == 0, that is in steps
congruent to k0; it frees one when its window's start crosses a block. So a table of residues for each group gives any
number of steps in one sum, and the tokens read grow by the same amount in every step.
"""

import heapq

from oomph.engines.vllm.scheduler.live import Live
from oomph.simulate.config import Config

FAR = 1 << 62


class Steady:
    def __init__(self, config: Config) -> None:
        self.c = config
        self.groups = config.groups
        self.k = 0  # the next step
        self.reqs: dict[int, Live] = {}  # by order of admission
        self.size = 0
        self.late = 1 if config.lag and config.settled else 0  # windows follow the tokens that are known
        self.taking = [[0] * group.block_size if group.kind != "state" else [0] for group in self.groups]
        self.spans = [
            2 if group.kind in ("align", "all") else group.span for group in self.groups
        ]  # a state is read by one token
        self.period = [group.span if group.kind == "chunk" else group.block_size for group in self.groups]
        self.freeing = [
            [0] * period if group.kind not in ("full", "state") else [0]
            for period, group in zip(self.period, self.groups)
        ]
        self.has_frees = any(group.kind not in ("full", "state") for group in self.groups)
        # decode steps after which blocks are regular: growth is so at once, what windows free after one, or two where
        # they wait for known tokens
        self.warm_after = 1 + self.late if self.has_frees else 0
        self.k0_sum = 0
        self.growing = [0] * len(self.groups)  # whose window is not full yet
        self.growing_k0 = [0] * len(self.groups)
        self.finishes: dict[int, list[Live]] = {}
        self.finish_steps: list[int] = []
        self.events: list[tuple[int, int, int, int, Live]] = []  # (step, order, group, 0 frees / 1 full, request)
        self.rates = [(i, group) for i, group in enumerate(self.groups) if group.kind != "state"]

    # --- who is in

    def ready(self, req: Live) -> bool:
        """Whether its blocks are where regular decoding would have put them: a state left over from the prompt, with
        places without a block after it, is given back only at the end (until 0.30)."""
        before = req.computed - 1 - self.late
        return all(len(req.real[i]) == req.lens[i] - self.groups[i].skipped(before) for i in req.real)

    def join(self, req: Live) -> None:
        req.k0 = k0 = self.k - req.computed
        self.reqs[req.order] = req
        self.size += 1
        self.k0_sum += k0
        req.frees = req.grows = 0
        for i, group in self.rates:
            self.taking[i][k0 % group.block_size] += 1
            if group.kind == "full":
                continue
            span = self.spans[i]
            if req.computed + 1 < span:
                req.grows |= 1 << i
                self.growing[i] += 1
                self.growing_k0[i] += k0
                heapq.heappush(self.events, (k0 + span - 1, req.order, i, 1, req))
            starts = self.k if group.kind == "chunk" else k0 + self.late + span
            if starts <= self.k:
                self._frees(req, i, 1)
            else:
                heapq.heappush(self.events, (starts, req.order, i, 0, req))
        req.finish = self.k + (req.job.prompt + req.output - req.computed - 1) - 1
        if req.finish not in self.finishes:
            self.finishes[req.finish] = []
            heapq.heappush(self.finish_steps, req.finish)
        self.finishes[req.finish].append(req)

    def _frees(self, req: Live, i: int, sign: int) -> None:
        group = self.groups[i]
        offset = req.k0 + self.late + (0 if group.kind == "chunk" else self.spans[i] - 1)
        self.freeing[i][offset % self.period[i]] += sign
        req.frees ^= 1 << i

    def activate(self) -> None:
        """Windows that are reached by the next step."""
        while self.events and self.events[0][0] <= self.k:
            _, order, i, kind, req = heapq.heappop(self.events)
            if self.reqs.get(order) is not req:
                continue
            if kind == 0:
                if not req.frees >> i & 1:
                    self._frees(req, i, 1)
            elif req.grows >> i & 1:
                self._full(req, i)

    def _full(self, req: Live, i: int) -> None:
        req.grows ^= 1 << i
        self.growing[i] -= 1
        self.growing_k0[i] -= req.k0

    def _leave(self, req: Live) -> None:
        del self.reqs[req.order]
        self.size -= 1
        self.k0_sum -= req.k0
        for i, group in self.rates:
            self.taking[i][req.k0 % group.block_size] -= 1
            if req.frees >> i & 1:
                self._frees(req, i, -1)
            if req.grows >> i & 1:
                self._full(req, i)
        req.computed = computed = self.k - req.k0
        before = computed - 1 - self.late  # what the last step saw
        req.lens = [group.required(computed) for group in self.groups]
        req.next_slots = 0
        req.skips = [group.skipped(before) for group in self.groups]
        for i, group in enumerate(self.groups):
            if group.kind == "align":
                req.real[i] = list(range(req.skips[i], req.lens[i]))
                req.last_state[i] = req.lens[i] - 2

    def leave_last(self) -> Live:
        """The youngest, put back to where single steps would have brought it."""
        req = self.reqs[next(reversed(self.reqs))]
        self._leave(req)
        self.finishes[req.finish].remove(req)
        return req

    # --- steps

    def horizon(self) -> int:
        """Steps up to and including the next finish, and before the next change of a window."""
        n = self.finish_steps[0] - self.k + 1 if self.finish_steps else FAR
        return min(n, self.events[0][0] - self.k) if self.events else n

    def taken(self, n: int) -> int:
        total = 0
        for i, group in self.rates:
            if n == 1:
                total += group.count * self.taking[i][self.k % group.block_size]
            else:
                total += group.count * _sum(self.taking[i], self.k, n)
        return total

    def freed(self, n: int) -> int:
        if not self.has_frees:
            return 0
        total = 0
        for i, group in self.rates:
            if group.kind == "chunk":
                total += group.count * (group.span // group.block_size) * _sum(self.freeing[i], self.k, n)
            elif group.kind != "full":
                total += group.count * _sum(self.freeing[i], self.k, n)
        return total

    def read(self) -> list[int]:
        """Tokens of cache that the next step reads, for each group; a decode has as many query pairs."""
        n, k1 = self.size, self.k + 1
        out = []
        for i, group in enumerate(self.groups):
            if group.kind in ("state", "align", "all"):
                out.append(n)
            elif group.kind == "full":
                out.append(n * k1 - self.k0_sum)
            else:
                grow = self.growing[i]
                out.append(grow * k1 - self.growing_k0[i] + (n - grow) * group.span)
        return out

    def duration(self, fixed: int, rates: tuple[int, ...], n: int) -> tuple[int, int]:
        """(ticks of the next n steps, of the last of them), of a step's fixed ticks and those of a token that a decode
        reads. Only attention grows, by the same amount in every step."""
        size = self.size
        step, growth = fixed, 0
        for i, (group, now, rate) in enumerate(zip(self.groups, self.read(), rates)):
            step += rate * now
            growth += rate * (
                size if group.kind == "full" else self.growing[i] if group.kind in ("window", "chunk") else 0
            )
        return n * step + growth * (n * (n - 1) // 2), step + (n - 1) * growth

    def advance(self, n: int) -> list[Live]:
        """Those whose last token the n-th step samples, oldest first; they are no longer in."""
        self.k += n
        if not self.finish_steps or self.finish_steps[0] >= self.k:
            return []
        out = self.finishes.pop(heapq.heappop(self.finish_steps))
        out.sort(key=lambda r: r.order)
        for req in out:
            self._leave(req)
        return out


def _sum(table: list[int], k: int, n: int) -> int:
    """What steps k .. k + n - 1 find in a table of residues."""
    period = len(table)
    if n == 1:
        return table[k % period]
    whole, rest = divmod(n, period)
    total = whole * sum(table) if whole else 0
    at = k % period
    if rest:
        end = at + rest
        total += sum(table[at:end]) if end <= period else sum(table[at:]) + sum(table[: end - period])
    return total
