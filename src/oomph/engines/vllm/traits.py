"""What the settings and the KV cache ask of a Model, computed once per model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oomph.ir.model import Attention, Experts, Layer, Linear, Mixer, Model, Scheme, State, Tower


class Traits(Struct, frozen=True):
    """`mixers`: the distinct ones in order of appearance; `rows`: per layer, indices into them."""

    mixers: tuple[Mixer, ...]
    rows: tuple[tuple[int, ...], ...]
    draft_rows: tuple[tuple[int, ...], ...]
    positions: tuple[tuple[int, ...], ...]  # per mixer, the layers that have it (not the drafts')
    first_layers: tuple[int, ...]  # per mixer; 0 where only drafts have it
    is_hybrid: bool
    has_state: bool
    is_moe: bool
    is_mla: bool
    topk: int  # sparse latent attention: what the indexer keeps; layers without one use the choice of another
    chunk: int  # chunked-local attention anywhere
    head_size: int  # model_config.get_head_size()
    num_kv_heads: int
    max_head: int
    head_sizes: tuple[int, ...]
    blocked: tuple[Linear | Experts, ...]  # block-quantised FP8 modules, distinct shapes, in the order they are built
    tower_blocked: tuple[tuple[int, Linear], ...]  # the same of encoders, with their heads
    packed: tuple[tuple[int, Linear], ...]  # the same for packed integer weights, with the first layer that has each
    packed_experts: tuple[Experts, ...]
    tower_packed: tuple[tuple[Tower, Linear], ...]


_cache: dict[int, tuple[Model, Traits]] = {}


def traits_of(model: Model) -> Traits:
    """Cached by identity: hashing a model costs more than all else."""
    hit = _cache.get(id(model))
    if hit is not None and hit[0] is model:
        return hit[1]
    if len(_cache) >= 64:
        _cache.clear()
    made = _facts(model)
    _cache[id(model)] = (model, made)
    return made


_drafting: dict[tuple[int, int, bool], tuple[Model, Model, Model]] = {}


def drafting(model: Model, draft: Model, *, after: bool) -> Model:
    """The model with another one's layers as its drafts; `after`: they are numbered on from its own (EAGLE)."""
    key = (id(model), id(draft), after)
    hit = _drafting.get(key)
    if hit is not None and hit[0] is model and hit[1] is draft:
        return hit[2]
    if len(_drafting) >= 64:
        _drafting.clear()
    first = len(model.layers) if after else 0
    made = replace(model, drafts=tuple(replace(layer, index=first + layer.index) for layer in draft.layers))
    _drafting[key] = (model, draft, made)
    return made


def _facts(model: Model) -> Traits:
    table: dict[Mixer, int] = {}

    def rows(layers: tuple[Layer, ...]) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(table.setdefault(m, len(table)) for m in layer.mixers) for layer in layers)

    main, drafts = rows(model.layers), rows(model.drafts)
    mixers = tuple(table)
    used = {i for row in main for i in row}
    attention = [m for i, m in enumerate(mixers) if i in used and isinstance(m, Attention)]
    states = [m for i, m in enumerate(mixers) if i in used and isinstance(m, State)]
    first = attention[0] if attention else None
    positions = tuple(tuple(n for n, row in enumerate(main) for j in row if j == i) for i in range(len(mixers)))
    heads = tuple(sorted({m.head_dim for m in attention if m.kind != "mla"}))
    return Traits(
        mixers=mixers,
        rows=main,
        draft_rows=drafts,
        positions=positions,
        first_layers=tuple(p[0] if p else 0 for p in positions),
        is_hybrid=bool(attention and states),
        has_state=bool(states),
        is_moe=any(isinstance(x, Experts) for layer in model.layers for x in layer.block.modules),
        is_mla=any(m.kind == "mla" for m in attention),
        topk=max((m.indexer.top_k for m in attention if m.kind == "mla" and m.indexer), default=0),
        chunk=max((m.chunk for m in attention), default=0),
        head_size=_model_head(model, first, heads),
        num_kv_heads=model.num_kv_heads or (first.num_kv_heads if first else 0),
        max_head=max(heads, default=0),
        head_sizes=heads,
        blocked=_blocked(model),
        tower_blocked=tuple(
            (t.num_heads, m)
            for t in model.towers
            for _, block in t.blocks
            for m in block.modules
            if isinstance(m, Linear) and _is_blocked(m)
        ),
        packed=_packed(model),
        tower_packed=tuple(
            (t, m)
            for t in model.towers
            for _, block in t.blocks
            for m in block.modules
            if isinstance(m, Linear) and m.scheme is not None and _is_packed(m.scheme)
        ),
        packed_experts=tuple(
            dict.fromkeys(
                m
                for block in dict.fromkeys(layer.block for layer in model.layers)
                for m in block.modules
                if isinstance(m, Experts) and m.scheme is not None and m.scheme.format == "pack-quantized"
            )
        ),
    )


