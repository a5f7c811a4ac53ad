"""A checkpoint's quantisation as one release reads it: the Model that the rest of a plan works with."""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache

from msgspec.structs import replace

from oomph.engines.vllm.traits import Traits, traits_of
from oomph.facts.dtypes import BLOCKS
from oomph.facts.vllm.facts import Facts
from oomph.facts.vllm.known import GGUF
from oomph.ir import Block, Experts, Layer, Linear, Model, Module, Param, Scheme, Tower


@lru_cache(maxsize=64)
def as_read(traits: Traits, facts: Facts, sm: int) -> Traits:
    quantization = traits.model.quantization
    if quantization is None:
        return traits
    if quantization.method == GGUF:
        return traits_of(as_created(traits.model))
    return traits_of(_unquantised(traits.model) if quantization.ignored else _changed(traits.model, facts, sm))


def _unquantised(model: Model) -> Model:
    plain = _each(model, lambda m: m if isinstance(m, Param) else replace(m, scheme=None))
    note = "its quantisation config names no method: vLLM ignores it and builds the weights unquantised"
    return replace(plain, quantization=None, warnings=(*plain.warnings, note))


def _changed(model: Model, facts: Facts, sm: int) -> Model:
    readings = {(r.method, r.format): r.becomes for r in facts.readings.schemes}
    habits = facts.structure.habits(sm)

    def read(scheme: Scheme | None) -> Scheme | None:
        return scheme if scheme is None else readings.get((scheme.method, scheme.format), scheme)

    def module(built: Module) -> Module:
        if isinstance(built, Param):
            return built
        own = built.other if isinstance(built, Experts) and built.only and built.only not in habits else built.scheme
        if isinstance(built, Linear) and built.quantised_by and built.quantised_by not in habits:
            own = None
        scheme = read(own)
        return built if scheme is built.scheme else replace(built, scheme=scheme)

    changed = _each(model, module)
    if changed is not model and _has_quantised_experts(model) and not _has_quantised_experts(changed):
        return replace(changed, warnings=(*changed.warnings, EXPERTS_MISSED))
    return changed


EXPERTS_MISSED = (
    "the names of the experts in its quantisation config are not those that this release asks for: it builds them "
    "unquantised"
)


def _has_quantised_experts(model: Model) -> bool:
    blocks = {layer.block for layer in model.layers}
    return any(isinstance(m, Experts) and m.scheme is not None for block in blocks for m in block.modules)


def _each(model: Model, change: Callable[[Module], Module]) -> Model:
    """Blocks that do not change stay the same objects; the model too where none does."""

    @cache
    def block(built: Block) -> Block:
        modules = tuple(change(module) for module in built.modules)
        same = all(new is old for new, old in zip(modules, built.modules, strict=True))
        return built if same else replace(built, modules=modules)

    def layers(of: tuple[Layer, ...]) -> tuple[Layer, ...]:
        changed = tuple(x if block(x.block) is x.block else replace(x, block=block(x.block)) for x in of)
        return of if all(new is old for new, old in zip(changed, of, strict=True)) else changed

    def tower(built: Tower) -> Tower:
        changed = tuple((times, block(b)) for times, b in built.blocks)
        same = all(new[1] is old[1] for new, old in zip(changed, built.blocks, strict=True))
        return built if same else replace(built, blocks=changed)

    main, drafts, towers = layers(model.layers), layers(model.drafts), tuple(tower(t) for t in model.towers)
    root, draft_root = block(model.root), block(model.draft_root)
    same = main is model.layers and drafts is model.drafts and root is model.root and draft_root is model.draft_root
    if same and all(new is old for new, old in zip(towers, model.towers, strict=True)):
        return model
    return replace(model, layers=main, drafts=drafts, towers=towers, root=root, draft_root=draft_root)


# A GGUF file's tensors as vLLM keeps them: in the file's own types, cut between ranks, merged with padding.
#
# model_executor/layers/quantization/gguf.py (0.21.0): `GGUFLinearMethod` and `GGUFEmbeddingMethod` materialise the
# bytes of the file; `_create_padded_weight_param` lays the parts of a merged layer below each other and pads every row
# to the widest. Norms and biases are in the model's dtype.

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
