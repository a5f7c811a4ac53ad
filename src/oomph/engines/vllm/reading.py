"""A checkpoint's quantisation as one release reads it: the Model that the rest of a plan works with."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache

from msgspec.structs import replace

from oomph.engines.vllm.gguf_layers import as_created
from oomph.engines.vllm.traits import Traits, traits_of
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
    known = facts.structure.habits(sm)

    def read(scheme: Scheme | None) -> Scheme | None:
        return scheme if scheme is None else readings.get((scheme.method, scheme.format), scheme)

    def module(built: Module) -> Module:
        if isinstance(built, Param):
            return built
        own = built.other if isinstance(built, Experts) and built.only and built.only not in known else built.scheme
        if isinstance(built, Linear) and built.quantised_by and built.quantised_by not in known:
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
