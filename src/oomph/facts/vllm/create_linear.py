"""What vLLM's quantisation methods create for one linear layer, before anything is loaded: a row per method.

Each row gives (parameter, bytes) pairs, in the order of `create_weights()`. A layer has output sizes `n` (one per fused
part, already divided by tensor parallelism), `k` input features on this rank and `k_full` over all ranks; `d` is the
byte width of the model's dtype. Files are model_executor/layers/quantization/* of 0.21.0; 0.32.0 has the same shapes
unless a row says otherwise.
"""

from collections.abc import Callable, Sequence

from oomph.facts.changes import Dated, changes
from oomph.ir import Scheme
from oomph.text.tables import all_that_hold
from oomph.units import cdiv

Params = list[tuple[str, int]]
LinearRow = Callable[[Scheme, Sequence[int], int, int, int], Params]


def _groups(scheme: Scheme, k: int, k_full: int) -> int:
    """Scale groups along the input of one rank. Act-order and channel-wise scales are whole on every rank of a
    row-parallel layer (marlin_utils.py marlin_repeat_scales_on_all_ranks)."""
    size = scheme.group_size if scheme.group_size > 0 else k_full
    row_parallel = k != k_full
    repeat = scheme.desc_act or (scheme.group_size <= 0 and row_parallel)
    return (k_full if repeat else k) // size


