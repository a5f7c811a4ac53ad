"""What happens to a linear layer's weights on the GPU once they are loaded (process_weights_after_loading).

A step is (name, bytes): a tensor that is made, or with 0 bytes one that is dropped. Names of a layer's own parameters
are those of facts/vllm/create_weights.py; what is not dropped stays. Tensors of a few bytes are listed where they stay,
since each takes 512. Files are model_executor/layers/quantization/* and model_executor/kernels/linear/* of 0.21.0.
"""

from collections.abc import Callable

from msgspec import Struct

from oomph.facts.changes import Dated, Facts, changes, table
from oomph.facts.vllm.experts_case import ExpertsCase, Step, drop
from oomph.facts.vllm.repack_moe import REPACK_EXPERTS
from oomph.ir import Rope, Scheme
from oomph.units import cdiv, round_up

Steps = list[Step]


class Case(Struct, frozen=True):
    """One linear layer on one rank."""

    scheme: Scheme
    n: int  # output features
    k: int  # input features
    k_full: int  # over all ranks
    parts: tuple[int, ...]  # output features of the fused layers
    dtype_bytes: int  # bytes of the model's dtype
    sm: int
    sms: int  # multiprocessors

    @property
    def groups(self) -> int:
        size = self.scheme.group_size
        return self.k // size if size > 0 else 1


