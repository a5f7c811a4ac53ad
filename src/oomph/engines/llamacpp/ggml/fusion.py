"""ggml_backend_cuda_graph_optimize: what CUDA keeps alive because one kernel reads it later (ggml-cuda.cu)."""

from collections.abc import Sequence

from oomph.engines.llamacpp.ggml.scheduler import Kept
from oomph.engines.llamacpp.ggml.tensor import Tensor

MAX_EXPERTS = 15  # MOE_WEIGHTED_REDUCTION_MAX_EXPERTS
ROUTER = ("RESHAPE", "ARGSORT", "VIEW", "GET_ROWS")
BIASED = ("RESHAPE", "ADD", "ARGSORT", "VIEW", "GET_ROWS")
NORMED = ("RESHAPE", "SUM_ROWS", "CLAMP", "DIV", "RESHAPE")
LARGEST_ROUTER = 512  # ggml_cuda_should_use_topk_moe: a power of 2 up to here, and two more
MORE_ROUTERS = (288, 576)


def fused_experts(nodes: Sequence[Tensor]) -> tuple[Sequence[Tensor], Kept]:
    """(the nodes as they are, what is kept until a node)."""
    lives: Kept = {}
    for index, node in enumerate(nodes):
        if node.op == "MUL":
            _weighted_sum(nodes, index, lives)
        elif node.op in ("SOFT_MAX", "UNARY"):
            _router(nodes, index, lives)
    return nodes, lives


def _weighted_sum(nodes: Sequence[Tensor], index: int, lives: Kept) -> None:
    """The experts' outputs and their shares are read at the sum."""
    node = nodes[index]
    if not 2 <= node.ne[1] <= MAX_EXPERTS or len(node.src) < 2:
        return
    full, shares = node.src[0], node.src[1]
    last = index + 2 * node.ne[1] - 1
    if full.ne != node.ne or shares.ne != (1, *node.ne[1:]) or last >= len(nodes):
        return
    if nodes[last].op == "ADD" and nodes[index + 1].op == "VIEW":
        lives.setdefault(nodes[last], []).extend((full, shares))


def _router(nodes: Sequence[Tensor], index: int, lives: Kept) -> None:
    """Everything between the logits and the shares is one kernel."""
    count = nodes[index].ne[0]
    if (count & (count - 1) or count > LARGEST_ROUTER) and count not in MORE_ROUTERS:
        return
    operations = [node.op for node in nodes[index + 1 : index + 11]]
    steps = next((s for s in (ROUTER, BIASED) if tuple(operations[: len(s)]) == s), ())
    if not steps:
        return
    end = index + 1 + len(steps)
    if tuple(operations[len(steps) : len(steps) + len(NORMED)]) == NORMED:
        end += len(NORMED)
    if end >= len(nodes):
        return
    tensors = lives.setdefault(nodes[end], [])
    for node in nodes[index:end]:
        tensors.extend(tensor for tensor in (node, *node.src) if tensor not in tensors)
