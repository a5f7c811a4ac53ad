"""How each quantisation stores one linear layer in a checkpoint: a row per method and format.

A row gives the tensors of a linear layer of `n` output and `k` input features as (suffix, shape, dtype). Suffixes and
layouts are those of the writers: AutoAWQ, AutoGPTQ/GPTQModel, llm-compressor, NVIDIA ModelOpt, bitsandbytes.
"""

from collections.abc import Callable

from oomph.errors import ConfigError
from oomph.ir import Scheme
from oomph.units import cdiv

Tensors = list[tuple[str, tuple[int, ...], str]]


def linear_tensors(scheme: Scheme | None, n: int, k: int, dtype: str, bias: bool = False) -> Tensors:
    plain: Tensors = [(".bias", (n,), dtype)] if bias else []
    if scheme is None:
        return [(".weight", (n, k), dtype), *plain]
    row = _ROWS.get((scheme.method, scheme.format)) or _ROWS.get((scheme.method, ""))
    if row is None:
        raise ConfigError(f"how {scheme.method} {scheme.format} stores a linear layer is not known")
    return [*row(scheme, n, k, dtype), *plain]


def _groups(scheme: Scheme, k: int) -> int:
    return 1 if scheme.group_size <= 0 else cdiv(k, scheme.group_size)


def _packed(n: int, bits: int) -> int:
    """int32 words for n values of `bits` bits."""
    return cdiv(n * bits, 32)


def _awq(scheme: Scheme, n: int, k: int, dtype: str) -> Tensors:
    groups = _groups(scheme, k)
    return [
        (".qweight", (k, _packed(n, scheme.bits)), "I32"),
        (".qzeros", (groups, _packed(n, scheme.bits)), "I32"),
        (".scales", (groups, n), scheme.scale_dtype or "F16"),
    ]


def _gptq(scheme: Scheme, n: int, k: int, dtype: str) -> Tensors:
    groups = _groups(scheme, k)
    return [
        (".qweight", (_packed(k, scheme.bits), n), "I32"),
        (".qzeros", (groups, _packed(n, scheme.bits)), "I32"),
        (".scales", (groups, n), scheme.scale_dtype or "F16"),
        (".g_idx", (k,), "I32"),
    ]


def _auto_round(scheme: Scheme, n: int, k: int, dtype: str) -> Tensors:
    """AutoRound has no activation order, so it writes no g_idx."""
    return [t for t in _gptq(scheme, n, k, dtype) if t[0] != ".g_idx"]


def _fbgemm_fp8(scheme: Scheme, n: int, k: int, dtype: str) -> Tensors:
    return [(".weight", (n, k), "F8_E4M3"), (".weight_scale", (n, 1), "F32")]


def _fp8(scheme: Scheme, n: int, k: int, dtype: str) -> Tensors:
    if scheme.strategy == "block":
        scales = (cdiv(n, scheme.block[0]), cdiv(k, scheme.block[1]))
        return [(".weight", (n, k), "F8_E4M3"), (".weight_scale_inv", scales, scheme.scale_dtype or "F32")]
    tensors: Tensors = [(".weight", (n, k), "F8_E4M3"), (".weight_scale", (), scheme.scale_dtype or "F32")]
    return [*tensors, (".input_scale", (), scheme.scale_dtype or "F32")] if scheme.activation == "static" else tensors


def _modelopt_fp8(scheme: Scheme, n: int, k: int, dtype: str) -> Tensors:
    weight: Tensors = [(".weight", (n, k), "F8_E4M3")]
    if scheme.strategy == "block":
        return [*weight, (".weight_scale", (cdiv(n, scheme.block[0]), 1, cdiv(k, scheme.block[1]), 1), "F32")]
    if scheme.strategy == "channel":
        return [*weight, (".weight_scale", (n,), "F32")]
    return [*weight, (".weight_scale", (), "F32"), (".input_scale", (), "F32")]