def rope_steps(rope: Rope, rows: int, nbytes: int) -> Steps:
    """rotary_embedding/base.py:79 (0.21.0): float32 angles, cosines and sines, their concatenation, then the cast."""
    half = rows * (rope.dim // 2) * 4
    steps: Steps = [("inv_freq", rope.dim // 2 * 4), ("t", rows * 4), ("freqs", half)]
    if "yarn" in rope.kind:  # yarn_scaling_rope.py: freqs.cos() * mscale
        steps += [("plain", half), ("cos", half), ("plain", 0), ("plain", half), ("sin", half), ("plain", 0)]
    else:
        steps += [("cos", half), ("sin", half)]
    steps += [("cat", 2 * half), ("inv_freq", 0), ("t", 0), ("freqs", 0), ("cos", 0), ("sin", 0)]
    return steps if nbytes == 2 * half else [*steps, ("cache", nbytes), ("cat", 0)]


# --- 4- and 8-bit integers: AWQ, GPTQ, compressed-tensors pack-quantized ---------------------------------------------


def _is_machete(case: Case) -> bool:
    """mixed_precision/machete.py can_implement: Hopper only."""
    scheme = case.scheme
    return (
        case.sm == 90
        and scheme.bits in (4, 8)
        and scheme.group_size in (-1, 64, 128)
        and case.k % 64 == 0
        and case.n % 128 == 0
        and not (scheme.desc_act and case.k != case.k_full)
    )


def _marlin_workspace(case: Case) -> Steps:
    return [("workspace", 4 * case.sms)]  # marlin_utils.py:261


def _zeros_to_machete(case: Case, zeros: str) -> Steps:
    """machete.py transform_w_zp: unpacked to int32, multiplied by the scales, kept in the model's dtype."""
    packed, wide, half = (
        case.groups * case.n * case.scheme.bits // 8,
        4 * case.groups * case.n,
        case.dtype_bytes * case.groups * case.n,
    )
    return [
        ("u", wide), ("shift", packed), ("mask", packed), *drop("shift", "mask"),
        ("minus", half), ("cast", half), (f"{zeros}'", half), *drop("minus", "cast", zeros, "u"),
    ]  # fmt: skip


def _zeros_to_marlin(case: Case, zeros: str) -> Steps:
    """marlin_utils.py:365 marlin_zero_points, by way of the host."""
    packed, wide = case.groups * case.n * case.scheme.bits // 8, 4 * case.groups * case.n
    return [
        ("u", wide), ("permuted", wide), ("interleaved", wide), *drop("permuted"),
        (f"{zeros}'", packed), *drop("interleaved", "u", zeros),
    ]  # fmt: skip


def _packed(case: Case, packed: str, scales: str, zeros: str, *, q_copy: bool, s_copy: bool, has_zeros: bool) -> Steps:
    """MacheteLinearKernel or MarlinLinearKernel. `q_copy`, `s_copy`: the layout at hand has to be made contiguous."""
    qb, sb = case.n * case.k * case.scheme.bits // 8, case.groups * case.n * case.dtype_bytes
    if _is_machete(case):
        copy_q: Steps = [("contiguous", qb)] if q_copy else []
        steps = [*copy_q, (f"{packed}'", qb), *drop(*(["contiguous"] if q_copy else []), packed)]
        if s_copy:
            steps += [(f"{scales}'", sb), (scales, 0)]
        return steps + (_zeros_to_machete(case, zeros) if has_zeros else [])
    steps = _marlin_workspace(case)
    if has_zeros:
        steps += _zeros_to_marlin(case, zeros)
    # a transposed weight is contiguous for Machete and not for Marlin, and the other way round
    copy_m = not q_copy
    steps += [
        *([("contiguous", qb)] if copy_m else []),
        (f"{packed}'", qb),
        *drop(*(["contiguous"] if copy_m else []), packed),
    ]
    return [
        *steps,
        *([("contiguous", sb)] if s_copy else []),
        (f"{scales}'", sb),
        *drop(*["contiguous"] * s_copy, scales),
    ]


def _awq_via_standard(case: Case) -> Steps:
    """awq_marlin.py:74 _convert_awq_to_standard_format: every 4-bit value becomes an int32 on the way."""
    qb, wide = case.n * case.k * case.scheme.bits // 8, 4 * case.n * case.k
    zb, wide_z = case.groups * case.n * case.scheme.bits // 8, 4 * case.groups * case.n
    standard = [
        ("shifted", wide), ("masked", wide), ("shifted", 0), ("ordered", wide), ("masked", 0),
        ("again", wide), ("q", qb), ("again", 0),
        ("shifted", wide_z), ("masked", wide_z), ("shifted", 0), ("ordered_z", wide_z), ("masked", 0),
        ("again", wide_z), ("z", zb), ("again", 0), *drop("qweight", "ordered", "qzeros", "ordered_z"),
    ]  # fmt: skip
    return standard + _packed(case, "q", "scales", "z", q_copy=True, s_copy=False, has_zeros=True)


def _awq_marlin(case: Case) -> Steps:
    """awq_marlin.py before 0.19: awq_marlin_repack, no other kernel."""
    qb, sb = case.n * case.k * case.scheme.bits // 8, case.groups * case.n * case.dtype_bytes
    steps = [*_marlin_workspace(case), ("q", qb), ("qweight", 0), ("s", sb), ("scales", 0)]
    return steps + _zeros_to_marlin(case, "qzeros")


def _gptq(case: Case) -> Steps:
    """gptq_marlin.py; Marlin drops the zero points of a symmetric checkpoint and, without act-order, g_idx."""
    act = case.scheme.desc_act
    sort: Steps = [("order64", 8 * case.k), ("order", 4 * case.k), ("order64", 0)] if act else []
    body = _packed(case, "qweight", "scales", "qzeros", q_copy=True, s_copy=False, has_zeros=not case.scheme.symmetric)
    if _is_machete(case):
        return sort + body
    own = [("sorted", 4 * case.k), ("g_idx", 0)] if act else [("g_idx", 0)]
    return sort + own + (drop("qzeros") if case.scheme.symmetric else []) + body


def _wna16(case: Case) -> Steps:
    """compressed_tensors_wNa16.py: weight_packed is [N, K / 8], the kernels want [K / 8, N]."""
    zeros = not case.scheme.symmetric
    return _packed(
        case, "weight_packed", "weight_scale", "weight_zero_point", q_copy=False, s_copy=True, has_zeros=zeros
    )


# --- FP8 -----------------------------------------------------------------------------------------------------------


def _fp8(case: Case) -> Steps:
    scheme = case.scheme
    weight = case.n * case.k
    if case.sm and case.sm < 89:  # marlin_utils_fp8.py prepare_fp8_layer_for_marlin
        scales = case.dtype_bytes * case.n * (case.k // (scheme.block[1] or 128) if scheme.strategy == "block" else 1)
        names = ("packed", "contiguous") if scheme.strategy == "block" else ("packed",)
        return [
            *_marlin_workspace(case),
            *((name, weight) for name in names), ("w", weight), ("weight", 0), ("repeated", scales), ("s", scales),
            *drop("repeated", "weight_scale", *names, *(["input_scale"] if scheme.activation == "static" else [])),
        ]  # fmt: skip
    if scheme.strategy == "block" and 100 <= case.sm < 110 and case.n % 64 == 0 and case.k % 128 == 0:
        # fp8_utils.py deepgemm_post_process_fp8_weight_block: powers of two as scales, four to an int32 for every row
        packed = round_up(case.n, 4) * cdiv(case.k, 512) * 4
        return [
            ("float", 4 * weight), ("expanded", 4 * weight), ("scaled", 4 * weight), *drop("float", "expanded"),
            ("again", 4 * weight), *drop("again", "scaled"), ("s", packed), ("weight_scale", 0),
        ]  # fmt: skip
    if scheme.strategy == "tensor" and len(case.parts) > 1:
        # w8a8_utils.py requantize_with_max_scale: each part is taken back to 16 bits and quantised with one scale
        part = max(case.parts) * case.k
        return [
            ("half", 2 * part),
            ("scaled", 2 * part),
            ("half", 0),
            ("quantised", part),
            *drop("scaled", "quantised"),
        ]
    return []


# --- NVFP4 ---------------------------------------------------------------------------------------------------------


def _global_scales(case: Case) -> Steps:
    """modelopt.py:1174, compressed_tensors_w4a4_nvfp4.py: one global scale each, their product and an inverse."""
    if case.scheme.method == "compressed-tensors" and case.scheme.activation == "none":
        return [("weight_global_scale", 4), ("weight_scale_2", 0)]
    return [
        ("input_global_scale", 4), ("input_scale", 0), ("weight_global_scale", 4), ("weight_scale_2", 0),
        ("alpha", 4), ("input_global_scale_inv", 4),
    ]  # fmt: skip


def _nvfp4_marlin(case: Case) -> Steps:
    """marlin_utils_fp4.py prepare_fp4_layer_for_marlin, with nvfp4_marlin_process_scales."""
    packed, scales = case.n * case.k // 2, case.n * (case.k // 16)
    return [
        *_global_scales(case), *_marlin_workspace(case),
        ("qweight", packed), ("w", packed), ("weight", 0),
        ("t", scales), ("wide", 2 * scales), ("t", 0), ("permuted", 2 * scales), ("wide", 0),
        ("sign", scales), ("sign", 0), ("half", 2 * scales), ("ordered", 2 * scales), ("half", 0),
        ("float", 4 * scales), ("scaled", 4 * scales), ("float", 0), ("mask", scales), *drop("scaled", "mask"),
        ("float", 4 * scales), ("scaled", 4 * scales), ("float", 0), ("half", 2 * scales), *drop("scaled", "ordered"),
        ("times", 2 * scales), ("half", 0), ("mask", scales), ("mask", 0), ("shifted", 2 * scales), ("times", 0),
        ("s", scales), *drop("shifted", "permuted", "weight_scale"),
        ("g", 4), ("weight_global_scale", 0), ("qweight", 0),
    ]  # fmt: skip


def _nvfp4_cutlass(case: Case) -> Steps:
    """nvfp4_utils.py swizzle_blockscale and pad_nvfp4_weight_for_cutlass."""
    scales = round_up(case.n, 128) * round_up(case.k // 16, 4)
    steps = [*_global_scales(case), ("padded", scales), ("s", scales), *drop("padded", "weight_scale")]
    rows, columns = round_up(case.n, 32), round_up(case.k, 32)
    if (rows, columns) != (case.n, case.k):
        steps += [("w", rows * columns // 2), ("weight", 0)]
    return steps


def _nvfp4(case: Case) -> Steps:
    weight_only = case.scheme.method == "compressed-tensors" and case.scheme.activation == "none"
    return _nvfp4_cutlass(case) if case.sm >= 100 and not weight_only else _nvfp4_marlin(case)


def _bitsandbytes(case: Case) -> Steps:
    """bitsandbytes_loader.py:434: each tensor is quantised on the GPU; a float32 maximum for every 64 values stays."""
    part = max(case.parts) * case.k
    return [
        ("half", case.dtype_bytes * part), ("quantised", part // 2), *drop("half", "quantised"),
        ("absmax", case.n * case.k // 64 * 4),
    ]  # fmt: skip


# --- rows ----------------------------------------------------------------------------------------------------------


REPACK: dict[tuple[str, str], Dated[Callable[[Case], Steps] | None]] = {
    ("awq", ""): changes(_awq_marlin, ("0.19.0", _awq_via_standard)),
    ("gptq", ""): changes(_gptq),
    ("compressed-tensors", "pack-quantized"): changes(_wna16),
    ("compressed-tensors", "float-quantized"): changes(_fp8),
    ("compressed-tensors", "naive-quantized"): changes(_fp8),
    ("compressed-tensors", "nvfp4-pack-quantized"): changes(_nvfp4),
    ("bitsandbytes", ""): changes(_bitsandbytes),
    ("fp8", ""): changes(_fp8),
    ("modelopt", ""): changes(_fp8),
    ("modelopt_fp4", ""): changes(_nvfp4),
}


class Repacking(Facts):
    linear = table(REPACK)
    experts = table(REPACK_EXPERTS)

    def linear_steps(self, case: Case) -> Steps:
        """No row: the weights stay as they were created."""
        scheme = case.scheme
        row = self.linear.get((scheme.method, scheme.format)) or self.linear.get((scheme.method, ""))
        return row(case) if row else []

    def experts_steps(self, case: ExpertsCase) -> list[Step]:
        if case.scheme is None:
            return self.experts["", ""](case)
        method = case.scheme.method
        row = self.experts.get((method, case.scheme.format)) or self.experts.get((method, ""))
        return row(case) if row else []
