"""ggml-backend.cpp: which backend runs each node of a graph, what is copied between them, and the buffers of all.

Backends are numbered: the GPUs first, the CPU last.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from oomph.engines.llamacpp.ggml.allocator import LARGE, Allocator, Buffer
from oomph.engines.llamacpp.ggml.support import supported
from oomph.engines.llamacpp.ggml.tensor import FREE, VIEW_OPS, Graph, Tensor, view
from oomph.facts.llamacpp.backends import Backend

MAX_COPIES = 4  # GGML_SCHED_MAX_COPIES
# ggml-backend.cpp, ggml_backend_sched_backend_id_from_cur: their weights are too small to choose by
_NOT_BY_WEIGHT = frozenset(("ROPE", "FLASH_ATTN_EXT"))
Kept = dict[Tensor, list[Tensor]]  # node -> tensors that a backend wants to keep until then
Optimize = Callable[[Sequence[Tensor]], tuple[Sequence[Tensor], Kept]]  # graph_optimize of one split


class Machine(Struct, frozen=True):
    gpus: int
    backend: Backend
    op_offload: bool = True
    offload_batch: int = 32  # GGML_OP_OFFLOAD_MIN_BATCH
    copies: int = 1
    host_alignment: int = 64
    fuses_experts: bool = False  # CUDA keeps what it fuses until the sum of the experts is there (fusion.py)
    reorders: bool = False  # Vulkan moves nodes (reorder.py)
    all_inputs: bool = False  # with several copies, inputs that nothing reads are copied too


class Reservation(Struct, frozen=True):
    nbytes: tuple[int, ...]  # of each backend's compute buffer, the CPU's last
    splits: int


def reserve(graph: Graph, machine: Machine, optimize: Optimize | None = None) -> Reservation:
    """`optimize`: how a GPU orders the nodes of a split, and what it keeps."""
    schedule = _Schedule(graph, machine)
    return Reservation(tuple(schedule.sizes(optimize)), len(schedule.splits))


def assign(graph: Graph, machine: Machine) -> None:
    """A backend for every node."""
    _Schedule(graph, machine).assign()


class _Split(Struct, frozen=True):
    backend: int
    start: int  # it ends where the next one starts
    inputs: list[Tensor]


class _Schedule:
    def __init__(self, graph: Graph, machine: Machine) -> None:
        self.graph, self.machine, self.cpu = graph, machine, machine.gpus
        self.copies: dict[tuple[Tensor, int], list[Tensor]] = {}
        self.graph_inputs: list[Tensor] = []
        self.splits: list[_Split] = []

    def sizes(self, optimize: Optimize | None) -> list[int]:
        self.assign()
        self._split()
        machine = self.machine
        backend = machine.backend
        largest = backend.largest or LARGE  # of the pinned memory of the host too
        buffers = [Buffer(backend.alignment, largest) for _ in range(machine.gpus)]
        return Allocator([*buffers, Buffer(machine.host_alignment, largest)]).run(*self._copy(optimize))

    # 1 to 4: a backend for every node

    def _runs(self, backend: int, node: Tensor) -> bool:
        return backend == self.cpu or supported(node, self.machine.backend)

    def _by_place(self, node: Tensor) -> int:
        home = node.view.home if node.view is not None else node.home
        if home != FREE:
            return home if self._runs(home, node) else self.cpu
        if node.is_input:
            return self.cpu
        if node.op in _NOT_BY_WEIGHT:
            return FREE
        for source in node.src:
            if source.is_weight:
                if source.home == self.cpu and self._streamed(node):
                    return 0
                return source.home if self._runs(source.home, node) else FREE
        return FREE

    def _streamed(self, node: Tensor) -> bool:
        """offload_op: the GPU reads the weights of the CPU for a large batch."""
        if not self.machine.op_offload or not self.machine.gpus or not self._runs(0, node) or node.op == "GET_ROWS":
            return False
        batch = {"MUL_MAT": node.ne[1], "MUL_MAT_ID": node.ne[2]}.get(node.op, node.rows)
        return batch >= self.machine.offload_batch

    def assign(self) -> None:
        nodes = [node for node in self.graph.nodes if node.op not in VIEW_OPS]
        for tensor in (*self.graph.leaves, *self.graph.nodes):
            if tensor.backend == FREE:
                tensor.backend = self._by_place(tensor)
        for order, skip_cpu in ((nodes, True), (nodes[::-1], True), (nodes, False), (nodes[::-1], False)):
            self._spread(order, skip_cpu=skip_cpu)
        for node in nodes:
            if node.backend == FREE:
                node.backend = self._with_most_inputs(node)
        for node in self.graph.nodes:
            if node.view is not None and node.backend == FREE:
                node.backend = node.view.backend
            for source in node.src:
                if source.backend == FREE:
                    source.backend = source.view.backend if source.view is not None else node.backend
            if node.backend == FREE:
                node.backend = next(b for b in range(self.cpu + 1) if self._runs(b, node))

    def _spread(self, nodes: Sequence[Tensor], *, skip_cpu: bool) -> None:
        current = FREE
        for node in nodes:
            if node.backend != FREE:
                current = FREE if skip_cpu and node.backend == self.cpu else node.backend
            elif current != FREE and self._runs(current, node):
                node.backend = current

    def _with_most_inputs(self, node: Tensor) -> int:
        best, most = self.cpu, -1
        for backend in range(self.cpu + 1):
            if self._runs(backend, node):
                count = sum(self._reads(source, backend) for source in node.src)
                if count > most:
                    best, most = backend, count
        return best

    def _reads(self, tensor: Tensor, backend: int) -> bool:
        """ggml_backend_sched_buffer_supported: a backend reads its own memory only."""
        source = tensor.view or tensor
        if source.home != FREE:
            return source.home == backend
        at = tensor.backend if tensor.backend != FREE or tensor.view is None else tensor.view.backend
        return at == backend

    # 5: splits, and the copies that they need

    def _split(self) -> None:
        nodes = self.graph.nodes
        first = next((n.backend for n in nodes if n.op not in VIEW_OPS), self.cpu)
        split = _Split(first, 0, [])
        self.splits.append(split)
        for index, node in enumerate(nodes):
            if node.op in VIEW_OPS:
                continue
            if node.backend != split.backend or (split.inputs and self._brings_weights(node, split.backend)):
                split = _Split(node.backend, index, [])
                self.splits.append(split)
            for at, source in enumerate(node.src):
                if source.is_input and self.machine.copies > 1 and not self.machine.all_inputs:
                    self._copies_of_input(source)
                if source.backend != split.backend and not self._reads(source, split.backend):
                    node.src[at] = self._copied(source, split)
        if self.machine.copies > 1 and self.machine.all_inputs:
            for leaf in self.graph.leaves:
                if leaf.is_input:
                    self._copies_of_input(leaf)

    def _brings_weights(self, node: Tensor, backend: int) -> bool:
        return any(s.is_weight and s.backend != backend and not self._reads(s, backend) for s in node.src)

    def _copies_of_input(self, source: Tensor) -> None:
        key = (source, source.backend)
        if key in self.copies:
            return
        copies = [source, *(self._duplicate(source) for _ in range(self.machine.copies - 1))]
        for copy in copies:
            copy.is_input = copy.is_output = True
        self.copies[key] = copies
        self.graph_inputs.append(source)

    def _copied(self, source: Tensor, split: _Split) -> Tensor:
        key = (source, split.backend)
        if key not in self.copies:
            copies = [self._duplicate(source) for _ in range(self.machine.copies)]
            if self.machine.copies > 1:
                for copy in copies:
                    copy.is_input = copy.is_output = True
            self.copies[key] = copies
            split.inputs.append(source)
        return self.copies[key][0]

    @staticmethod
    def _duplicate(source: Tensor) -> Tensor:
        copy = Tensor("NONE", source.ne, source.element)
        copy.nb, copy.size = source.nb, source.size
        return copy

    # the graph that is allocated: each split begins with the copies of its inputs

    def _copy(self, optimize: Optimize | None) -> tuple[list[tuple[Tensor, int]], list[tuple[Tensor, int]]]:
        nodes: list[tuple[Tensor, int]] = []
        ends = [*(split.start for split in self.splits[1:]), len(self.graph.nodes)]
        for split, end in zip(self.splits, ends, strict=True):
            for source in split.inputs:
                nodes.append((view(source, "VIEW_DEP", source.ne, source.nb), source.backend))
                nodes[-1][0].op = "NONE"
                nodes.append((self.copies[(source, split.backend)][0], split.backend))
            inside: Sequence[Tensor] = self.graph.nodes[split.start : end]
            keep: Kept = {}
            if optimize is not None and split.backend != self.cpu:
                inside, keep = optimize(inside)
            for node in inside:
                nodes.append((node, node.backend))
                if tensors := keep.get(node):
                    until = view(tensors[0], "NONE", tensors[0].ne, tensors[0].nb, tensors)
                    nodes.append((until, split.backend))
        leaves: list[tuple[Tensor, int]] = []
        if self.machine.copies > 1:
            for source in self.graph_inputs:
                leaves += [(copy, source.backend) for copy in self.copies[(source, source.backend)]]
            for split in self.splits:
                for source in split.inputs:
                    leaves += [(copy, split.backend) for copy in self.copies[(source, split.backend)]]
        leaves += [(leaf, leaf.backend) for leaf in self.graph.leaves]
        return nodes, leaves
