"""What routed experts hold: the workspace that all layers share, and what a kernel allocates beside it."""

from oomph.engines.vllm.profile.batch import Batch
from oomph.facts.dtypes import nbytes
from oomph.ir import Block, Experts, Scheme
from oomph.units import round_up


def quantises_input(scheme: Scheme | None, sm: int) -> bool:
    """Does the kernel want its input in FP8? Before Ada, FP8 weights go through Marlin, which does not."""
    return scheme is not None and scheme.input_bits == 8 and (scheme.kind == "int" or sm >= 89)


def directly(scheme: Scheme, batch: Batch) -> bool:
    """Integer experts whose quantisation calls Marlin itself, past the shared workspace."""
    return scheme.kind == "int" and scheme.input_bits == 16 and scheme.method in batch.rules.direct_marlin


def _flashinfer(scheme: Scheme, batch: Batch) -> bool:
    """Experts whose kernels bring their own workspace and leave one batch of outputs in the shared one
    (trtllm_nvfp4_moe.py:143, flashinfer_cutlass_moe.py:235, 0.18.0)."""
    if scheme.kind != "float" or scheme.input_bits > 8:
        return False
    if scheme.bits == 4 or 100 <= batch.sm < 110:
        return batch.sm >= 100
    is_taken = batch.rules.flashinfer_fp8
    if scheme.strategy == "block":
        spread = batch.layout.expert_parallel and batch.layout.moe_ranks > 1
        return batch.sm == 90 and (is_taken == "blocks" or (spread and is_taken == "blocks under EP"))
    return batch.sm >= 90 and scheme.strategy == "tensor" and scheme.activation == "static" and bool(is_taken)


def _humming(scheme: Scheme, batch: Batch) -> bool:
    """Weights of four bits, or integers with 16-bit inputs, where Marlin would be next."""
    four = scheme.bits == 4 or (scheme.kind == "int" and scheme.input_bits == 16)
    return batch.rules.prefers_humming and batch.sm == 90 and four


def _humming_workspace(experts: Experts, batch: Batch) -> int:
    """fused_humming_moe.py get_buffer_metas (0.32.0): input, both products, the activation between them and the output
    lie in two buffers by turns. Under expert parallelism the input is repeated for every expert of a token."""
    inner, rows = expert_width(experts, batch), batch.tokens * experts.top_k
    inputs = rows if batch.layout.expert_parallel and batch.layout.moe_ranks > 1 else batch.tokens
    first = max(inputs * experts.hidden, rows * inner)
    second = rows * max(experts.hidden, inner * (2 if experts.gated else 1))
    width = nbytes(batch.dtype, 1)
    return round_up(first * width, 256) + round_up(second * width, 256)


def expert_width(experts: Experts, batch: Batch) -> int:
    return experts.intermediate // (1 if batch.layout.expert_parallel else batch.layout.moe_ranks)


def expert_workspace(block: Block, batch: Batch) -> int:
    """Two buffers of tokens x top_k rows, shared by all layers (triton_moe.py, marlin_moe.py:714 workspace_shapes).
    Marlin's second holds twice the inner width whether there is a gate or not."""
    best = 0
    for experts in (module for module in block.modules if isinstance(module, Experts)):
        if experts.scheme is not None and (experts.scheme.method == "mxfp4" or directly(experts.scheme, batch)):
            continue
        if experts.scheme is not None and _flashinfer(experts.scheme, batch):
            best = max(best, round_up(batch.tokens * experts.hidden * nbytes(batch.dtype, 1), 256))
            continue
        if experts.scheme is not None and _humming(experts.scheme, batch):
            best = max(best, _humming_workspace(experts, batch))
            continue
        inner = expert_width(experts, batch)
        marlin = experts.scheme is not None and experts.scheme.bits == 4
        wide = inner * (2 if experts.gated or marlin else 1)
        rows, width = batch.tokens * experts.top_k, nbytes(batch.dtype, 1)
        first = round_up(rows * max(inner, experts.hidden) * width, 256)
        best = max(best, first + round_up(rows * max(wide, experts.hidden) * width, 256))
    return best


def expert_inputs(experts: Experts, batch: Batch) -> int:
    """triton_moe.py:292: the experts' input and their activations once more in FP8."""
    if experts.scheme is None or not quantises_input(experts.scheme, batch.sm):
        return 0
    inner = experts.top_k * expert_width(experts, batch)
    scales = (experts.hidden + inner) // 128 * 4 if experts.scheme.strategy == "block" else 0
    return batch.tokens * (experts.hidden + inner + scales)


def unshared(experts: Experts, batch: Batch) -> int:
    """Kernels that allocate for themselves, as elements of one token: both products of tokens x top_k rows."""
    if experts.scheme is None:
        return 0
    inner = expert_width(experts, batch)
    if experts.scheme.method == "mxfp4":  # triton_kernels
        return experts.top_k * (inner + experts.hidden)
    return experts.top_k * (max(2 * inner, experts.hidden) + inner) if directly(experts.scheme, batch) else 0