def _awq(scheme: Scheme, n: Sequence[int], k: int, k_full: int, dtype_bytes: int) -> Params:
    """awq_marlin.py:386; int32 words hold 32/bits values of the output dimension."""
    out, size = sum(n), scheme.group_size if scheme.group_size > 0 else k_full
    pack = 32 // scheme.bits
    return [
        ("qweight", k * (out // pack) * 4),
        ("qzeros", (k // size) * (out // pack) * 4),
        ("scales", (k // size) * out * dtype_bytes),
    ]


def _gptq(scheme: Scheme, n: Sequence[int], k: int, k_full: int, dtype_bytes: int) -> Params:
    """gptq_marlin.py:356. g_idx is created whatever desc_act says."""
    out, pack, groups = sum(n), 32 // scheme.bits, _groups(scheme, k, k_full)
    return [
        ("qweight", (k // pack) * out * 4),
        ("g_idx", k * 4),
        ("scales", groups * out * dtype_bytes),
        ("qzeros", groups * (out // pack) * 4),
    ]


def _gptq_static(scheme: Scheme, n: Sequence[int], k: int, k_full: int, dtype_bytes: int) -> Params:
    """auto_gptq.py (0.30.0): activation order is refused, so there is no g_idx."""
    return [p for p in _gptq(scheme, n, k, k_full, dtype_bytes) if p[0] != "g_idx"]


def _fp8(scheme: Scheme, n: Sequence[int], k: int, k_full: int, dtype_bytes: int) -> Params:
    """fp8.py Fp8LinearMethod, compressed_tensors_w8a8_fp8.py, utils/fp8_utils.py:1193: scales are float32."""
    out = sum(n)
    if scheme.strategy == "block":
        scales = (
            cdiv(out, scheme.block[0] or 128)
            * cdiv(k, scheme.block[1] or 128)
            * (1 if scheme.scale_dtype == "F8_E8M0" else 4)
        )
    else:
        scales = 4 * (out if scheme.strategy == "channel" else len(n))
    params = [("weight", out * k), ("weight_scale", scales)]
    return [*params, ("input_scale", 4 * len(n))] if scheme.activation == "static" else params


def _fbgemm_fp8(scheme: Scheme, n: Sequence[int], k: int, k_full: int, dtype_bytes: int) -> Params:
    """fbgemm_fp8.py:133: a float32 scale for each output feature and one upper bound."""
    return [("weight", sum(n) * k), ("weight_scale", 4 * sum(n)), ("input_scale_ub", 4)]


def _modelopt_fp8(scheme: Scheme, n: Sequence[int], k: int, k_full: int, dtype_bytes: int) -> Params:
    """modelopt.py: per-tensor FP8 always has an input scale; the other two strategies never."""
    out = sum(n)
    if scheme.strategy == "block":
        return [("weight", out * k), ("weight_scale", (out // 128) * (k // 128) * 4)]
    if scheme.strategy == "channel":
        return [("weight", out * k), ("weight_scale", 4 * out)]
    return [("weight", out * k), ("weight_scale", 4 * len(n)), ("input_scale", 4 * len(n))]


def _nvfp4(scheme: Scheme, n: Sequence[int], k: int, k_full: int, dtype_bytes: int) -> Params:
    """modelopt.py ModelOptNvFp4LinearMethod, compressed_tensors_w4a4_nvfp4.py: two global scales a part."""
    out = sum(n)
    globals_ = 4 * len(n)
    params = [
        ("weight", out * (k // 2)),
        ("weight_scale", out * (k // (scheme.group_size or 16))),
        ("weight_scale_2", globals_),
    ]
    return [*params, ("input_scale", globals_)] if scheme.activation != "none" else params


def _nvfp4_modelopt(scheme: Scheme, n: Sequence[int], k: int, k_full: int, dtype_bytes: int) -> Params:
    """modelopt.py: ModelOpt layers always have an input scale."""
    weight_only = [p for p in _nvfp4(scheme, n, k, k_full, dtype_bytes) if p[0] != "input_scale"]
    return [*weight_only, ("input_scale", 4 * len(n))]


def _nvfp4_w4a16(scheme: Scheme, n: Sequence[int], k: int, k_full: int, dtype_bytes: int) -> Params:
    """modelopt.py:2496 (0.32.0): a config without input activations means weight-only; the input scale is then a
    placeholder in the model's dtype."""
    params = _nvfp4_modelopt(scheme, n, k, k_full, dtype_bytes)
    return [
        (name, dtype_bytes * len(n) if name == "input_scale" and scheme.activation == "none" else size)
        for name, size in params
    ]


def _wna16(scheme: Scheme, n: Sequence[int], k: int, k_full: int, dtype_bytes: int) -> Params:
    """compressed_tensors_wNa16.py:84."""
    out, pack, groups = sum(n), 32 // scheme.bits, _groups(scheme, k, k_full)
    return all_that_hold(
        (True, ("weight_packed", out * (k // pack) * 4)),
        (True, ("weight_scale", out * groups * dtype_bytes)),
        (True, ("weight_shape", 16)),
        (not scheme.symmetric, ("weight_zero_point", (out // pack) * groups * 4)),
        (scheme.desc_act, ("weight_g_idx", k * 4)),
    )


def _int8(scheme: Scheme, n: Sequence[int], k: int, k_full: int, dtype_bytes: int) -> Params:
    """compressed_tensors_w8a8_int8.py."""
    out = sum(n)
    params = [("weight", out * k), ("weight_scale", 4 * (out if scheme.strategy == "channel" else len(n)))]
    return [*params, ("input_scale", 4)] if scheme.activation == "static" else params


def _mxfp4_linear(scheme: Scheme, n: Sequence[int], k: int, k_full: int, dtype_bytes: int) -> Params:
    return [("weight_packed", sum(n) * (k // 2)), ("weight_scale", sum(n) * (k // 32))]


def _mxfp8(scheme: Scheme, n: Sequence[int], k: int, k_full: int, dtype_bytes: int) -> Params:
    return [("weight", sum(n) * k), ("weight_scale", sum(n) * (k // 32))]


def _bitsandbytes(scheme: Scheme, n: Sequence[int], k: int, k_full: int, dtype_bytes: int) -> Params:
    """bitsandbytes.py: a 4-bit weight is created packed; its absmax states come with the load."""
    return [("weight", sum(n) * k // (2 if scheme.bits == 4 else 1))]


LINEAR: dict[tuple[str, str], Dated[LinearRow | None]] = {
    ("awq", ""): changes(_awq),
    ("gptq", ""): changes(_gptq, ("0.30.0", _gptq_static)),
    ("fbgemm_fp8", ""): changes(_fbgemm_fp8),
    ("fp8", ""): changes(_fp8),
    ("modelopt", ""): changes(_modelopt_fp8),
    ("modelopt_fp4", ""): changes(_nvfp4_modelopt, ("0.30.0", _nvfp4_w4a16)),
    ("modelopt_mxfp8", ""): changes(_mxfp8),
    ("compressed-tensors", "pack-quantized"): changes(_wna16),
    ("compressed-tensors", "float-quantized"): changes(_fp8),
    ("compressed-tensors", "naive-quantized"): changes(_fp8),
    ("compressed-tensors", "int-quantized"): changes(_int8),
    ("compressed-tensors", "nvfp4-pack-quantized"): changes(_nvfp4),
    ("compressed-tensors", "mxfp4-pack-quantized"): changes(_mxfp4_linear),
    ("bitsandbytes", ""): changes(_bitsandbytes),
}
