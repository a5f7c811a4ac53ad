"""llama-quantize's mixtures: which type each tensor gets (src/llama-quant.cpp, llama_tensor_get_type, b11739).

A row of MIXTURES is a quantisation by its name in file names. Its rules answer for a category of tensors; where there
is no rule the base type holds.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct

Category = Literal[
    "output", "token_embd", "attn_v", "attn_k", "attn_q", "attn_output", "ffn_up", "ffn_gate", "ffn_down", "other"
]


class About(Struct, frozen=True):
    """The model that is quantised."""

    layers: int
    experts: int  # 0 = dense
    gqa: int  # heads per KV head
    type_70b: bool = False  # LLM_TYPE_70B
    imatrix: bool = True
    # Queries, keys and values in one tensor: a rule of their own (FUSED), or since PR 19770 (March 2026) the values'.
    fused_as_values: bool = True


Rule = Callable[[int, int, About], str]  # (index, of how many, model) -> type, "" = the base type


def more_bits(i: int, n: int) -> bool:
    return i < n // 8 or i >= 7 * n // 8 or (i - n // 8) % 3 == 2


def always(kind: str) -> Rule:
    return lambda i, n, m: kind


def bits(kind: str) -> Rule:
    return lambda i, n, m: kind if more_bits(i, n) else ""


def eighth(kind: str, other: str = "") -> Rule:
    return lambda i, n, m: kind if i < n // 8 else other


def middle(kind: str) -> Rule:
    return lambda i, n, m: kind if n // 8 <= i < 7 * n // 8 else ""


def gqa4(kind: str, other: str = "") -> Rule:
    return lambda i, n, m: kind if m.gqa >= 4 else other


def gqa4_or_experts(kind: str, other: str) -> Rule:
    return lambda i, n, m: kind if m.gqa >= 4 or m.experts >= 4 else other


def first(count: int, kind: str, other: str = "") -> Rule:
    return lambda i, n, m: kind if i < count else other


def plain(rule: Rule) -> Rule:
    """Only without an importance matrix."""
    return lambda i, n, m: "" if m.imatrix else rule(i, n, m)


def guarded(kind: str) -> Rule:
    """With an importance matrix: "guard against craziness in the first few ffn_down layers"."""
    return lambda i, n, m: kind if m.imatrix and i < n // 8 else ""


class Mixture(Struct, frozen=True):
    base: str
    rules: dict[Category, Rule] = {}
    output: str = "Q6_K"  # the output head, or the embedding that serves as one
    low: bool = False  # IQ1 and IQ2: a chain of rules of their own
    expert8: str = "Q5_K"  # attn_output of models with exactly eight experts; "" = as others


def _low(base: str, wide: str, attention: str, embd: str) -> Mixture:
    return Mixture(
        base,
        {"token_embd": always(embd), "attn_v": gqa4_or_experts("Q4_K", wide), "ffn_down": eighth(wide),
         "attn_output": always(attention) if attention else always("")},
        output="Q5_K", low=True,
    )  # fmt: skip


MIXTURES: Final[dict[str, Mixture]] = {
    "F32": Mixture("F32"), "F16": Mixture("F16"), "BF16": Mixture("BF16"),
    "Q8_0": Mixture("Q8_0", output="Q8_0", expert8=""),
    "Q4_0": Mixture("Q4_0", {"ffn_down": guarded("Q4_1")}, expert8=""), "Q4_1": Mixture("Q4_1", expert8=""),
    "Q5_0": Mixture("Q5_0", {"ffn_down": guarded("Q5_1")}, expert8=""), "Q5_1": Mixture("Q5_1", expert8=""),
    "Q2_K": Mixture("Q2_K", {
        "attn_v": gqa4("Q4_K", "Q3_K"), "ffn_down": always("Q3_K"), "attn_output": always("Q3_K"),
    }),
    "Q2_K_S": Mixture("Q2_K", {"attn_v": gqa4("Q4_K"), "ffn_down": eighth("Q4_K")}, expert8=""),
    "Q3_K_S": Mixture("Q3_K"),
    "Q3_K_M": Mixture("Q3_K", {
        "attn_v": first(2, "Q5_K", "Q4_K"), "attn_output": always("Q4_K"),
        "ffn_down": lambda i, n, m: "Q5_K" if i < n // 16 else "Q4_K",
    }),
    "Q3_K_L": Mixture("Q3_K", {"attn_v": always("Q5_K"), "ffn_down": always("Q5_K"), "attn_output": always("Q5_K")},
                      expert8=""),
    "Q4_K_S": Mixture("Q4_K", {"attn_v": first(4, "Q5_K"), "ffn_down": eighth("Q5_K")}),
    "Q4_K_M": Mixture("Q4_K", {"attn_v": bits("Q6_K"), "ffn_down": bits("Q6_K")}),
    "Q5_K_S": Mixture("Q5_K", expert8=""),
    "Q5_K_M": Mixture("Q5_K", {"attn_v": bits("Q6_K"), "ffn_down": bits("Q6_K")}, expert8=""),
    "Q6_K": Mixture("Q6_K", expert8=""),
    "IQ1_S": _low("IQ1_S", "Q2_K", "IQ2_XXS", "Q2_K"), "IQ1_M": _low("IQ1_M", "Q2_K", "IQ2_XXS", "Q2_K"),
    "IQ2_XXS": _low("IQ2_XXS", "Q2_K", "", "Q2_K"), "IQ2_XS": _low("IQ2_XS", "Q2_K", "", "Q2_K"),
    "IQ2_S": _low("IQ2_XS", "IQ3_S", "IQ3_S", "IQ3_S"), "IQ2_M": _low("IQ2_S", "IQ3_S", "IQ3_S", "IQ3_S"),
    "IQ3_XXS": Mixture("IQ3_XXS", {
        "token_embd": always("IQ3_S"), "attn_v": lambda i, n, m: "Q4_K" if m.gqa >= 4 else "" if m.imatrix else "IQ3_S",
        "attn_k": always("IQ2_S"), "attn_q": always("IQ2_S"), "attn_output": always("IQ3_S"),
        "ffn_down": plain(eighth("Q4_K", "Q3_K")),
    }, output="Q5_K"),
    "IQ3_XS": Mixture("IQ3_S", {
        "attn_v": gqa4("Q4_K"), "attn_k": always("IQ3_XXS"), "attn_q": always("IQ3_XXS"),
        "ffn_gate": middle("IQ3_XXS"), "ffn_up": middle("IQ3_XXS"),
    }),
    "IQ3_S": Mixture("IQ3_S", {"attn_v": gqa4("Q4_K")}),
    "IQ3_M": Mixture("IQ3_S", {
        "attn_v": always("Q4_K"), "attn_output": always("Q4_K"),
        "ffn_down": lambda i, n, m: "Q4_K" if i < n // 8 or (m.experts == 8 and more_bits(i, n)) else "",
    }),
    "IQ4_NL": Mixture("IQ4_NL", {"attn_v": gqa4("Q5_K"), "ffn_down": plain(eighth("Q5_K"))}),
    "IQ4_XS": Mixture("IQ4_XS", {"attn_v": gqa4("Q5_K"), "ffn_down": plain(eighth("Q5_K"))}),
    "MXFP4": Mixture("MXFP4", output="Q8_0", expert8=""),  # experts MXFP4, everything else Q8_0
}  # fmt: skip
MIXTURES["MXFP4_MOE"] = MIXTURES["MXFP4"]

# attn_qkv before March 2026; the base type for the others
FUSED: Final = {"Q3_K_M": "Q4_K", "Q3_K_L": "Q4_K", "IQ3_M": "Q4_K", "Q4_K_M": "Q5_K", "Q5_K_M": "Q6_K"}

# Whose files were made before: HF architectures with fused projections, by how their names begin.
FUSED_BEFORE: Final = (
    "Phi", "Qwen3Next", "GPT", "Falcon", "Bloom", "MPT", "ChatGLM", "Bailing", "InternLM", "Baichuan",
)  # fmt: skip

# tensor_type_fallback: rows that do not fill a block of the wanted type
FALLBACK: Final[dict[str, str]] = {
    **dict.fromkeys(("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_XS"), "IQ4_NL"),
    "Q2_K": "Q4_0", "Q3_K": "Q4_0", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0",
}  # fmt: skip

# tensor_allows_quantization: what stays as it was converted
_KEPT: Final = ("_norm.weight", "ffn_gate_inp.weight", "altup", "laurel", "per_layer_model_proj", "ssm_conv1d",
                "shortconv.conv.weight", "time_mix_", "attn_rel_b", "position_embd", "token_types")  # fmt: skip


def quantizable(name: str, shape: tuple[int, ...]) -> bool:
    return len(shape) > 1 and name.endswith("weight") and not any(part in name for part in _KEPT)


# What names contain, the first that fits.
_CATEGORIES: tuple[tuple[Category, tuple[str, ...]], ...] = (
    ("attn_v", ("attn_qkv.weight", "attn_kv_b.weight", "attn_v.weight")),
    ("attn_k", ("attn_k.weight",)),
    ("attn_q", ("attn_q.weight",)),
    ("attn_output", ("attn_output.weight",)),
    ("ffn_up", ("ffn_up",)),
    ("ffn_gate", ("ffn_gate",)),
    ("ffn_down", ("ffn_down",)),
)


@lru_cache(maxsize=4096)
def category(name: str) -> Category:
    if name == "output.weight":
        return "output"
    if name in ("token_embd.weight", "per_layer_token_embd.weight"):
        return "token_embd"
    return next((kind for kind, parts in _CATEGORIES if any(part in name for part in parts)), "other")
