"""A checkpoint's quantisation as one release reads it: the Model that the rest of a plan works with."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from oomph.facts.vllm.facts import Facts
from oomph.ir.model import Block, Experts, Layer, Linear, Model, Module, Param, Scheme, Tower

_found: dict[tuple[int, Facts, int], tuple[Model, Model]] = {}


def as_read(model: Model, facts: Facts, sm: int) -> Model:
    if model.quantization is None:
        return model
    key = (id(model), facts, sm)
    hit = _found.get(key)
    if hit is not None and hit[0] is model:
        return hit[1]
    if len(_found) >= 64:
        _found.clear()
    made = _unquantised(model) if model.quantization.ignored else _changed(model, facts, sm)
    _found[key] = (model, made)
    return made


def _unquantised(model: Model) -> Model:
    made = _each(model, lambda m: m if isinstance(m, Param) else replace(m, scheme=None))
    note = "its quantisation config names no method: vLLM ignores it and builds the weights unquantised"
    return replace(made, quantization=None, warnings=(*made.warnings, note))


def _changed(model: Model, facts: Facts, sm: int) -> Model:
    readings = {(r.method, r.format): r.becomes for r in facts.readings.schemes}
    known = facts.structure.habits(sm)

    def read(scheme: Scheme | None) -> Scheme | None:
        return scheme if scheme is None else readings.get((scheme.method, scheme.format), scheme)

    def module(m: Module) -> Module:
        if isinstance(m, Param):
            return m
        own = m.other if isinstance(m, Experts) and m.only and m.only not in known else m.scheme
        if isinstance(m, Linear) and m.quantised_by and m.quantised_by not in known:
            own = None
        scheme = read(own)
        return m if scheme is m.scheme else replace(m, scheme=scheme)

    return _each(model, module)


def _each(model: Model, change: Callable[[Module], Module]) -> Model:
    """Blocks that do not change stay the same objects; the model too where none does."""
    blocks: dict[int, Block] = {}

    def block(b: Block) -> Block:
        found = blocks.get(id(b))
        if found is None:
            modules = tuple(change(m) for m in b.modules)
            same = all(new is old for new, old in zip(modules, b.modules, strict=True))
            found = blocks[id(b)] = b if same else replace(b, modules=modules)
        return found

    def layers(of: tuple[Layer, ...]) -> tuple[Layer, ...]:
        made = tuple(x if block(x.block) is x.block else replace(x, block=block(x.block)) for x in of)
        return of if all(new is old for new, old in zip(made, of, strict=True)) else made

    def tower(t: Tower) -> Tower:
        made = tuple((times, block(b)) for times, b in t.blocks)
        return t if all(new[1] is old[1] for new, old in zip(made, t.blocks, strict=True)) else replace(t, blocks=made)

    main, drafts, towers = layers(model.layers), layers(model.drafts), tuple(tower(t) for t in model.towers)
    root, draft_root = block(model.root), block(model.draft_root)
    same = main is model.layers and drafts is model.drafts and root is model.root and draft_root is model.draft_root
    if same and all(new is old for new, old in zip(towers, model.towers, strict=True)):
        return model
    return replace(model, layers=main, drafts=drafts, towers=towers, root=root, draft_root=draft_root)