def _blocked(model: Model) -> tuple[Linear | Experts, ...]:
    seen: dict[tuple[object, ...], Linear | Experts] = {}
    for block in dict.fromkeys(layer.block for layer in model.layers):
        for m in block.modules:
            if isinstance(m, Linear | Experts) and _is_blocked(m):
                size = (m.in_features, m.parts, m.shard) if isinstance(m, Linear) else (m.hidden, m.intermediate)
                seen.setdefault((type(m), size), m)
    return tuple(seen.values())


def _is_blocked(m: Linear | Experts) -> bool:
    s = m.scheme
    return s is not None and s.strategy == "block" and all(s.block) and s.method in ("fp8", "compressed-tensors")


def _packed(model: Model) -> tuple[tuple[int, Linear], ...]:
    seen: dict[tuple[object, ...], tuple[int, Linear]] = {}
    first: dict[int, Layer] = {}
    for layer in model.layers:
        first.setdefault(id(layer.block), layer)
    for layer in first.values():
        for m in layer.block.modules:
            if isinstance(m, Linear) and m.scheme is not None and _is_packed(m.scheme):
                seen.setdefault((m.in_features, m.parts, m.shard), (layer.index, m))
    return tuple(seen.values())


def _is_packed(s: Scheme) -> bool:
    """Integer weights that a mixed-precision kernel unpacks. GPTQ with zero points has kernels of its own."""
    return s.format == "pack-quantized" or s.method == "awq" or (s.method == "gptq" and s.symmetric)


def _model_head(model: Model, first: Attention | None, heads: tuple[int, ...]) -> int:
    if model.architecture.startswith("Gemma4") and heads:  # Gemma4ModelArchConfigConvertor.get_head_size
        return heads[-1]
    return head_size(first) if first else 0


def head_size(m: Attention, rope: int = 0) -> int:
    """MLA caches the compressed latent and the rotary key; DeepSeek-V4 one head."""
    if m.kind != "mla":
        return m.head_dim
    return m.kv_lora_rank + (rope or m.qk_rope_head_dim) if m.kv_lora_rank else m.head_dim


def text_only(model: Model, flags: Mapping[str, Any]) -> bool:
    """No multimodal input at all: by flag, or by limits of 0 for every modality the model has."""
    if not model.towers or flags.get("language_model_only"):
        return True
    names = {m.name for m in model.modalities} or {t.modality.replace("vision", "image") for t in model.towers}
    return not any(items_allowed(flags, name) for name in names)


def items_allowed(flags: Mapping[str, Any], modality: str) -> bool:
    """--limit-mm-per-prompt: a number, or options with a count, for each modality; what it does not name is allowed."""
    limits = flags.get("limit_mm_per_prompt")
    limit = limits.get(modality) if isinstance(limits, Mapping) else None
    return (limit.get("count") if isinstance(limit, Mapping) else limit) != 0
