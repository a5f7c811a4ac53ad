"""What happens to a layer's experts on the GPU once they are loaded; steps as in facts/vllm/repack.py.

A step may have a third number: so many tensors of that size under one name (one an expert, until they are stacked).
Files are model_executor/layers/fused_moe/oracle/* and model_executor/layers/quantization/* of 0.21.0.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from oomph.facts.changes import Dated, changes
from oomph.facts.vllm.expert_kernels import FI_CUTLASS, MARLIN, MXFP4_TRTLLM, MXFP4_TRTLLM_8, TRITON, TRTLLM
from oomph.ir.model import Scheme
from oomph.units import cdiv, round_up

Step = tuple[str, int] | tuple[str, int, int]


class ExpertsCase(Struct, frozen=True):
    """One layer's experts on one rank; hidden and inter as the kernels pad them."""

    scheme: Scheme | None
    experts: int
    hidden: int
    inter: int
    shards: int  # 2: gate and up; 1: no gate
    dtype_bytes: int
    sm: int
    sms: int
    bias: bool = False
    kernel: str = ""  # facts/vllm/expert_kernels.py

    @property
    def rows(self) -> tuple[tuple[str, int, int], tuple[str, int, int]]:
        """(name, output features, input features) of the two stacked weights."""
        return ("w13", self.shards * self.inter, self.hidden), ("w2", self.hidden, self.inter)


def scale_sizes(case: ExpertsCase, total: int) -> tuple[int, int]:
    """How the scales that create_weights.py sums are divided between the two weights."""
    scheme = case.scheme
    assert scheme is not None
    if scheme.strategy == "block":
        bn, bk = scheme.block[0] or 128, scheme.block[1] or 128
        first, second = (
            case.shards * cdiv(case.inter, bn) * cdiv(case.hidden, bk),
            cdiv(case.hidden, bn) * cdiv(case.inter, bk),
        )
    elif scheme.strategy == "channel" or scheme.group_size == -1:
        first, second = case.shards * case.inter, case.hidden
    else:
        first, second = case.shards, 1
    w13 = total * first // (first + second)
    return w13, total - w13


