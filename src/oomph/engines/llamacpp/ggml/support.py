"""supports_op: which nodes a GPU's backend runs; the others go to the CPU."""

from oomph.engines.llamacpp.ggml.tensor import VIEW_OPS, Tensor
from oomph.facts.llamacpp.backends import Backend

_SHARED_CELLS = 256  # FATTN_KQ_STRIDE: what several heads share is read in steps of so many cells


def supported(node: Tensor, backend: Backend) -> bool:
    limit = backend.largest_tensor if node.op not in VIEW_OPS else 0
    if limit and any(tensor.size > limit for tensor in (node, *node.src)):
        return False
    if node.op == "MUL_MAT_ID":
        return backend.exact_experts or not node.is_exact
    if node.op == "MUL_MAT":
        return _multiplies(node, backend)
    if node.op == "FLASH_ATTN_EXT":
        return _has_head(node, backend) and (
            backend.mixes_bf16 or _alike(node.src[1].cache_type, node.src[2].cache_type)
        )
    if node.op == "SSM_SCAN":
        return _scans(node, backend)
    if node.op == "GATED_DELTA_NET" and backend.delta_widths is not None:
        return node.src[2].ne[0] in backend.delta_widths
    return True


def _multiplies(node: Tensor, backend: Backend) -> bool:
    """A quantised cache that attention without flash reads head by head is no matrix of its own."""
    matrix, other = node.src
    strided = matrix.ne[2] > 1 and matrix.cache_type not in ("", "f32", "f16", "bf16")
    return (backend.broadcasts or matrix.ne[3] == other.ne[3]) and (backend.strides_quantised or not strided)


def _alike(keys: str, values: str) -> bool:
    return (keys == "bf16") == (values == "bf16")


def _scans(node: Tensor, backend: Backend) -> bool:
    states, decay = node.src[0], node.src[3]
    if decay.ne[0] == 1:
        return backend.mamba2_states is None or (states.ne[0] in backend.mamba2_states and states.ne[1] % 16 == 0)
    return backend.mamba1_states is None or (states.ne[0] in backend.mamba1_states and states.ne[2] % 128 == 0)


def _has_head(node: Tensor, backend: Backend) -> bool:
    if backend.heads is None:
        return True
    query, keys, values = node.src[:3]
    head = next((head for head in backend.heads if (head.keys, head.values) == (keys.ne[0], values.ne[0])), None)
    shared = query.ne[2] // keys.ne[2]
    if head is None or shared < head.shared or shared % head.multiple:
        return False
    return head.shared == 1 or keys.ne[1] % _SHARED_CELLS == 0
