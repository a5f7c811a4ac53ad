"""What happens to a layer's experts on the GPU once they are loaded; steps as in facts/vllm/repack.py.

A step may have a third number: so many tensors of that size under one name (one an expert, until they are stacked).
Files are model_executor/layers/fused_moe/oracle/* and model_executor/layers/quantization/* of 0.21.0.
"""

from collections.abc import Callable

from oomph.facts.changes import Dated, changes
from oomph.facts.vllm.expert_kernels import FI_CUTLASS, HUMMING, MARLIN, TRTLLM
from oomph.facts.vllm.experts_case import ExpertsCase, Step, drop, marlin_values
from oomph.facts.vllm.repack_mxfp4 import MXFP4
from oomph.units import round_up


def _replace(names: dict[str, int]) -> list[Step]:
    """Each tensor once more, then the old one goes."""
    return [step for name, size in names.items() for step in ((f"{name}'", size), (name, 0))]


def _plain(case: ExpertsCase) -> list[Step]:
    """oracle/unquantized.py:298 swap_w13_to_w31 for FlashInfer's CUTLASS; Triton takes the weights as they are."""
    if case.kernel == TRTLLM:
        return _plain_trtllm(case)
    if case.kernel != FI_CUTLASS or case.shards == 1:
        return []
    return _replace({"w13_weight": case.experts * case.shards * case.inter * case.hidden * case.dtype_bytes})


def _plain_trtllm(case: ExpertsCase) -> list[Step]:
    """flashinfer_utils.py convert_moe_weights_to_flashinfer_trtllm_block_layout (0.21.0): the halves are swapped, then
    each expert is shuffled into a copy, and the copies are stacked."""
    steps: list[Step] = []
    for name, n, k in case.rows:
        size = n * k * case.dtype_bytes
        if name == "w13" and case.shards == 2:
            steps += [("swapped", case.experts * size)]
        steps += [(f"{name}x", size, case.experts)]
    for name, n, k in case.rows:
        steps += [(f"{name}'", case.experts * n * k * case.dtype_bytes), (f"{name}x", 0)]
    return [*steps, *drop("swapped", "w13_weight", "w2_weight")]


def _plain_aligned(case: ExpertsCase) -> list[Step]:
    """flashinfer_utils.py align_moe_weights_for_fi (0.24.0): intermediate features are padded to 128 in copies, and
    the experts are shuffled one by one into a third pair of tensors."""
    if case.kernel != TRTLLM:
        return _plain(case)
    inter = round_up(case.inter, 128)
    w13, w2 = (
        case.experts * case.shards * inter * case.hidden * case.dtype_bytes,
        case.experts * case.hidden * inter * case.dtype_bytes,
    )
    padded: list[Step] = [("padded13", w13), ("padded2", w2)] if inter != case.inter else []
    return [*padded, ("w13'", w13), ("w2'", w2), *drop("padded13", "padded2", "w13_weight", "w2_weight")]


def _plain_in_place(case: ExpertsCase) -> list[Step]:
    """oracle/unquantized.py (0.32.0): the TRT-LLM layout is written back expert by expert; CUTLASS as before."""
    if case.kernel == TRTLLM:
        (_, n, k), _ = case.rows
        return [("shuffled", n * k * case.dtype_bytes), ("shuffled", 0)]
    return _plain(case)


def _untouched(case: ExpertsCase) -> list[Step]:
    return []