def _modelopt_fp4(scheme: Scheme, n: int, k: int, dtype: str) -> Tensors:
    tensors: Tensors = [
        (".weight", (n, k // 2), "U8"),
        (".weight_scale", (n, k // scheme.group_size), "F8_E4M3"),
        (".weight_scale_2", (), "F32"),
    ]
    return [*tensors, (".input_scale", (), "F32")] if scheme.input_bits < 16 else tensors


def _ct_packed(scheme: Scheme, n: int, k: int, dtype: str) -> Tensors:
    groups = _groups(scheme, k)
    tensors: Tensors = [
        (".weight_packed", (n, _packed(k, scheme.bits)), "I32"),
        (".weight_scale", (n, groups), scheme.scale_dtype or dtype),
        (".weight_shape", (2,), "I64"),
    ]
    if not scheme.symmetric:
        tensors.append((".weight_zero_point", (_packed(n, scheme.bits), groups), "I32"))
    if scheme.desc_act:
        tensors.append((".weight_g_idx", (k,), "I32"))
    return tensors


def _ct_scaled(scheme: Scheme, n: int, k: int, dtype: str) -> Tensors:
    """float-quantized (FP8), int- and naive-quantized (INT8): one byte a weight, scales in the model's dtype."""
    shape: tuple[int, ...] = {
        "tensor": (1,),
        "channel": (n, 1),
        "group": (n, _groups(scheme, k)),
        "block": (cdiv(n, scheme.block[0] or 128), cdiv(k, scheme.block[1] or 128)),
    }[scheme.strategy]
    tensors: Tensors = [
        (".weight", (n, k), "F8_E4M3" if scheme.kind == "float" else "I8"),
        (".weight_scale", shape, scheme.scale_dtype or dtype),
    ]
    return [*tensors, (".input_scale", (1,), scheme.scale_dtype or dtype)] if scheme.activation == "static" else tensors


def _ct_nvfp4(scheme: Scheme, n: int, k: int, dtype: str) -> Tensors:
    tensors: Tensors = [
        (".weight_packed", (n, k // 2), "U8"),
        (".weight_scale", (n, k // (scheme.group_size or 16)), "F8_E4M3"),
        (".weight_global_scale", (1,), "F32"),
    ]
    return [*tensors, (".input_global_scale", (1,), "F32")] if scheme.activation != "none" else tensors


def _ct_mxfp4(scheme: Scheme, n: int, k: int, dtype: str) -> Tensors:
    return [(".weight_packed", (n, k // 2), "U8"), (".weight_scale", (n, k // 32), "U8")]


def _bitsandbytes(scheme: Scheme, n: int, k: int, dtype: str) -> Tensors:
    if scheme.bits == 8:
        return [(".weight", (n, k), "I8"), (".SCB", (n,), "F32")]
    blocks = cdiv(n * k, 64)
    return [
        (".weight", (n * k // 2, 1), "U8"),
        (".weight.absmax", (blocks,), "U8"),
        (".weight.nested_absmax", (cdiv(blocks, 256),), "F32"),
        (".weight.nested_quant_map", (256,), "F32"),
        (".weight.quant_map", (16,), "F32"),
    ]


def _modelopt_awq(scheme: Scheme, n: int, k: int, dtype: str) -> Tensors:
    return [
        (".weight", (n // 2, k), "U8"),
        (".weight_scale", (n, k // scheme.group_size), dtype),
        (".pre_quant_scale", (k,), dtype),
    ]


def _mxfp4(scheme: Scheme, n: int, k: int, dtype: str) -> Tensors:
    """DeepSeek-V4's experts: two values a byte and a power of two for each 32."""
    return [(".weight", (n, k // 2), "I8"), (".scale", (n, k // 32), "F8_E8M0")]


def _mxfp8(scheme: Scheme, n: int, k: int, dtype: str) -> Tensors:
    return [(".weight", (n, k), "F8_E4M3"), (".weight_scale", (n, k // 32), "U8")]


_ROWS: dict[tuple[str, str], Callable[[Scheme, int, int, str], Tensors]] = {
    ("awq", ""): _awq,
    ("gptq", ""): _gptq,
    ("gptq", "auto_round"): _auto_round,
    ("fbgemm_fp8", ""): _fbgemm_fp8,
    ("fp8", ""): _fp8,
    ("modelopt", ""): _modelopt_fp8,
    ("modelopt_fp4", ""): _modelopt_fp4,
    ("modelopt_awq", ""): _modelopt_awq,
    ("modelopt_mxfp8", ""): _mxfp8,
    ("compressed-tensors", "pack-quantized"): _ct_packed,
    ("compressed-tensors", "float-quantized"): _ct_scaled,
    ("compressed-tensors", "int-quantized"): _ct_scaled,
    ("compressed-tensors", "naive-quantized"): _ct_scaled,
    ("compressed-tensors", "nvfp4-pack-quantized"): _ct_nvfp4,
    ("compressed-tensors", "mxfp4-pack-quantized"): _ct_mxfp4,
    ("bitsandbytes", ""): _bitsandbytes,
    ("mxfp4", ""): _mxfp4,
}
