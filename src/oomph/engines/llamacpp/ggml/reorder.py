"""ggml_vk_graph_optimize: Vulkan runs nodes together that do not wait for each other (ggml-vulkan.cpp, v0.5.0)."""

from collections.abc import Callable, Sequence

from oomph.engines.llamacpp.ggml.scheduler import Kept
from oomph.engines.llamacpp.ggml.tensor import VIEW_OPS, Tensor

AHEAD = 20  # NUM_TO_CHECK
FUSED_AHEAD = 15
_NORMED = ("RESHAPE", "SUM_ROWS", "CLAMP", "DIV", "RESHAPE")
_LATE = ("ARGSORT", "VIEW", "GET_ROWS", "RESHAPE", "SOFT_MAX", "RESHAPE")
_SOFTMAX = ("SOFT_MAX", "RESHAPE", "ARGSORT", "VIEW", "GET_ROWS")
_SIGMOID = ("UNARY", "RESHAPE", "ADD", "ARGSORT", "VIEW", "GET_ROWS", *_NORMED)
_SOFTPLUS = ("UNARY", "SQRT", "RESHAPE", "ADD", "ARGSORT", "VIEW", "GET_ROWS", *_NORMED)
ROUTERS = ((*_SOFTMAX, *_NORMED), _SIGMOID, _SOFTPLUS, _SOFTMAX, _LATE)
PATTERNS = (
    ("RMS_NORM", "MUL", "ADD", "MUL"), ("RMS_NORM", "MUL", "ADD"), ("RMS_NORM", "MUL", "ROPE", "VIEW", "SET_ROWS"),
    ("RMS_NORM", "VIEW", "SET_ROWS"), ("ROPE", "VIEW", "SET_ROWS"),
)  # fmt: skip
_STARTING = {op: [p for p in (*ROUTERS, *PATTERNS) if p[0] == op] for op, *_ in (*ROUTERS, *PATTERNS)}
# A node may follow the last one that was taken, although it reads it: both are one kernel.
_ANYWHERE = frozenset((("RMS_NORM", "MUL"), ("UNARY", "MUL")))
_NEXT = frozenset((
    ("MUL_MAT", "ADD"), ("MUL_MAT_ID", "ADD_ID"), ("MUL_MAT_ID", "MUL"), ("ADD", "ADD"), ("SSM_CONV", "ADD"),
    ("SSM_CONV", "UNARY"),
))  # fmt: skip

Order = tuple[list[Tensor], Kept]
Test = Callable[[Tensor], bool]


def together(nodes: Sequence[Tensor]) -> Order:
    """(the nodes in their new order, what is kept until a node)."""
    return _Reordering(nodes).run()


