"""What vLLM's quantisation methods create for one layer's routed experts, before anything is loaded: a row per method.

Each row gives (parameter, bytes) pairs, in the order of `create_weights()`. Files are
model_executor/layers/quantization/* of 0.21.0; 0.32.0 has the same shapes unless a row says otherwise.
"""

from collections.abc import Callable
from math import gcd

from msgspec import Struct
from msgspec.structs import replace

from oomph.facts.changes import Dated, changes
from oomph.facts.vllm.create_linear import Params
from oomph.ir import Scheme
from oomph.units import cdiv


class Shape(Struct, frozen=True):
    """One layer's experts on one rank."""

    scheme: Scheme
    experts: int  # experts here
    e_all: int  # experts over all ranks
    hidden: int
    inter: int  # intermediate features here
    inter_full: int  # over all ranks
    dtype_bytes: int  # bytes of the model's dtype
    shards: int  # 2 for gate and up, 1 for experts without a gate

    @property
    def w13(self) -> int:
        """Elements of gate and up."""
        return self.experts * self.shards * self.inter * self.hidden

    @property
    def w2(self) -> int:
        return self.experts * self.hidden * self.inter

    @property
    def pack(self) -> int:
        """Values in a 32-bit word."""
        return 32 // self.scheme.bits

    @property
    def groups(self) -> tuple[int, int]:
        """Scale groups along the inputs of w13 and of w2; with activation order w2's are whole on every rank."""
        size = self.scheme.group_size
        if size <= 0:
            return 1, 1
        return self.hidden // size, (self.inter_full if self.scheme.desc_act else self.inter) // size

    def by_group(self, unit: int) -> int:
        """Values that go with each scale group and output feature, `unit` of them to a word."""
        g13, g2 = self.groups
        return self.experts * (g13 * (self.shards * self.inter // unit) + g2 * (self.hidden // unit))


ExpertsRow = Callable[[Shape], Params]


def _fp8_experts(shape: Shape) -> Params:
    """fp8.py Fp8MoEMethod, compressed_tensors_moe_w8a8_fp8.py, modelopt.py ModelOptFp8MoEMethod."""
    if shape.scheme.strategy == "block":
        bn, bk = shape.scheme.block[0] or 128, shape.scheme.block[1] or 128
        scales = (
            shape.experts
            * (
                shape.shards * cdiv(shape.inter, bn) * cdiv(shape.hidden, bk)
                + cdiv(shape.hidden, bn) * cdiv(shape.inter, bk)
            )
            * 4
        )
    elif shape.scheme.strategy == "channel":
        scales = shape.experts * (shape.shards * shape.inter + shape.hidden) * 4
    else:
        scales = shape.experts * (shape.shards + 1) * 4
    params = [("w13_weight", shape.w13), ("w2_weight", shape.w2), ("weight_scales", scales)]
    return [*params, ("input_scales", shape.experts * 2 * 4)] if shape.scheme.activation == "static" else params


def _refined_fp8_experts(shape: Shape) -> Params:
    """oracle/fp8.py:272 (0.29.0) refine_fp8_moe_block_shape: smaller blocks where this rank's share cuts one."""
    if shape.scheme.strategy == "block" and shape.scheme.block[0] and shape.inter % shape.scheme.block[0]:
        side = gcd(*shape.scheme.block, shape.inter, shape.hidden)
        shape = replace(shape, scheme=replace(shape.scheme, block=(side, side)))
    return _fp8_experts(shape)


def _nvfp4_experts(shape: Shape) -> Params:
    """modelopt.py ModelOptNvFp4FusedMoE. FlashInfer's kernels (Blackwell) keep the input scales of all experts
    (oracle/nvfp4.py:68)."""
    group = shape.scheme.group_size or 16
    return [
        ("w13_weight", shape.experts * shape.shards * shape.inter * (shape.hidden // 2)),
        ("w2_weight", shape.experts * shape.hidden * (shape.inter // 2)),
        (
            "weight_scales",
            shape.experts
            * (shape.shards * shape.inter * (shape.hidden // group) + shape.hidden * (shape.inter // group)),
        ),
        ("weight_global_scales", shape.experts * (shape.shards + 1) * 4),
        ("input_scales", shape.e_all * (shape.shards + 1) * 4),
    ]


def _ct_nvfp4_experts(shape: Shape) -> Params:
    """compressed_tensors_moe_w4a4_nvfp4.py: the input scales of this rank's experts only."""
    return _nvfp4_experts(replace(shape, e_all=shape.experts))


def _int8_experts(shape: Shape) -> Params:
    """compressed_tensors_moe_w8a8_int8.py: a float32 scale for each output feature, inputs scaled on the fly."""
    return [
        ("w13_weight", shape.w13),
        ("w2_weight", shape.w2),
        ("weight_scales", shape.experts * (shape.shards * shape.inter + shape.hidden) * 4),
    ]


def _mxfp8_experts(shape: Shape) -> Params:
    """online/mxfp8.py, modelopt.py ModelOptMxFp8FusedMoE: a byte of scale for every 32 inputs."""
    return [("w13_weight", shape.w13), ("w2_weight", shape.w2), ("weight_scales", shape.w13 // 32 + shape.w2 // 32)]


def _bitsandbytes_experts(shape: Shape) -> Params:
    """bitsandbytes.py:508: packed as the linear layers are; the absmax states come with the load."""
    pack = 2 if shape.scheme.bits == 4 else 1
    return [("w13_weight", shape.w13 // pack), ("w2_weight", shape.w2 // pack)]


def _mxfp4_experts(shape: Shape) -> Params:
    """mxfp4.py; hidden and inter come rounded up for the backend."""
    return [
        ("w13_weight", shape.experts * shape.shards * shape.inter * (shape.hidden // 2)),
        ("w13_weight_scale", shape.experts * shape.shards * shape.inter * (shape.hidden // 32)),
        ("w2_weight", shape.experts * shape.hidden * (shape.inter // 2)),
        ("w2_weight_scale", shape.experts * shape.hidden * (shape.inter // 32)),
    ]


def _wna16_experts(shape: Shape) -> Params:
    """compressed_tensors_moe_wna16_marlin.py: shapes, g_idx and its sort order are created in every case."""
    return [
        ("w13_weight_packed", shape.w13 // shape.pack * 4),
        ("w2_weight_packed", shape.w2 // shape.pack * 4),
        ("weight_scales", shape.by_group(1) * shape.dtype_bytes),
        ("weight_shapes", 2 * shape.experts * 2 * shape.dtype_bytes),
        ("g_idx", 2 * shape.experts * (shape.hidden + shape.inter) * 4),
    ]


def _wna16_experts_zeros(shape: Shape) -> Params:
    """compressed_tensors_moe_wna16_marlin.py (0.24.0): zero points of asymmetric checkpoints, packed as the weights."""
    params = _wna16_experts(shape)
    if shape.scheme.symmetric:
        return params
    return [*params, ("zero_points", replace(shape, inter_full=shape.inter).by_group(shape.pack) * 4)]


def _wna16_experts_static(shape: Shape) -> Params:
    """compressed_tensors_moe_wna16.py (0.30.0): no g_idx any more."""
    return [p for p in _wna16_experts_zeros(shape) if p[0] != "g_idx"]


def _gptq_experts(shape: Shape) -> Params:
    """gptq_marlin.py:523. The zero points are created in the model's dtype, not int32."""
    return [
        ("w13_qweight", shape.w13 // shape.pack * 4),
        ("w2_qweight", shape.w2 // shape.pack * 4),
        ("scales", shape.by_group(1) * shape.dtype_bytes),
        ("qzeros", shape.by_group(shape.pack) * shape.dtype_bytes),
        ("g_idx", 2 * shape.experts * (shape.hidden + shape.inter) * 4),
    ]


def _gptq_experts_biased(shape: Shape) -> Params:
    """auto_gptq.py (0.27.0): zero points in int32, and biases whether the checkpoint has them or not."""
    sizes = dict(_gptq_experts(shape))
    sizes["qzeros"] = sizes["qzeros"] // shape.dtype_bytes * 4
    return [
        *sizes.items(),
        ("w13_bias", shape.experts * shape.shards * shape.inter * shape.dtype_bytes),
        ("w2_bias", shape.experts * shape.hidden * shape.dtype_bytes),
    ]


def _gptq_experts_static(shape: Shape) -> Params:
    """auto_gptq.py:480 (0.32.0): activation order is refused, so there is no g_idx."""
    return [p for p in _gptq_experts_biased(shape) if p[0] != "g_idx"]


def _awq_experts(shape: Shape) -> Params:
    """awq_marlin.py:508."""
    return [
        ("w13_qweight", shape.w13 // shape.pack * 4),
        ("w2_qweight", shape.w2 // shape.pack * 4),
        ("scales", shape.by_group(1) * shape.dtype_bytes),
        ("qzeros", shape.by_group(shape.pack) * 4),
    ]


def without_marlin(scheme: Scheme, hidden: int, inter: int, tile: int) -> Scheme:
    """The scheme of AWQ and GPTQ experts: as it is where Marlin takes their sizes (marlin_utils.py:229,
    check_moe_marlin_supports_layer); else of moe_wna16.py, whose groups are halved until they divide."""
    size = scheme.group_size
    if hidden % 128 == 0 and inter % max(tile, size) == 0 and size in (-1, 32, 64, 128):
        return scheme
    while size > 1 and (inter % size or hidden % size):
        size //= 2
    return replace(scheme, format=MOE_WNA16, group_size=size)


MOE_WNA16 = "moe_wna16"


def _moe_wna16(built: Shape) -> Params:
    """moe_wna16.py:271: bytes, not words; zero points only where there are any."""
    shape = replace(built, shards=2)
    params = [
        ("w13_qweight", shape.w13 * built.scheme.bits // 8),
        ("w2_qweight", built.w2 * built.scheme.bits // 8),
        ("scales", shape.by_group(1) * built.dtype_bytes),
    ]
    return params if built.scheme.symmetric else [*params, ("qzeros", shape.by_group(8 // built.scheme.bits))]


EXPERTS: dict[tuple[str, str], Dated[ExpertsRow | None]] = {
    ("awq", ""): changes(_awq_experts),
    ("awq", MOE_WNA16): changes(_moe_wna16),
    ("gptq", MOE_WNA16): changes(_moe_wna16),
    ("gptq", ""): changes(_gptq_experts, ("0.27.0", _gptq_experts_biased), ("0.30.0", _gptq_experts_static)),
    ("fp8", ""): changes(_fp8_experts, ("0.29.0", _refined_fp8_experts)),
    ("modelopt", ""): changes(_fp8_experts),
    ("modelopt_fp4", ""): changes(_nvfp4_experts),
    ("mxfp4", ""): changes(_mxfp4_experts),
    ("compressed-tensors", "pack-quantized"): changes(
        _wna16_experts, ("0.24.0", _wna16_experts_zeros), ("0.30.0", _wna16_experts_static)
    ),
    ("modelopt_mxfp8", ""): changes(_mxfp8_experts),
    ("bitsandbytes", ""): changes(_bitsandbytes_experts),
    ("compressed-tensors", "float-quantized"): changes(_fp8_experts),
    ("compressed-tensors", "int-quantized"): changes(_int8_experts),
    ("compressed-tensors", "nvfp4-pack-quantized"): changes(_ct_nvfp4_experts),
    ("compressed-tensors", "mxfp4-pack-quantized"): changes(_mxfp4_experts),
}
