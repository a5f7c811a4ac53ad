"""Requests that only decode while every block is followed: until one is due to change its blocks, nobody looks at it.

A resting request takes one token in every step and no block. It wakes for the step in which its computed tokens reach
`quiet`: there it may need a block, give a hash to one, or end.
"""

from oomph.engines.vllm.scheduler.live import Live
from oomph.engines.vllm.scheduler.steady import Steady
from oomph.simulate.config import Config

_WORTH = 3  # steps of rest below which waking costs more


class Resting(Steady):
    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.warm_after = 1 + (self.late if self.has_frees else 0)  # its blocks are followed from the first decode on
        self.longest = max((group.span for group in self.groups if group.kind in ("window", "chunk")), default=0)
        self.due: dict[int, list[Live]] = {}  # by the step for which they wake

    def ready(self, req: Live) -> bool:
        """It decodes regularly, for a while, and reads all of its windows."""
        decodes = req.warm >= self.warm_after and req.computed + 1 == req.tokens + req.placeholders
        return decodes and req.computed + _WORTH < req.quiet and req.computed + 1 >= self.longest

    def join(self, req: Live) -> None:
        req.k0 = self.k - req.computed
        req.finish = req.k0 + req.quiet - 1
        self.reqs[req.order] = req
        self.size += 1
        self.k0_sum += req.k0
        self.due.setdefault(req.finish, []).append(req)

    def wake(self, *, all_of_them: bool) -> list[Live]:
        """Those of whom the next step may ask something, oldest first."""
        due = self.due.pop(self.k, [])
        back = list(self.reqs.values()) if all_of_them else [r for r in due if self.reqs.get(r.order) is r]
        back = sorted({req.order: req for req in back if all_of_them or req.finish == self.k}.values(), key=_order)
        for req in back:
            del self.reqs[req.order]
            self.size -= 1
            self.k0_sum -= req.k0
            req.computed = self.k - req.k0
        return back


def _order(req: Live) -> int:
    return req.order
