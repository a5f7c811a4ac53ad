"""ggml's tensors and the graph that they form, without data: shapes, strides, sources and views (ggml.c).

What is here is only what decides memory: the order in which nodes are visited, which node may take over its parent's
place, and how many bytes each one has.
"""

from collections.abc import Sequence

F32, F16, I32, I64 = 4, 2, 4, 8
FREE = -1  # a tensor that has no place yet

VIEW_OPS = frozenset(("VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE"))
# ggml_op_can_inplace (ggml-alloc.c)
INPLACE = frozenset(("FILL", "SCALE", "ADD", "ADD_ID", "SUB", "MUL", "DIV", "SQR", "SQRT", "LOG", "UNARY", "ROPE",
                     "RMS_NORM", "CLAMP", "SOFT_MAX"))  # fmt: skip


class Tensor:
    """`home`: the backend that holds it before the graph is run (weights, caches), or FREE."""

    __slots__ = (
        "allocated", "backend", "buffer", "children", "chunk", "dtype", "element", "home", "is_exact", "is_input",
        "is_output", "is_weight", "nb", "ne", "offset", "op", "seen", "size", "src", "view", "views",
    )  # fmt: skip

    def __init__(self, op: str, ne: Sequence[int], element: int, src: Sequence["Tensor"] = ()) -> None:
        self.op = op
        self.ne = (*ne, *(1,) * (4 - len(ne)))
        self.element = element
        one = element * self.ne[0]
        two = one * self.ne[1]
        self.nb = (element, one, two, two * self.ne[2])
        self.size = two * self.ne[2] * self.ne[3]
        self.src = list(src)
        self.view: Tensor | None = None
        self.dtype = ""  # of a cache
        self.home = FREE
        self.is_input = self.is_output = self.is_weight = self.is_exact = self.seen = self.allocated = False
        self.backend = FREE
        self.children = self.views = self.buffer = self.chunk = self.offset = 0

    @property
    def rows(self) -> int:
        return self.ne[1] * self.ne[2] * self.ne[3]

    @property
    def cache_type(self) -> str:
        """Of the cache that it shows; "" where it shows none."""
        return (self.view or self).dtype

    def same_layout(self, other: "Tensor") -> bool:
        return self.element == other.element and self.ne == other.ne and self.nb == other.nb


def weight(shape: Sequence[int], nbytes: int, home: int) -> Tensor:
    tensor = Tensor("NONE", shape, F32)
    tensor.size, tensor.home, tensor.is_weight = nbytes, home, True
    return tensor


def cache(shape: Sequence[int], element: int, home: int) -> Tensor:
    tensor = Tensor("NONE", shape, element)
    tensor.home = home
    return tensor


def graph_input(shape: Sequence[int], element: int) -> Tensor:
    tensor = Tensor("NONE", shape, element)
    tensor.is_input = True
    return tensor


def view(
    source: Tensor, op: str, ne: Sequence[int], nb: Sequence[int] | None = None, src: Sequence[Tensor] = ()
) -> Tensor:
    """`nb`: all four strides; None: contiguous."""
    tensor = Tensor(op, ne, source.element, src or (source,))
    if nb is not None:
        tensor.nb = tuple(nb)  # type: ignore[assignment]
        tensor.size = tensor.element * tensor.ne[0] + sum(
            (n - 1) * stride for n, stride in zip(tensor.ne[1:], tensor.nb[1:], strict=True) if n
        )
    tensor.view = source.view or source
    return tensor


class Graph:
    """Nodes and leaves in the order in which ggml_build_forward_expand meets them."""

    def __init__(self) -> None:
        self.nodes: list[Tensor] = []
        self.leaves: list[Tensor] = []

    def expand(self, tensor: Tensor) -> Tensor:
        self._visit(tensor)
        return tensor

    def _visit(self, tensor: Tensor) -> None:
        if tensor.seen:
            return
        tensor.seen = True
        for source in tensor.src:
            if not source.seen:
                self._visit(source)
        (self.leaves if tensor.op == "NONE" else self.nodes).append(tensor)


# Operations. A result is contiguous unless it is a view.


def unary(op: str, source: Tensor, *more: Tensor) -> Tensor:
    """A result of the same shape: ADD, MUL, SCALE, UNARY, NORM, ROPE, SOFT_MAX, ..."""
    return Tensor(op, source.ne, F32, (source, *more))


def mul_mat(matrix: Tensor, source: Tensor) -> Tensor:
    return Tensor("MUL_MAT", (matrix.ne[1], *source.ne[1:]), F32, (matrix, source))


def mul_mat_id(matrix: Tensor, source: Tensor, ids: Tensor) -> Tensor:
    return Tensor("MUL_MAT_ID", (matrix.ne[1], ids.ne[0], source.ne[2]), F32, (matrix, source, ids))


def get_rows(source: Tensor, ids: Tensor) -> Tensor:
    return Tensor("GET_ROWS", (source.ne[0], *ids.ne[:3]), F32, (source, ids))


def concat(first: Tensor, second: Tensor) -> Tensor:
    """Along the first dimension."""
    return Tensor("CONCAT", (first.ne[0] + second.ne[0], *first.ne[1:]), F32, (first, second))


def repeat(source: Tensor, ne: Sequence[int]) -> Tensor:
    return Tensor("REPEAT", ne, F32, (source,))


def cont(source: Tensor, ne: Sequence[int] | None = None) -> Tensor:
    return Tensor("CONT", ne or source.ne, source.element, (source,))


def cast(source: Tensor, element: int) -> Tensor:
    result = Tensor("CPY", source.ne, element, (source,))
    result.src.append(result)  # ggml_cast names itself as the target
    return result


def reshape(source: Tensor, *ne: int) -> Tensor:
    return view(source, "RESHAPE", ne)


def strided(source: Tensor, ne: Sequence[int], nb: Sequence[int]) -> Tensor:
    """ggml_view_*: `nb` from the second stride on; further ones follow."""
    strides = [source.nb[0], *nb]
    shape = (*ne, *(1,) * (4 - len(ne)))
    while len(strides) < 4:
        strides.append(strides[-1] * shape[len(strides) - 1])
    return view(source, "VIEW", shape, strides)


def permute(source: Tensor, *axes: int) -> Tensor:
    ne, nb = [0] * 4, [0] * 4
    for old, new in enumerate(axes):
        ne[new], nb[new] = source.ne[old], source.nb[old]
    shown = view(source, "PERMUTE", ne, nb)
    shown.size = source.size  # as many bytes, also of a quantised cache
    return shown


def transpose(source: Tensor) -> Tensor:
    shown = view(source, "TRANSPOSE", (source.ne[1], source.ne[0], *source.ne[2:]),
                 (source.nb[1], source.nb[0], *source.nb[2:]))  # fmt: skip
    shown.size = source.size
    return shown


def set_rows(target: Tensor, rows: Tensor, ids: Tensor) -> Tensor:
    return view(target, "SET_ROWS", target.ne, target.nb, (rows, ids, target))


def copy_into(source: Tensor, target: Tensor) -> Tensor:
    return view(target, "CPY", target.ne, target.nb, (source, target))
