"""Bytes that one token takes in one layer's cache, by --kv-cache-dtype (v1/kv_cache_interface.py page sizes)."""

from oomph.errors import UnknownCache
from oomph.units import cdiv

_WIDTH = {"bfloat16": 2, "float16": 2, "float32": 4, "uint8": 1}

# model_executor/layers/quantization/turboquant/config.py: bits of keys (0 = fp8) and of values
TURBOQUANT = {
    "turboquant_k8v4": (0, 4),
    "turboquant_4bit_nc": (4, 4),
    "turboquant_k3v4_nc": (3, 4),
    "turboquant_3bit_nc": (3, 3),
}


def width(dtype: str) -> int:
    try:
        return _WIDTH[dtype]
    except KeyError:
        raise UnknownCache(f"a KV cache of dtype {dtype!r} is not known") from None


def token_bytes(kv_dtype: str, dtype: str, heads: int, key_dim: int, value_dim: int) -> int:
    """`heads` KV heads of a rank with keys of `k` and values of `v` elements (v = 0: one latent vector, MLA)."""
    if kv_dtype == "auto":
        return heads * (key_dim + value_dim) * width(dtype)
    if kv_dtype in ("float16", "bfloat16"):
        return heads * (key_dim + value_dim) * 2
    if kv_dtype in ("fp8_per_token_head", "int8_per_token_head"):
        return heads * (key_dim + value_dim + 8)  # a fp32 scale each for K and V
    if kv_dtype == "int4_per_token_head":
        return heads * ((key_dim + value_dim) // 2 + 8)
    if kv_dtype in ("nvfp4", "nvfp4_4over6"):
        return heads * (
            key_dim // 2 + key_dim // 16 + value_dim // 2 + value_dim // 16
        )  # two values a byte, one fp8 scale per 16
    if kv_dtype in TURBOQUANT:
        return heads * _turboquant_slot(kv_dtype, key_dim)
    if kv_dtype.startswith("fp8"):
        return heads * (key_dim + value_dim)
    raise UnknownCache(f"a KV cache of dtype {kv_dtype!r} is not known")


def _turboquant_slot(kv_dtype: str, head: int) -> int:
    key_bits, value_bits = TURBOQUANT[kv_dtype]
    key = head if key_bits == 0 else cdiv(head * key_bits, 8) + 2
    value = cdiv(head * value_bits, 8) + 4
    return (key + value + 1) // 2 * 2
