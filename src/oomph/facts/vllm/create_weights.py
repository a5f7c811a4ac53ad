"""What vLLM's quantisation methods create on the GPU for one layer, before anything is loaded: a row per method.

Each row gives (parameter, bytes) pairs, in the order of `create_weights()`. A linear layer has output sizes `n` (one
per fused part, already divided by tensor parallelism), `k` input features on this rank and `k_full` over all ranks;
`d` is the byte width of the model's dtype. Files are model_executor/layers/quantization/* of 0.21.0; 0.32.0 has the
same shapes unless a row says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import gcd

from msgspec import Struct
from msgspec.structs import replace

from oomph.errors import CannotPlan
from oomph.facts.vllm.versions import Range
from oomph.ir.model import Scheme
from oomph.units import cdiv

Params = list[tuple[str, int]]
LinearRow = Callable[[Scheme, Sequence[int], int, int, int], Params]
# (scheme, experts here, all experts, hidden, intermediate here, intermediate over all ranks, dtype bytes, shards)
ExpertsRow = Callable[[Scheme, int, int, int, int, int, int, int], Params]


class Table(Struct, frozen=True):
    """The rows in force in one release."""

    linear_rows: dict[tuple[str, str], LinearRow]
    experts_rows: dict[tuple[str, str], ExpertsRow]

    def linear(self, scheme: Scheme | None, n: Sequence[int], k: int, k_full: int, d: int) -> Params:
        if scheme is None:
            return [("weight", sum(n) * k * d)]
        row = self.linear_rows.get((scheme.method, scheme.format)) or self.linear_rows.get((scheme.method, ""))
        if row is None:
            raise CannotPlan(f"what vLLM creates for {scheme.method} {scheme.format} linear layers is not known")
        return row(scheme, n, k, k_full, d)

    def experts(
        self,
        scheme: Scheme | None,
        e: int,
        e_all: int,
        hidden: int,
        inter: int,
        inter_full: int,
        d: int,
        shards: int,
        bias: bool,
    ) -> Params:
        """`shards`: 2 for gate and up, 1 for experts without a gate."""
        if scheme is None:
            params = [("w13_weight", e * shards * inter * hidden * d), ("w2_weight", e * hidden * inter * d)]
        else:
            row = self.experts_rows.get((scheme.method, scheme.format)) or self.experts_rows.get((scheme.method, ""))
            if row is None:
                raise CannotPlan(f"what vLLM creates for {scheme.method} {scheme.format} experts is not known")
            params = row(scheme, e, e_all, hidden, inter, inter_full, d, shards)
        if bias:
            params = [*params, ("w13_bias", e * shards * inter * d), ("w2_bias", e * hidden * d)]
        return params


@cache
def table(version: str) -> Table:
    linear = {(r.method, r.format): r.make for r in reversed(_LINEAR) if r.holds(version)}
    experts = {(r.method, r.format): r.make for r in reversed(_EXPERTS) if r.holds(version)}
    return Table(linear, experts)


class Linear(Range, frozen=True):
    method: str
    format: str
    make: LinearRow


class ExpertsOf(Range, frozen=True):
    method: str
    format: str
    make: ExpertsRow


def _groups(s: Scheme, k: int, k_full: int) -> int:
    """Scale groups along the input of one rank. Act-order and channel-wise scales are whole on every rank of a
    row-parallel layer (marlin_utils.py marlin_repeat_scales_on_all_ranks)."""
    size = s.group_size if s.group_size > 0 else k_full
    row_parallel = k != k_full
    repeat = s.desc_act or (s.group_size <= 0 and row_parallel)
    return (k_full if repeat else k) // size


# --- linear layers -------------------------------------------------------------------------------------------------


def _awq(s: Scheme, n: Sequence[int], k: int, k_full: int, d: int) -> Params:
    """awq_marlin.py:386; int32 words hold 32/bits values of the output dimension."""
    out, size = sum(n), s.group_size if s.group_size > 0 else k_full
    pack = 32 // s.bits
    return [
        ("qweight", k * (out // pack) * 4),
        ("qzeros", (k // size) * (out // pack) * 4),
        ("scales", (k // size) * out * d),
    ]


def _gptq(s: Scheme, n: Sequence[int], k: int, k_full: int, d: int) -> Params:
    """gptq_marlin.py:356. g_idx is created whatever desc_act says."""
    out, pack, g = sum(n), 32 // s.bits, _groups(s, k, k_full)
    return [
        ("qweight", (k // pack) * out * 4),
        ("g_idx", k * 4),
        ("scales", g * out * d),
        ("qzeros", g * (out // pack) * 4),
    ]


def _gptq_static(s: Scheme, n: Sequence[int], k: int, k_full: int, d: int) -> Params:
    """auto_gptq.py (0.30.0): activation order is refused, so there is no g_idx."""
    return [p for p in _gptq(s, n, k, k_full, d) if p[0] != "g_idx"]


def _fp8(s: Scheme, n: Sequence[int], k: int, k_full: int, d: int) -> Params:
    """fp8.py Fp8LinearMethod, compressed_tensors_w8a8_fp8.py, utils/fp8_utils.py:1193: scales are float32."""
    out = sum(n)
    if s.strategy == "block":
        scales = cdiv(out, s.block[0] or 128) * cdiv(k, s.block[1] or 128) * (1 if s.scale_dtype == "F8_E8M0" else 4)
    else:
        scales = 4 * (out if s.strategy == "channel" else len(n))
    params = [("weight", out * k), ("weight_scale", scales)]
    return [*params, ("input_scale", 4 * len(n))] if s.activation == "static" else params


def _fbgemm_fp8(s: Scheme, n: Sequence[int], k: int, k_full: int, d: int) -> Params:
    """fbgemm_fp8.py:133: a float32 scale for each output feature and one upper bound."""
    return [("weight", sum(n) * k), ("weight_scale", 4 * sum(n)), ("input_scale_ub", 4)]


def _modelopt_fp8(s: Scheme, n: Sequence[int], k: int, k_full: int, d: int) -> Params:
    """modelopt.py: per-tensor FP8 always has an input scale; the other two strategies never."""
    out = sum(n)
    if s.strategy == "block":
        return [("weight", out * k), ("weight_scale", (out // 128) * (k // 128) * 4)]
    if s.strategy == "channel":
        return [("weight", out * k), ("weight_scale", 4 * out)]
    return [("weight", out * k), ("weight_scale", 4 * len(n)), ("input_scale", 4 * len(n))]


def _nvfp4(s: Scheme, n: Sequence[int], k: int, k_full: int, d: int) -> Params:
    """modelopt.py ModelOptNvFp4LinearMethod, compressed_tensors_w4a4_nvfp4.py: two global scales a part."""
    out = sum(n)
    globals_ = 4 * len(n)
    params = [
        ("weight", out * (k // 2)),
        ("weight_scale", out * (k // (s.group_size or 16))),
        ("weight_scale_2", globals_),
    ]
    return [*params, ("input_scale", globals_)] if s.activation != "none" else params


def _nvfp4_modelopt(s: Scheme, n: Sequence[int], k: int, k_full: int, d: int) -> Params:
    """modelopt.py: ModelOpt layers always have an input scale."""
    weight_only = [p for p in _nvfp4(s, n, k, k_full, d) if p[0] != "input_scale"]
    return [*weight_only, ("input_scale", 4 * len(n))]


def _nvfp4_w4a16(s: Scheme, n: Sequence[int], k: int, k_full: int, d: int) -> Params:
    """modelopt.py:2496 (0.32.0): a config without input activations means weight-only; the input scale is then a
    placeholder in the model's dtype."""
    params = _nvfp4_modelopt(s, n, k, k_full, d)
    return [(name, d * len(n) if name == "input_scale" and s.activation == "none" else size) for name, size in params]


