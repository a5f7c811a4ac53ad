"""The tree of everything that was computed and is still there (mem_cache/radix_cache.py, unified_radix_cache.py).

A node holds the tokens of its stretch of a path; a request locks the path that it reads. What nobody reads is evicted
leaf by leaf, the first by --radix-eviction-policy. Times are counted, one for each look, as the unified tree does."""

from collections.abc import Callable
from heapq import heappop, heappush

from oomph.engines.sglang.scheduler.sequence import Sequence
from oomph.engines.sglang.scheduler.settings import Eviction

_STEP_UP = 0.00001  # unified_tree_core.py _match_post_processor: of each node before the last one of a match
_PROTECTED = 2  # SLRUStrategy.protected_threshold


class Node:
    __slots__ = ("accessed", "children", "created", "end", "hits", "lock", "parent", "priority", "sequence", "start")

    def __init__(self, sequence: Sequence | None, start: int, end: int, parent: "Node | None", now: float) -> None:
        self.sequence, self.start, self.end, self.parent = sequence, start, end, parent
        self.children: dict[tuple[tuple[int, int], ...], Node] = {}
        self.lock = self.hits = self.priority = 0
        self.accessed = self.created = now

    @property
    def size(self) -> int:
        return self.end - self.start


_KEYS: dict[Eviction, Callable[[Node], tuple[float, ...]]] = {  # evict_policy.py
    "lru": lambda node: (node.accessed,),
    "lfu": lambda node: (node.hits, node.accessed),
    "fifo": lambda node: (node.created,),
    "mru": lambda node: (-node.accessed,),
    "filo": lambda node: (-node.created,),
    "priority": lambda node: (node.priority, node.accessed),
    "slru": lambda node: (node.hits >= _PROTECTED, node.accessed),
}


class RadixTree:
    def __init__(self, page_size: int, eviction: Eviction = "lru", unified: bool = True) -> None:
        self.page_size, self.unified = page_size, unified
        self.key = _KEYS[eviction]
        self.clock = 0
        self.root = Node(None, 0, 0, None, 0)
        self.root.lock = 1
        self.evictable = 0  # tokens that nobody reads
        self.heap: list[tuple[tuple[float, ...], int, Node]] = []  # leaves, also such as have changed since
        self.entries = 0

    def _tick(self) -> int:
        self.clock += 1
        return self.clock

    def match(self, sequence: Sequence, tokens: int) -> Node:
        """The end of the longest path of whole pages that begins as `sequence` does; a node is divided there."""
        size = self.page_size
        tokens = tokens // size * size
        now = 0 if self.unified else self._tick()
        node = self.root
        while node.end < tokens:
            child = node.children.get(sequence.page(node.end, size))
            if child is None:
                break
            stop = self._common(child, sequence, tokens)
            if not self.unified:
                self._touch(child, now)
            if stop < child.end:
                node = self._split(child, stop)
                break
            node = child
        if self.unified:
            time, walked = float(self._tick()), node
            while walked is not self.root:
                self._touch(walked, time)
                time -= _STEP_UP
                assert walked.parent is not None
                walked = walked.parent
        return node

    def _common(self, child: Node, sequence: Sequence, tokens: int) -> int:
        """The end of the whole pages that a node has in common with the first `tokens` of a sequence."""
        own, end, start = child.sequence, child.end, child.start
        assert own is not None
        stop = end if end < tokens else tokens
        if own is not sequence:
            stop = own.common(sequence, start, stop)
        return stop if stop == end else stop - (stop - start) % self.page_size  # a node has whole pages

    def insert(
        self, sequence: Sequence, tokens: int, priority: int = 0, counted: int = 0, locked: Node | None = None
    ) -> tuple[int, Node]:
        """(tokens that were there before, the end of the path). Nodes that end behind `counted` get a hit. `locked`: up
        to where the sequence has locked its path, which is not looked up again."""
        size = self.page_size
        now = self._tick()
        node = self.root
        shared = 0
        for known in self._path(locked):
            if known.end > tokens:
                break
            known.accessed = self._tick() if self.unified else now
            node = known
            shared = node.end
            if priority > node.priority:
                node.priority = priority
            if shared > counted:
                node.hits += 1
        while node.end < tokens:
            key = sequence.page(node.end, size)
            child = node.children.get(key)
            if child is None:
                break
            child.accessed = self._tick() if self.unified else now
            stop = self._common(child, sequence, tokens)
            if stop < child.end:
                self._offer(child)
                child = self._split(child, stop)
            node = child
            shared = node.end
            if priority > node.priority:
                node.priority = priority
            if shared > counted:
                node.hits += 1
            self._offer(node)
        if node.end < tokens:
            leaf = Node(sequence, node.end, tokens, node, self._tick())
            leaf.priority, leaf.hits = priority, int(tokens > counted)
            node.children[key] = leaf
            self.evictable += tokens - leaf.start
            self._offer(leaf)
            node = leaf
        return shared, node

    def _path(self, node: Node | None) -> list[Node]:
        """From the root, which is left out, to a node."""
        path: list[Node] = []
        while node is not None and node is not self.root:
            path.append(node)
            node = node.parent
        return path[::-1]

    def _split(self, child: Node, at: int) -> Node:
        assert child.sequence is not None and child.parent is not None
        front = Node(child.sequence, child.start, at, child.parent, self._tick())
        front.lock, front.hits, front.priority = child.lock, child.hits, child.priority
        if self.unified:
            front.created = child.created
        child.parent.children[child.sequence.page(child.start, self.page_size)] = front
        child.parent, child.start = front, at
        front.children[child.sequence.page(at, self.page_size)] = child
        if self.unified:
            self._touch(child, self._tick())
        return front

    def lock(self, node: Node) -> None:
        while node is not self.root:
            if not node.lock:
                self.evictable -= node.size
            node.lock += 1
            assert node.parent is not None
            node = node.parent

    def unlock(self, node: Node) -> None:
        while node is not self.root:
            node.lock -= 1
            if not node.lock:
                self.evictable += node.size
                self._offer(node)
            assert node.parent is not None
            node = node.parent

    def evict(self, tokens: int) -> int:
        """Tokens that were given back: leaf by leaf until there are `tokens`, or nothing is left."""
        done = 0
        while done < tokens and self.heap:
            key, _, node = heappop(self.heap)
            if node.lock or node.children or node.parent is None or key != self.key(node):
                continue
            assert node.sequence is not None
            parent = node.parent
            del parent.children[node.sequence.page(node.start, self.page_size)]
            node.parent = None
            self.evictable -= node.size
            done += node.size
            self._offer(parent)
        return done

    def _touch(self, node: Node, time: float) -> None:
        node.accessed = time
        self._offer(node)

    def _offer(self, node: Node) -> None:
        if not node.lock and not node.children:  # the root is always locked
            self.entries += 1
            heappush(self.heap, (self.key(node), self.entries, node))