class _Reordering:
    def __init__(self, nodes: Sequence[Tensor]) -> None:
        self.nodes = nodes
        self.empty = [node.op in VIEW_OPS or node.op == "NONE" for node in nodes]
        self.sources = [set(node.src) for node in nodes]
        self.bases = [node.view or node for node in nodes]
        self.read = [{source.view or source for source in node.src} for node in nodes]
        self.used = [False] * len(nodes)
        self.order: list[int] = []
        self.placed: set[Tensor] = set()
        self.lives: Kept = {}
        self.first = 0

    def run(self) -> Order:
        while self.first < len(self.nodes):
            if not self._keeps_pattern():
                self._take(self._set())
        return [self.nodes[index] for index in self.order], self.lives

    def _take(self, indices: Sequence[int]) -> None:
        for index in indices:
            self.order.append(index)
            self.placed.add(self.nodes[index])
            self.used[index] = True
        while self.first < len(self.nodes) and self.used[self.first]:
            self.first += 1

    # patterns that are one kernel stay as they are

    def _matches(self, pattern: tuple[str, ...], start: int) -> bool:
        if start + len(pattern) > len(self.nodes):
            return False
        return all(self.nodes[start + at].op == op and not self.used[start + at] for at, op in enumerate(pattern))

    def _keeps_pattern(self) -> bool:
        first = self.first
        patterns = _STARTING.get(self.nodes[first].op, ())
        pattern = next((pattern for pattern in patterns if self._matches(pattern, first)), ())
        if pattern in ROUTERS:
            self._keep_sources(pattern, first)
        self._take(range(first, first + len(pattern)))
        return bool(pattern)

    def _keep_sources(self, pattern: tuple[str, ...], start: int) -> None:
        last = start + len(pattern) - 1
        if last + 1 < len(self.nodes) and self.nodes[last + 1].op == "SCALE":
            last += 1
        seen: set[Tensor] = set()
        keep = self.lives.setdefault(self.nodes[last], [])
        for node in self.nodes[start : start + len(pattern)]:
            for source in node.src:
                if source not in seen:
                    seen.add(source)
                    keep.append(source)
            seen.add(node)

    # a set of nodes that do not wait for each other

    def _waits(self, later: int, earlier: int) -> bool:
        """is_src_of: reads it, or writes what it reads, or both are the same memory."""
        if self.nodes[earlier] in self.sources[later] or self.bases[later] is self.bases[earlier]:
            return True
        if self.empty[later] or self.empty[earlier]:
            return False
        return self.bases[earlier] in self.read[later] or self.bases[later] in self.read[earlier]

    def _set(self) -> list[int]:
        chosen = [self.first]
        end = min(self.first + AHEAD, len(self.nodes))
        for index in range(self.first + 1, end):
            if self.used[index] or self.empty[index] or self._starts_pattern(index):
                continue
            between = (other for other in range(self.first, index) if not self.used[other])
            if all(self._may_precede(index, other, chosen[-1]) for other in between):
                chosen.append(index)
                self._pull(index, chosen)
        if self.nodes[chosen[-1]].op != "ADD":
            self._views(chosen, end)
        return chosen

    def _starts_pattern(self, index: int) -> bool:
        return any(self._matches(pattern, index) for pattern in _STARTING.get(self.nodes[index].op, ()))

    def _may_precede(self, index: int, other: int, last: int) -> bool:
        if not self._waits(index, other):
            return True
        if other != last:
            return False
        pair = (self.nodes[other].op, self.nodes[index].op)
        if pair in _ANYWHERE:
            return all(self.used[at] or self.empty[at] for at in range(other + 1, index))
        return index == other + 1 and pair in _NEXT

    def _views(self, chosen: list[int], end: int) -> None:
        for index in range(self.first + 1, end):
            if self.used[index] or not self.empty[index] or index in chosen:
                continue
            if all(
                self.used[other] or other in chosen or not self._waits(index, other)
                for other in range(self.first, index)
            ):
                chosen.append(index)

    # what one kernel reads next is pulled behind it

    def _pull(self, index: int, chosen: list[int]) -> None:
        nodes, node = self.nodes, self.nodes[index]
        before = nodes[index - 1].op
        turned = index
        if (before, node.op) == ("RMS_NORM", "MUL"):
            rope = self._next(index, lambda other: other.op == "ROPE" and other.src[0] is node and _ready(other))
            if rope:
                chosen.append(rope)
                self.used[rope] = True
                turned = rope
        if nodes[turned].op in ("ROPE", "RMS_NORM"):
            self._pull_write(turned, chosen)
        if (before, node.op) == ("MUL_MAT_ID", "ADD_ID"):
            self._pull_one(index, chosen, lambda other: other.op == "MUL" and self._reads_done(other, node))
        if (before, node.op) == ("MUL_MAT", "ADD"):
            self._pull_one(index, chosen, lambda other: other.op == "ADD" and self._reads_done(other, node))
        if (before, node.op) == ("SSM_CONV", "ADD"):
            self._pull_one(index, chosen, lambda other: other.op == "UNARY" and other.src[0] is node)
        if node.op == "UNARY":
            self._pull_one(index, chosen, lambda other: other.op == "MUL" and self._multiplies(other, node))

    def _next(self, index: int, good: Test) -> int:
        end = min(index + FUSED_AHEAD, len(self.nodes))
        return next((at for at in range(index + 1, end) if good(self.nodes[at])), 0)

    def _pull_one(self, index: int, chosen: list[int], good: Test) -> None:
        if at := self._next(index, good):
            chosen.append(at)
            self.used[at] = True

    def _reads_done(self, other: Tensor, node: Tensor) -> bool:
        return other.src[0] is node and (other.src[1].op == "NONE" or other.src[1] in self.placed)

    def _multiplies(self, other: Tensor, node: Tensor) -> bool:
        if node not in other.src:
            return False
        second = other.src[1] if other.src[0] is node else other.src[0]
        if not (second.op == "NONE" or second in self.placed):
            return False
        if not (_rows_together(second) and _rows_together(node.src[0])):
            return False
        small, large = (second, node) if other.src[0] is node else (node, other.src[0])
        return all(b % a == 0 for a, b in zip(small.ne, large.ne, strict=True))

    def _pull_write(self, turned: int, chosen: list[int]) -> None:
        """A view and the write to the cache behind a rotation or a norm."""
        shown = written = 0
        for at in range(turned + 1, min(turned + FUSED_AHEAD, len(self.nodes))):
            if self.used[at]:
                continue
            node = self.nodes[at]
            if not shown and node.op == "VIEW" and node.src[0] is self.nodes[turned]:
                shown = at
            elif shown and node.op == "SET_ROWS" and node.src[0] is self.nodes[shown]:
                written = at
                break
        if not written or self._read_elsewhere(turned, shown):
            return
        waits = any(
            not self.used[at] and at != shown and not self.empty[at] and self._waits(written, at)
            for at in range(turned + 1, written)
        )
        if not waits:
            for at in (shown, written):
                chosen.append(at)
                self.used[at] = True

    def _read_elsewhere(self, turned: int, shown: int) -> bool:
        """ggml_can_fuse_subgraph_ext: nobody else reads what is between."""
        one, two = self.nodes[turned], self.nodes[shown]
        if one.is_output or two.is_output or (two.view is not None and two.view is not one):
            return True
        readers = sum(sources.count(one) for sources in (node.src for node in self.nodes))
        return readers != 1 or sum(node.src.count(two) for node in self.nodes) != 1


def _ready(rope: Tensor) -> bool:
    return all(source.op == "NONE" for source in rope.src[1:3])


def _rows_together(tensor: Tensor) -> bool:
    """ggml_is_contiguous_1."""
    nb, ne = tensor.nb, tensor.ne
    return (ne[2] == 1 or nb[2] == nb[1] * ne[1]) and (ne[3] == 1 or nb[3] == nb[2] * ne[2])
