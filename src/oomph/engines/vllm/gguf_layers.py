"""A GGUF file's tensors as vLLM keeps them: in the file's own types, cut between ranks, merged with padding.

model_executor/layers/quantization/gguf.py (0.21.0): `GGUFLinearMethod` and `GGUFEmbeddingMethod` materialise the bytes
of the file; `_create_padded_weight_param` lays the parts of a merged layer below each other and pads every row to the
widest. Norms and biases are in the model's dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from msgspec.structs import replace

from oomph.facts.dtypes import BLOCKS
from oomph.ir import Block, Layer, Model, Module, Param

_MERGED = (("attn_q.weight", "attn_k.weight", "attn_v.weight"), ("ffn_gate.weight", "ffn_up.weight"))
_ROWS = frozenset(("token_embd.weight", "output.weight", *(name for names in _MERGED for name in names)))
_COLUMNS = frozenset(("attn_output.weight", "ffn_down.weight"))


def as_created(model: Model) -> Model:
    @cache
    def block(one: Block) -> Block:
        modules = tuple(map(_created, one.modules))
        return Block((*modules, *_padding(modules)))

    def layers(of: tuple[Layer, ...]) -> tuple[Layer, ...]:
        return tuple(replace(layer, block=block(layer.block)) for layer in of)

    return replace(model, root=block(model.root), layers=layers(model.layers), drafts=layers(model.drafts))


def _is_quantised(dtype: str) -> bool:
    return BLOCKS[dtype][0] > 2  # a block of several weights with a scale of its own


def _created(module: Module) -> Module:
    if not isinstance(module, Param):
        return module
    dimension = 0 if module.name in _ROWS else 1 if module.name in _COLUMNS else None
    dtype = module.dtype if module.dtype in BLOCKS and _is_quantised(module.dtype) else ""
    return replace(module, created_dtype=dtype, shard_dim=dimension)


def _padding(modules: Sequence[Module]) -> list[Param]:
    """What the rows of narrower types are filled up with in each merged layer."""
    params = {module.name: module for module in modules if isinstance(module, Param) and len(module.shape) == 2}
    padding = []
    for names in _MERGED:
        parts = [params[name] for name in names if name in params and params[name].created_dtype]
        if len(parts) != len(names):
            continue
        widths = [_row_bytes(part) for part in parts]
        size = sum(part.shape[0] * (max(widths) - width) for part, width in zip(parts, widths, strict=True))
        if size:
            name = f"{names[0].partition('.')[0]}.padding"
            padding.append(Param(name, (size,), "U8", parts[0].role, shard_dim=0, stored=False, created_dtype="U8"))
    return padding


def _row_bytes(part: Param) -> int:
    elements, size = BLOCKS[part.dtype]
    return part.shape[1] // elements * size
