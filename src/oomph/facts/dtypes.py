"""How wide a dtype is, as (elements, bytes) of its smallest block: safetensors names and ggml types in one table.

The two name spaces overlap only where they agree (F32, F16, BF16, F64, I8 to I64).
"""

from typing import Final

from oomph.errors import InputError

# safetensors: bits per element (safetensors/src/tensor.rs, Dtype::bitsize). Sub-byte dtypes are packed: the element
# count times the bits must fill whole bytes.
BITS: Final[dict[str, int]] = {
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
    "F32": 32, "I32": 32, "U32": 32,
    "F16": 16, "BF16": 16, "I16": 16, "U16": 16,
    "I8": 8, "U8": 8, "BOOL": 8,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F6_E2M3": 6, "F6_E3M2": 6,
    "F4": 4,
}  # fmt: skip

# GGUF: id in the file -> name (ggml.h, enum ggml_type).
GGML: Final[dict[int, str]] = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1",
    10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K",
    16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS",
    24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 30: "BF16",
    34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4", 41: "Q1_0", 42: "Q2_0",
}  # fmt: skip

# Ids that ggml once had and no engine loads any more (same comment block of ggml.h).
GGML_REMOVED: Final[dict[int, str]] = {
    4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8",
    36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8",
}  # fmt: skip

# ggml type -> (elements of a block, bytes of a block): sizeof(block_*) in ggml-common.h.
_GGML_BLOCKS: Final[dict[str, tuple[int, int]]] = {
    "Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24), "Q8_0": (32, 34), "Q8_1": (32, 36),
    "Q2_K": (256, 84), "Q3_K": (256, 110), "Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210),
    "Q8_K": (256, 292),
    "IQ1_S": (256, 50), "IQ1_M": (256, 56), "IQ2_XXS": (256, 66), "IQ2_XS": (256, 74), "IQ2_S": (256, 82),
    "IQ3_XXS": (256, 98), "IQ3_S": (256, 110), "IQ4_NL": (32, 18), "IQ4_XS": (256, 136),
    "TQ1_0": (256, 54), "TQ2_0": (256, 66), "MXFP4": (32, 17), "NVFP4": (64, 36), "Q1_0": (128, 18),
    "Q2_0": (64, 18),
}  # fmt: skip


def _block(bits: int) -> tuple[int, int]:
    return {4: (2, 1), 6: (4, 3)}.get(bits) or (1, bits // 8)


BLOCKS: Final[dict[str, tuple[int, int]]] = {name: _block(bits) for name, bits in BITS.items()} | _GGML_BLOCKS

# What config.json calls a dtype (torch's names) -> what a header calls it.
TORCH: Final[dict[str, str]] = {
    "bfloat16": "BF16", "float16": "F16", "half": "F16", "float32": "F32", "float": "F32", "float64": "F64",
    "double": "F64", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8", "uint16": "U16",
    "uint32": "U32", "uint64": "U64", "bool": "BOOL", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0", "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float4_e2m1fn_x2": "F4",
}  # fmt: skip


def nbytes(dtype: str, elements: int) -> int:
    """Bytes of `elements` values; refused when they do not fill whole blocks, as the formats themselves refuse it."""
    block = BLOCKS.get(dtype)
    if block is None:
        raise InputError(f"dtype {dtype!r} is not one that safetensors or GGUF defines")
    blocks, rest = divmod(elements, block[0])
    if rest:
        raise InputError(f"{elements} values of {dtype} do not fill whole blocks of {block[0]}")
    return blocks * block[1]


def bits(dtype: str) -> float:
    """Bits per element: 16 for BF16, 4.5 for Q4_0."""
    elements, size = BLOCKS[dtype]
    return size * 8 / elements
