"""Tensors as converted -> tensors as llama-quantize leaves them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from oomph.engines.llamacpp.tensors import Tensor
from oomph.errors import CannotPlan
from oomph.facts.dtypes import BLOCKS
from oomph.facts.llamacpp.quantize import FALLBACK, FUSED, MIXTURES, About, Category, Mixture, category, quantizable
from oomph.late import late_pattern

_BLOCK = late_pattern(r"blk\.(\d+)\.")


def quantize(tensors: Sequence[Tensor], name: str, about: About) -> tuple[Tensor, ...]:
    """`name`: Q4_K_M and so on. Tensors that are MXFP4 already stay so."""
    mixture = MIXTURES.get(name.upper())
    if mixture is None:
        raise CannotPlan(
            f"the mixture of {name[:40]!r} is not llama-quantize's: its file says what it is",
            hint=f"known are {', '.join(MIXTURES)}",
        )
    tied = not any(tensor.name == "output.weight" for tensor in tensors)
    values = sum(category(tensor.name) == "attn_v" for tensor in tensors)
    seen: dict[Category, int] = {}
    out = []
    for tensor in sorted(tensors, key=_order):
        kind = category(tensor.name)
        if not quantizable(tensor.name, tensor.shape) or tensor.dtype == "MXFP4":
            out.append(tensor)
            continue
        if "attn_qkv.weight" in tensor.name and not about.fused_as_values:
            wanted = FUSED.get(name.upper(), mixture.base)
            out.append(
                replace(tensor, dtype=_fallback(wanted if BLOCKS[mixture.base][0] > 1 else mixture.base, tensor))
            )
            continue
        index = seen.get(kind, 0)
        seen[kind] = index + 1
        out.append(replace(tensor, dtype=_type(tensor, kind, index, mixture, about, tied, values)))
    return tuple(out)


def _order(tensor: Tensor) -> tuple[int, str]:
    """llama_model_loader's weights_map: by layer, then by name."""
    match = _BLOCK.match(tensor.name)
    return (int(match[1]) if match else -1, tensor.name)


def _type(tensor: Tensor, kind: Category, index: int, mixture: Mixture, about: About, tied: bool, values: int) -> str:
    base = mixture.base
    if BLOCKS[base][0] == 1:
        return base
    if base == "MXFP4":
        return "MXFP4" if len(tensor.shape) > 2 and "exps" in tensor.name else "Q8_0"
    if kind == "output" or (kind == "token_embd" and tied):
        wanted = "Q8_0" if tensor.shape[0] % BLOCKS[base][0] else mixture.output
        return _fallback(wanted, tensor)
    count = values if kind == "attn_v" else about.layers
    if about.experts > 1 and kind in ("ffn_down", "ffn_up", "ffn_gate") and not (mixture.low and kind == "ffn_down"):
        match = _BLOCK.match(tensor.name)
        index = int(match[1]) if match else index
    rule = mixture.rules.get(kind)
    wanted = (rule(index, count, about) if rule else "") or base
    return _fallback(_exceptions(wanted, kind, mixture, about), tensor)


def _exceptions(wanted: str, kind: Category, mixture: Mixture, about: About) -> str:
    if kind == "attn_v" and not mixture.low:
        if about.type_70b and wanted in ("Q3_K", "Q4_K"):
            wanted = "Q5_K"
        if about.experts == 8:
            wanted = "Q8_0"
    elif kind == "attn_k" and about.experts == 8:
        wanted = "Q4_K" if mixture.low else "Q8_0"
    elif kind == "attn_output" and about.experts == 8:
        wanted = mixture.expert8 or mixture.base
    return wanted


def _fallback(wanted: str, tensor: Tensor) -> str:
    if tensor.shape[0] % BLOCKS[wanted][0] == 0:
        return wanted
    second = FALLBACK.get(wanted, "F16")
    return second if tensor.shape[0] % BLOCKS[second][0] == 0 else "F16"