def _wna16(s: Scheme, n: Sequence[int], k: int, k_full: int, d: int) -> Params:
    """compressed_tensors_wNa16.py:84."""
    out, pack, g = sum(n), 32 // s.bits, _groups(s, k, k_full)
    params = [("weight_packed", out * (k // pack) * 4), ("weight_scale", out * g * d), ("weight_shape", 16)]
    if not s.symmetric:
        params.append(("weight_zero_point", (out // pack) * g * 4))
    if s.desc_act:
        params.append(("weight_g_idx", k * 4))
    return params


def _int8(s: Scheme, n: Sequence[int], k: int, k_full: int, d: int) -> Params:
    """compressed_tensors_w8a8_int8.py."""
    out = sum(n)
    params = [("weight", out * k), ("weight_scale", 4 * (out if s.strategy == "channel" else len(n)))]
    return [*params, ("input_scale", 4)] if s.activation == "static" else params


def _mxfp4_linear(s: Scheme, n: Sequence[int], k: int, k_full: int, d: int) -> Params:
    return [("weight_packed", sum(n) * (k // 2)), ("weight_scale", sum(n) * (k // 32))]


def _mxfp8(s: Scheme, n: Sequence[int], k: int, k_full: int, d: int) -> Params:
    return [("weight", sum(n) * k), ("weight_scale", sum(n) * (k // 32))]


def _bitsandbytes(s: Scheme, n: Sequence[int], k: int, k_full: int, d: int) -> Params:
    """bitsandbytes.py: a 4-bit weight is created packed; its absmax states come with the load."""
    return [("weight", sum(n) * k // (2 if s.bits == 4 else 1))]


_LINEAR: tuple[Linear, ...] = (
    Linear("awq", "", _awq),
    Linear("gptq", "", _gptq_static, since="0.30.0"),
    Linear("gptq", "", _gptq),
    Linear("fbgemm_fp8", "", _fbgemm_fp8),
    Linear("fp8", "", _fp8),
    Linear("modelopt", "", _modelopt_fp8),
    Linear("modelopt_fp4", "", _nvfp4_w4a16, since="0.30.0"),
    Linear("modelopt_fp4", "", _nvfp4_modelopt),
    Linear("modelopt_mxfp8", "", _mxfp8),
    Linear("compressed-tensors", "pack-quantized", _wna16),
    Linear("compressed-tensors", "float-quantized", _fp8),
    Linear("compressed-tensors", "naive-quantized", _fp8),
    Linear("compressed-tensors", "int-quantized", _int8),
    Linear("compressed-tensors", "nvfp4-pack-quantized", _nvfp4),
    Linear("compressed-tensors", "mxfp4-pack-quantized", _mxfp4_linear),
    Linear("bitsandbytes", "", _bitsandbytes),
)


# --- experts -------------------------------------------------------------------------------------------------------


def _fp8_experts(
    s: Scheme, e: int, e_all: int, hidden: int, inter: int, inter_full: int, d: int, shards: int
) -> Params:
    """fp8.py Fp8MoEMethod, compressed_tensors_moe_w8a8_fp8.py, modelopt.py ModelOptFp8MoEMethod."""
    if s.strategy == "block":
        bn, bk = s.block[0] or 128, s.block[1] or 128
        scales = e * (shards * cdiv(inter, bn) * cdiv(hidden, bk) + cdiv(hidden, bn) * cdiv(inter, bk)) * 4
    elif s.strategy == "channel":
        scales = e * (shards * inter + hidden) * 4
    else:
        scales = e * (shards + 1) * 4
    params = [("w13_weight", e * shards * inter * hidden), ("w2_weight", e * hidden * inter), ("weight_scales", scales)]
    return [*params, ("input_scales", e * 2 * 4)] if s.activation == "static" else params


def _refined_fp8_experts(
    s: Scheme, e: int, e_all: int, hidden: int, inter: int, inter_full: int, d: int, shards: int
) -> Params:
    """oracle/fp8.py:272 (0.29.0) refine_fp8_moe_block_shape: smaller blocks where this rank's share cuts one."""
    if s.strategy == "block" and s.block[0] and inter % s.block[0]:
        side = gcd(*s.block, inter, hidden)
        s = replace(s, block=(side, side))
    return _fp8_experts(s, e, e_all, hidden, inter, inter_full, d, shards)


def _nvfp4_experts(
    s: Scheme, e: int, e_all: int, hidden: int, inter: int, inter_full: int, d: int, shards: int
) -> Params:
    """modelopt.py ModelOptNvFp4FusedMoE. FlashInfer's kernels (Blackwell) keep the input scales of all experts
    (oracle/nvfp4.py:68)."""
    g = s.group_size or 16
    return [
        ("w13_weight", e * shards * inter * (hidden // 2)),
        ("w2_weight", e * hidden * (inter // 2)),
        ("weight_scales", e * (shards * inter * (hidden // g) + hidden * (inter // g))),
        ("weight_global_scales", e * (shards + 1) * 4),
        ("input_scales", e_all * (shards + 1) * 4),
    ]


def _ct_nvfp4_experts(
    s: Scheme, e: int, e_all: int, hidden: int, inter: int, inter_full: int, d: int, shards: int
) -> Params:
    """compressed_tensors_moe_w4a4_nvfp4.py: the input scales of this rank's experts only."""
    return _nvfp4_experts(s, e, e, hidden, inter, inter_full, d, shards)


def _int8_experts(
    s: Scheme, e: int, e_all: int, hidden: int, inter: int, inter_full: int, d: int, shards: int
) -> Params:
    """compressed_tensors_moe_w8a8_int8.py: a float32 scale for each output feature, inputs scaled on the fly."""
    return [
        ("w13_weight", e * shards * inter * hidden),
        ("w2_weight", e * hidden * inter),
        ("weight_scales", e * (shards * inter + hidden) * 4),
    ]


def _bitsandbytes_experts(
    s: Scheme, e: int, e_all: int, hidden: int, inter: int, inter_full: int, d: int, shards: int
) -> Params:
    """bitsandbytes.py:508: packed as the linear layers are; the absmax states come with the load."""
    pack = 2 if s.bits == 4 else 1
    return [("w13_weight", e * (shards * inter * hidden // pack)), ("w2_weight", e * (hidden * inter // pack))]


def _mxfp4_experts(
    s: Scheme, e: int, e_all: int, hidden: int, inter: int, inter_full: int, d: int, shards: int
) -> Params:
    """mxfp4.py; hidden and inter come rounded up for the backend."""
    return [
        ("w13_weight", e * shards * inter * (hidden // 2)),
        ("w13_weight_scale", e * shards * inter * (hidden // 32)),
        ("w2_weight", e * hidden * (inter // 2)),
        ("w2_weight_scale", e * hidden * (inter // 32)),
    ]


def _wna16_experts(
    s: Scheme, e: int, e_all: int, hidden: int, inter: int, inter_full: int, d: int, shards: int
) -> Params:
    """compressed_tensors_moe_wna16_marlin.py: shapes, g_idx and its sort order are created in every case."""
    pack = 32 // s.bits
    g13 = 1 if s.group_size <= 0 else hidden // s.group_size
    g2 = 1 if s.group_size <= 0 else (inter_full if s.desc_act else inter) // s.group_size
    return [
        ("w13_weight_packed", e * (hidden // pack) * shards * inter * 4),
        ("w2_weight_packed", e * (inter // pack) * hidden * 4),
        ("weight_scales", e * (g13 * shards * inter + g2 * hidden) * d),
        ("weight_shapes", 2 * e * 2 * d),
        ("g_idx", 2 * e * (hidden + inter) * 4),
    ]


def _wna16_experts_zeros(
    s: Scheme, e: int, e_all: int, hidden: int, inter: int, inter_full: int, d: int, shards: int
) -> Params:
    """compressed_tensors_moe_wna16_marlin.py (0.24.0): zero points of asymmetric checkpoints, packed as the weights."""
    params = _wna16_experts(s, e, e_all, hidden, inter, inter_full, d, shards)
    if s.symmetric:
        return params
    groups = {n: 1 if s.group_size <= 0 else n // s.group_size for n in (hidden, inter)}
    words = groups[hidden] * (shards * inter * s.bits // 32) + groups[inter] * (hidden * s.bits // 32)
    return [*params, ("zero_points", e * words * 4)]


def _wna16_experts_static(
    s: Scheme, e: int, e_all: int, hidden: int, inter: int, inter_full: int, d: int, shards: int
) -> Params:
    """compressed_tensors_moe_wna16.py (0.30.0): no g_idx any more."""
    params = _wna16_experts_zeros(s, e, e_all, hidden, inter, inter_full, d, shards)
    return [p for p in params if p[0] != "g_idx"]


def _gptq_experts(
    s: Scheme, e: int, e_all: int, hidden: int, inter: int, inter_full: int, d: int, shards: int
) -> Params:
    """gptq_marlin.py:523. The zero points are created in the model's dtype, not int32."""
    pack = 32 // s.bits
    g13 = 1 if s.group_size <= 0 else hidden // s.group_size
    g2 = 1 if s.group_size <= 0 else (inter_full if s.desc_act else inter) // s.group_size
    return [
        ("w13_qweight", e * (hidden // pack) * shards * inter * 4),
        ("w2_qweight", e * (inter // pack) * hidden * 4),
        ("scales", e * (g13 * shards * inter + g2 * hidden) * d),
        ("qzeros", e * (g13 * (shards * inter // pack) + g2 * (hidden // pack)) * d),
        ("g_idx", 2 * e * (hidden + inter) * 4),
    ]


def _gptq_experts_biased(
    s: Scheme, e: int, e_all: int, hidden: int, inter: int, inter_full: int, d: int, shards: int
) -> Params:
    """auto_gptq.py (0.27.0): zero points in int32, and biases whether the checkpoint has them or not."""
    sizes = dict(_gptq_experts(s, e, e_all, hidden, inter, inter_full, d, shards))
    sizes["qzeros"] = sizes["qzeros"] // d * 4
    return [*sizes.items(), ("w13_bias", e * shards * inter * d), ("w2_bias", e * hidden * d)]


def _gptq_experts_static(
    s: Scheme, e: int, e_all: int, hidden: int, inter: int, inter_full: int, d: int, shards: int
) -> Params:
    """auto_gptq.py:480 (0.32.0): activation order is refused, so there is no g_idx."""
    params = _gptq_experts_biased(s, e, e_all, hidden, inter, inter_full, d, shards)
    return [p for p in params if p[0] != "g_idx"]


def _awq_experts(
    s: Scheme, e: int, e_all: int, hidden: int, inter: int, inter_full: int, d: int, shards: int
) -> Params:
    """awq_marlin.py:508."""
    pack = 32 // s.bits
    g13, g2 = hidden // s.group_size, inter // s.group_size
    return [
        ("w13_qweight", e * hidden * (shards * inter // pack) * 4),
        ("w2_qweight", e * inter * (hidden // pack) * 4),
        ("scales", e * (g13 * shards * inter + g2 * hidden) * d),
        ("qzeros", e * (g13 * (shards * inter // pack) + g2 * (hidden // pack)) * 4),
    ]


_EXPERTS: tuple[ExpertsOf, ...] = (
    ExpertsOf("awq", "", _awq_experts),
    ExpertsOf("gptq", "", _gptq_experts_static, since="0.30.0"),
    ExpertsOf("gptq", "", _gptq_experts_biased, since="0.27.0"),
    ExpertsOf("gptq", "", _gptq_experts),
    ExpertsOf("fp8", "", _refined_fp8_experts, since="0.29.0"),
    ExpertsOf("fp8", "", _fp8_experts),
    ExpertsOf("modelopt", "", _fp8_experts),
    ExpertsOf("modelopt_fp4", "", _nvfp4_experts),
    ExpertsOf("mxfp4", "", _mxfp4_experts),
    ExpertsOf("compressed-tensors", "pack-quantized", _wna16_experts_static, since="0.30.0"),
    ExpertsOf("compressed-tensors", "pack-quantized", _wna16_experts_zeros, since="0.24.0"),
    ExpertsOf("compressed-tensors", "pack-quantized", _wna16_experts),
    ExpertsOf("bitsandbytes", "", _bitsandbytes_experts),
    ExpertsOf("compressed-tensors", "float-quantized", _fp8_experts),
    ExpertsOf("compressed-tensors", "int-quantized", _int8_experts),
    ExpertsOf("compressed-tensors", "nvfp4-pack-quantized", _ct_nvfp4_experts),
    ExpertsOf("compressed-tensors", "mxfp4-pack-quantized", _mxfp4_experts),
)


def kv_scales(method: str, d: int, kv: str = "") -> int:
    """Bytes of the loadable scales that a quantisation config gives every attention layer: q, k, v and probability in
    the model's dtype (kv_cache.py:33); compressed-tensors three float32 scales and three zero points
    (compressed_tensors.py:1009)."""
    if method == "compressed-tensors":
        return 3 * 4 + 3 * d
    if method == "modelopt_mixed" and not kv:  # modelopt.py:1818 (0.32.0): only where the config names a KV dtype
        return 0
    return 4 * d if method in _KV_SCALE_METHODS else 0


def mla_kv_scales(method: str, d: int) -> int:
    """fp8.py and compressed_tensors.py ask for the class Attention, which latent attention is not; modelopt.py takes
    both."""
    return 0 if method in ("fp8", "compressed-tensors", "modelopt_mixed") else kv_scales(method, d)


_KV_SCALE_METHODS = frozenset({"fp8", "modelopt", "modelopt_fp4", "modelopt_mixed", "modelopt_mxfp8"})
