"""In which order those that wait are looked at (managers/schedule_policy.py SchedulePolicy)."""

from math import inf

from oomph.engines.sglang.scheduler.live import Live
from oomph.engines.sglang.scheduler.radix import Node, RadixTree
from oomph.engines.sglang.scheduler.settings import IN_BATCH_PREFIX, MOST_MATCHED, REFRESH_INTERVAL, Settings

_BY_PREFIX = ("lpm", "hrrn", "dfs-weight")


class QueueOrder:
    def __init__(self, settings: Settings, tree: RadixTree) -> None:
        self.settings, self.tree = settings, tree
        self.sign = 1 if settings.low_first else -1
        self.policy = "fcfs" if settings.policy in _BY_PREFIX and not settings.radix else settings.policy
        self.refreshes = 0

    def sort(self, waiting: list[Live], processed: int) -> None:
        """calc_priority; `processed`: tokens of all prefills so far."""
        settings = self.settings
        active = "fcfs" if self.policy in ("lpm", "hrrn") and len(waiting) > MOST_MATCHED else self.policy
        if self.policy == "fcfs":
            if settings.priority:
                waiting.sort(key=lambda request: (request.job.priority * self.sign, request.entry))
        elif active in _BY_PREFIX:
            later = self._match_all(waiting)
            if active == "lpm":
                waiting.sort(key=lambda request: inf if request in later else -request.matched)
            elif active == "hrrn":
                waiting.sort(key=lambda request: self._response_ratio(request, later, processed))
            else:
                waiting[:] = self._depth_first(waiting)
        elif active == "lof" and settings.priority:
            waiting.sort(key=lambda request: (request.job.priority * self.sign, -request.max_new))
        elif active == "lof":
            waiting.sort(key=lambda request: -request.max_new)
        if active not in _BY_PREFIX:
            self._refresh(waiting)

    def _match_all(self, waiting: list[Live]) -> set[Live]:
        """_compute_prefix_matches: of those that share what is not computed yet, the first goes before the others."""
        later: set[Live] = set()
        queued = RadixTree(1, unified=False)
        for request in waiting:
            node = self.tree.match(request.sequence, request.length)
            request.node, request.prefix = node, node.end
            request.matched = min(node.end, request.length - 1)
            if node.end > IN_BATCH_PREFIX:
                continue
            if queued.match(request.sequence, request.length).end >= IN_BATCH_PREFIX:
                later.add(request)
            else:
                queued.insert(request.sequence, request.length)
        return later

    def _response_ratio(self, request: Live, later: set[Live], processed: int) -> tuple[float, int]:
        uncached = max(0, request.prompt - request.matched)
        if request in later:
            return inf, request.job.id
        if not uncached:
            return -inf, request.job.id
        return -max(0, processed - request.arrived_at) / uncached, request.job.id

    def _depth_first(self, waiting: list[Live]) -> list[Live]:
        """The subtree that most of them wait for comes first, its deepest part before the rest."""
        ends: dict[Node, list[Live]] = {}
        weights: dict[Node, int] = {}
        for request in waiting:
            node: Node | None = request.node
            assert node is not None
            ends.setdefault(node, []).append(request)
            while node is not None:
                weights[node] = weights.get(node, 0) + 1
                node = node.parent
        ordered: list[Live] = []
        stack: list[tuple[Node, bool]] = [(self.tree.root, False)]
        while stack:
            node, is_done = stack.pop()
            if is_done:
                ordered += ends.get(node, [])
                continue
            stack.append((node, True))
            children = sorted(node.children.values(), key=lambda child: -weights.get(child, 0))
            stack += [(child, False) for child in reversed(children)]
        return ordered

    def _refresh(self, waiting: list[Live]) -> None:
        """_touch_waiting_prefixes: the head last, so that what waits longest leaves the tree last."""
        settings = self.settings
        if not (settings.rules.refreshes and settings.radix and settings.eviction == "lru" and waiting):
            return
        self.refreshes += 1
        if (self.refreshes - 1) % REFRESH_INTERVAL:
            return
        for request in reversed(waiting[:MOST_MATCHED]):
            self.tree.match(request.sequence, request.length)