def _fp8(case: ExpertsCase) -> list[Step]:
    """oracle/fp8.py:424: kernels for Hopper and later take the weights as they are; Marlin (Ampere) repacks them."""
    scheme = case.scheme
    assert scheme is not None
    if case.kernel == TRTLLM:  # flashinfer_utils.py prepare_fp8_moe_layer_for_fi: shuffled copies
        return _replace({f"{name}_weight": case.experts * n * k for name, n, k in case.rows})
    if case.kernel == FI_CUTLASS and case.shards == 2:  # the same function: the halves of w13 are swapped
        return _replace({"w13_weight": case.experts * case.shards * case.inter * case.hidden})
    if case.kernel != MARLIN:
        return []
    steps: list[Step] = [("workspace", 16 * case.sms)]
    for name, n, k in case.rows:
        steps += [
            ("packed", n * k),
            ("contiguous", n * k),
            (f"{name}x", n * k, case.experts),
            *drop("packed", "contiguous"),
            (f"{name}'", case.experts * n * k),
            *drop(f"{name}x"),
        ]
    for name, n, k in case.rows:
        scales = n * case.dtype_bytes * (k // (scheme.block[1] or 128) if scheme.strategy == "block" else 1)
        steps += [
            ("wide", case.experts * scales),
            ("x", scales, case.experts),
            (f"{name}s", case.experts * scales),
            *drop("x", "wide"),
        ]
    return [*steps, *drop("w13_weight", "w2_weight", "w13_scale", "w2_scale")]


def _fp8_aligned(case: ExpertsCase) -> list[Step]:
    """flashinfer_utils.py:337 (0.17.1): experts with static per-tensor scales, which FlashInfer runs on Hopper and
    later, are padded to 16 inner features, without a gate to 128."""
    scheme = case.scheme
    assert scheme is not None
    inter = round_up(case.inter, 16 if case.shards == 2 else 128)
    if case.kernel not in (TRTLLM, FI_CUTLASS) or scheme.strategy not in ("", "tensor") or inter == case.inter:
        return _fp8(case)
    return _replace(
        {
            "w13_weight": case.experts * case.shards * inter * case.hidden,
            "w2_weight": case.experts * case.hidden * inter,
        }
    )


def _wna16(case: ExpertsCase) -> list[Step]:
    """compressed_tensors_moe_wna16_marlin.py: Marlin on every GPU; without act-order the indices become empty."""
    scheme = case.scheme
    assert scheme is not None
    steps: list[Step] = [] if scheme.desc_act else drop("w13_g_idx", "w2_g_idx", "w13_sort", "w2_sort")
    for name, n, k in case.rows:
        packed = n * k * scheme.bits // 8
        steps += [(f"{name}'", case.experts * packed), ("x", packed), ("x", 0), (f"{name}_weight_packed", 0)]
    for name, n, k in case.rows:
        size = case.experts * n * (k // scheme.group_size if scheme.group_size > 0 else 1) * case.dtype_bytes
        steps += [(f"{name}s", size), (f"{name}_scale", 0)]
    return [*steps, ("workspace", 16 * case.sms)]  # marlin_make_workspace_new(device, 4)


def _packed_marlin(case: ExpertsCase) -> list[Step]:
    """awq_marlin.py:640, gptq_marlin.py: weights and scales anew; zero points and indices keep their size or go."""
    scheme = case.scheme
    assert scheme is not None
    steps: list[Step] = []
    if scheme.method == "gptq" and not scheme.desc_act:
        steps += drop("w13_g_idx", "w2_g_idx", "w13_sort", "w2_sort")
    for name, n, k in case.rows:
        steps += [(f"{name}'", case.experts * n * k * scheme.bits // 8), (f"{name}_qweight", 0)]
    for name, n, k in case.rows:
        size = case.experts * n * (k // scheme.group_size if scheme.group_size > 0 else 1) * case.dtype_bytes
        steps += [(f"{name}s", size), (f"{name}_scale", 0)]
    return steps if scheme.method == "awq" else [*steps, ("workspace", 16 * case.sms)]


def _nvfp4(case: ExpertsCase) -> list[Step]:
    """oracle/nvfp4.py:292: swizzled scales on Blackwell, Marlin before it."""
    if case.kernel == HUMMING:
        return _nvfp4_humming(case)
    if case.kernel != MARLIN:
        return _nvfp4_swizzled(case)
    steps: list[Step] = []
    steps += [("workspace", 16 * case.sms), *marlin_values(case)]
    for name, n, k in case.rows:
        scales = n * (k // 16)
        steps += [
            ("wide", 2 * case.experts * scales),
            ("float", 4 * case.experts * scales),
            ("scaled", 4 * case.experts * scales),
            ("float", 0),
            ("mask", case.experts * scales),
            *drop("scaled", "mask"),
            (f"{name}y", scales, case.experts),
            (f"{name}s", case.experts * scales),
            *drop("wide", f"{name}y"),
        ]
    steps += [("global13", 4 * case.experts), ("global2", 4 * case.experts)]
    return [*steps, *drop("w13_weight", "w2_weight", "w13_scale", "w2_scale", "weight_global_scales", "input_scales")]


def _nvfp4_humming(case: ExpertsCase) -> list[Step]:
    """quantization/utils/humming/moe.py, humming/transform.py (0.1.17): padding by nothing clones; values and scales
    are then made anew. Rows are padded to 256, columns to 128."""
    steps: list[Step] = []
    for name, n, k in case.rows:
        n, k = round_up(n, 256), round_up(k, 128)
        values, scales = case.experts * n * k // 2, case.experts * n * (k // 16)
        steps += [("padded", values), ("padded scales", scales), (f"{name}'", values), ("padded", 0)]
        steps += [("moved", scales), (f"{name}s", scales), *drop("moved", "padded scales")]
        steps += drop(f"{name}_weight", f"{name}_scale")
    locks = 8 * 4 * case.sms  # utils/humming.py create_humming_locks
    # gate and up have a scale each, which then stands beside every row
    rows = case.dtype_bytes * round_up(case.shards * case.inter, 256) if case.shards == 2 else 4
    second = [("global13", rows * case.experts), ("global2", 4 * case.experts)]
    return [*steps, *second, ("locks", locks), *drop("weight_global_scales", "input_scales")]


def _nvfp4_swizzled(case: ExpertsCase) -> list[Step]:
    """flashinfer_fp4_moe.py prepare_nvfp4_moe_layer_for_fi_or_cutlass: gate and up change places; without a gate, the
    inner width is padded to the scales' 128 rows, so that both weights are made anew and larger."""
    (_, n, k), (_, n2, k2) = case.rows
    experts, gated = case.experts, case.shards == 2
    padded = 0 if gated or case.kernel == TRTLLM else round_up(n, 128) - n
    w13, w2 = experts * n * k // 2, experts * n2 * k2 // 2
    s13 = experts * round_up(n, 128) * round_up(k // 16, 4)
    s2 = experts * round_up(n2, 128) * round_up((k2 + padded) // 16, 4)
    moved: list[Step] = [("w13r", w13), ("s13r", experts * n * (k // 16))] if gated else []
    steps = [*moved, ("s13p", s13), ("s13", s13), ("s13p", 0)]
    left: list[str] = []
    if padded:
        steps += [("w13p", experts * (n + padded) * k // 2), ("w2p", experts * n2 * (k2 + padded) // 2)]
        steps += [("s2w", experts * n2 * ((k2 + padded) // 16))]
        left += ["w13_weight", "w2_weight", "s2w"]
    steps += [("s2p", s2), ("s2", s2), ("s2p", 0)]
    if case.kernel == TRTLLM:  # both are shuffled
        steps += [("w13'", w13), ("w2'", w2), *drop("w13r" if gated else "w13_weight", "w2_weight")]
    left += ["w13_weight", "s13r"] if gated else []
    return [*steps, *drop(*left, "w13_scale", "w2_scale")]


REPACK_EXPERTS: dict[tuple[str, str], Dated[Callable[[ExpertsCase], list[Step]] | None]] = {
    ("", ""): changes(_untouched, ("0.20.0", _plain), ("0.24.0", _plain_aligned), ("0.31.0", _plain_in_place)),
    ("awq", "moe_wna16"): changes(_untouched),
    ("gptq", "moe_wna16"): changes(_untouched),
    ("awq", ""): changes(_packed_marlin),
    ("gptq", ""): changes(_packed_marlin),
    ("fp8", ""): changes(_fp8),
    ("modelopt", ""): changes(_fp8, ("0.17.0", _fp8_aligned)),
    ("modelopt_fp4", ""): changes(_nvfp4),
    ("mxfp4", ""): MXFP4,
    ("compressed-tensors", "pack-quantized"): changes(_wna16),
    ("compressed-tensors", "float-quantized"): changes(_fp8),
    ("compressed-tensors", "nvfp4-pack-quantized"): changes(_nvfp4),
}