def drop(*names: str) -> list[Step]:
    return [(name, 0) for name in names]


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
        ]
        steps += [(f"{name}'", case.experts * n * k), *drop(f"{name}x")]
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
    steps: list[Step] = []
    if case.kernel != MARLIN:  # flashinfer_fp4_moe.py prepare_nvfp4_moe_layer_for_fi_or_cutlass
        (_, n, k), (_, n2, k2) = case.rows
        w13, w2 = case.experts * n * k // 2, case.experts * n2 * k2 // 2
        s13, s2 = (
            case.experts * round_up(n, 128) * round_up(k // 16, 4),
            case.experts * round_up(n2, 128) * round_up(k2 // 16, 4),
        )
        steps += [("w13r", w13), ("s13r", case.experts * n * (k // 16)), ("s13p", s13), ("s13", s13), ("s13p", 0)]
        steps += [("s2p", s2), ("s2", s2), ("s2p", 0)]
        if case.kernel == TRTLLM:  # w2 is shuffled too
            steps += [("w13'", w13), ("w2'", w2), *drop("w13r", "w2_weight")]
        return [*steps, *drop("w13_weight", "s13r", "w13_scale", "w2_scale")]
    steps += [("workspace", 16 * case.sms)]
    for name, n, k in case.rows:
        packed = n * k // 2
        steps += [
            ("t", packed),
            (f"{name}x", packed, case.experts),
            ("t", 0),
            (f"{name}'", case.experts * packed),
            *drop(f"{name}x"),
        ]
    for name, n, k in case.rows:
        scales = n * (k // 16)
        steps += [
            ("wide", 2 * case.experts * scales),
            ("float", 4 * case.experts * scales),
            ("scaled", 4 * case.experts * scales),
            ("float", 0),
        ]
        steps += [
            ("mask", case.experts * scales),
            *drop("scaled", "mask"),
            (f"{name}y", scales, case.experts),
            (f"{name}s", case.experts * scales),
        ]
        steps += drop("wide", f"{name}y")
    steps += [("global13", 4 * case.experts), ("global2", 4 * case.experts)]
    return [*steps, *drop("w13_weight", "w2_weight", "w13_scale", "w2_scale", "weight_global_scales", "input_scales")]


def _mxfp4(case: ExpertsCase) -> list[Step]:
    """triton_kernels' hopper_value.py: tiles of 16 x 32 bytes; oracle/mxfp4.py (0.25.0) drops the scales it copied."""
    return [*_mxfp4_on(case, (16, 32), doubled=False), *drop("w13_weight_scale", "w2_weight_scale")]


def _mxfp4_fours(case: ExpertsCase) -> list[Step]:
    """mxfp4_utils.py (0.26.0): the groups of scales are padded to whole fours first; 560 KiB a layer of gpt-oss-20b."""
    steps = _mxfp4_on(case, (16, 32), doubled=False, groups=4)
    return [*steps, *drop("w13_weight_scale", "w2_weight_scale")]


def _mxfp4_kept(case: ExpertsCase) -> list[Step]:
    return _mxfp4_on(case, (16, 32), doubled=False)


def _mxfp4_padded(case: ExpertsCase) -> list[Step]:
    """hopper_value.py of 0.17.0 to 0.21.0: SWIZZLE_ALIGN_M = SWIZZLE_ALIGN_K = 64, by a copy of its own."""
    return _mxfp4_on(case, (64, 64), doubled=True)


def _mxfp4_on(case: ExpertsCase, tile: tuple[int, int], *, doubled: bool, groups: int = 2) -> list[Step]:
    if case.kernel == TRITON:
        return _mxfp4_triton(case, tile, doubled, groups)
    if case.kernel in (MXFP4_TRTLLM, MXFP4_TRTLLM_8):
        return _mxfp4_trtllm(case)
    return _mxfp4_marlin(case)


def _mxfp4_early(case: ExpertsCase) -> list[Step]:
    """The wheel has Triton's kernels since 0.12.0 (vllm/third_party); before, Hopper takes Marlin too. The container
    image had them: gpt-oss-120b printed 64.38 GiB there and 65.97 GiB from the wheel (0.11)."""
    return _mxfp4_trtllm(case) if case.kernel in (MXFP4_TRTLLM, MXFP4_TRTLLM_8) else _mxfp4_marlin(case)


def _mxfp4_marlin(case: ExpertsCase) -> list[Step]:
    """marlin_utils_fp4.py prepare_moe_mxfp4_layer_for_marlin."""
    steps: list[Step] = []
    for name, n, k in case.rows:
        packed = n * k // 2
        steps += [
            ("t", packed),
            (f"{name}x", packed, case.experts),
            ("t", 0),
            (f"{name}'", case.experts * packed),
            *drop(f"{name}x"),
        ]
    for name, n, k in case.rows:
        scales = n * (k // 32)
        steps += [
            ("wide", case.dtype_bytes * case.experts * scales),
            (f"{name}y", scales, case.experts),
            (f"{name}s", case.experts * scales),
            *drop("wide", f"{name}y"),
        ]
    if case.bias:
        steps += [
            ("w13b", case.experts * case.rows[0][1] * case.dtype_bytes),
            ("w2b", case.experts * case.rows[1][1] * case.dtype_bytes),
            *drop("w13_bias", "w2_bias"),
        ]
    return [*steps, *drop("w13_weight", "w2_weight", "w13_weight_scale", "w2_weight_scale")]


def _mxfp4_trtllm(case: ExpertsCase) -> list[Step]:
    """oracle/mxfp4.py:660: shuffled expert by expert; biases in float32."""
    steps: list[Step] = []
    if case.bias:
        steps += [("w13b", 4 * case.experts * case.rows[0][1]), ("w2b", 4 * case.experts * case.rows[1][1])]
    (_, n, k), (_, n2, k2) = case.rows
    steps += [("swapped_s", case.experts * n * (k // 32)), ("swapped", case.experts * n * k // 2)]
    steps += [
        ("x13", n * k // 2, case.experts),
        ("y13", n * (k // 32), case.experts),
        ("x2", n2 * k2 // 2, case.experts),
        ("y2", n2 * k2 // 32, case.experts),
    ]
    steps += [
        ("w13'", case.experts * n * k // 2),
        ("w13s", case.experts * n * (k // 32)),
        ("w2'", case.experts * n2 * k2 // 2),
        ("w2s", case.experts * n2 * k2 // 32),
    ]
    steps += drop("x13", "y13", "x2", "y2", "swapped", "swapped_s", "w13_weight", "w2_weight")
    return [*steps, *drop("w13_weight_scale", "w2_weight_scale", *(["w13_bias", "w2_bias"] if case.bias else []))]


def _mxfp4_triton(case: ExpertsCase, tile: tuple[int, int], doubled: bool, groups: int) -> list[Step]:
    """mxfp4_utils.py _swizzle_mxfp4 on Hopper, triton_kernels' HopperMXValueLayout and HopperMXScaleLayout.

    Values are padded to whole tiles and packed through int32; the scales are padded to 256 rows and copied, and the
    layer keeps the ones it was created with; biases become float32.
    """
    steps: list[Step] = []
    if case.bias:
        steps += [(f"{name}b", 4 * case.experts * n) for name, n, _ in case.rows]
    for name, n, k in case.rows:
        packed = case.experts * round_up(n, tile[0]) * round_up(k // 2, tile[1])
        steps += [("pad", packed), ("clone", packed), ("pad", 0)] if doubled else [("clone", packed)]
        steps += [("moved", packed), ("clone", 0)]
        for quarter in ("first", "second", "third", "fourth"):
            steps += _pack_nibbles(quarter, packed)
        steps += [
            ("s2", packed),
            ("m2", packed),
            ("s2", 0),
            ("or1", packed),
            ("m2", 0),
            ("s3", packed),
            ("m3", packed),
            ("s3", 0),
        ]
        steps += [("or2", packed), *drop("m3", "or1"), (f"{name}'", packed), ("or2", 0)]
        steps += drop("first", "second", "third", "fourth", "moved")
        scale, padded = case.experts * n * (k // 32), case.experts * round_up(n, 256) * round_up(k // 32, groups)
        steps += [
            ("c", scale),
            ("t", scale),
            ("c", 0),
            ("padded", padded),
            ("t", 0),
            (f"{name}s", padded),
            ("padded", 0),
        ]
    return [*steps, *drop("w13_weight", "w2_weight", *(["w13_bias", "w2_bias"] if case.bias else []))]


def _pack_nibbles(name: str, size: int) -> list[Step]:
    """hopper_value.py _compress_fp4(x) | (_compress_fp4(x >> 4) << 16): a quarter of the values, as int32."""
    low: list[Step] = [
        ("x", size),
        ("a", size),
        ("b", size),
        ("a", 0),
        ("a", size),
        ("c", size),
        ("a", 0),
        ("low", size),
        *drop("b", "c", "x"),
    ]
    high: list[Step] = [
        ("nibble", size // 4), ("x", size), ("a", size), ("b", size), ("a", 0), ("a", size), ("c", size), ("a", 0),
        ("high", size), *drop("b", "c", "x", "nibble"), ("shifted", size), ("high", 0),
    ]  # fmt: skip
    return [*low, *high, (name, size), *drop("low", "shifted")]


REPACK_EXPERTS: dict[tuple[str, str], Dated[Callable[[ExpertsCase], list[Step]] | None]] = {
    ("", ""): changes(_untouched, ("0.20.0", _plain), ("0.24.0", _plain_aligned), ("0.31.0", _plain_in_place)),
    ("awq", "moe_wna16"): changes(_untouched),
    ("gptq", "moe_wna16"): changes(_untouched),
    ("awq", ""): changes(_packed_marlin),
    ("gptq", ""): changes(_packed_marlin),
    ("fp8", ""): changes(_fp8),
    ("modelopt", ""): changes(_fp8, ("0.17.0", _fp8_aligned)),
    ("modelopt_fp4", ""): changes(_nvfp4),
    ("mxfp4", ""): changes(
        _mxfp4_early,
        ("0.12.0", _mxfp4_kept),
        ("0.17.0", _mxfp4_padded),
        ("0.22.0", _mxfp4_kept),
        ("0.25.0", _mxfp4),
        ("0.26.0", _mxfp4_fours),
    ),
    ("compressed-tensors", "pack-quantized"): changes(_wna16),
    ("compressed-tensors", "float-quantized"): changes(_fp8),
    ("compressed-tensors", "nvfp4-pack-quantized"): changes(_nvfp4),
}
