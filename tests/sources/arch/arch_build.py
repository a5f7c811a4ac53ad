"""What the family tests share: a model from a few config keys, and its tensors by name or counted by dtype."""

from __future__ import annotations

from collections import Counter
from typing import Any

from oomph.ir.model import Attention, Block, Mixer, Model
from oomph.sources.build import build_model
from oomph.sources.stored import module_tensors


def build(architecture: str, **config: Any) -> Model:
    return build_model("test/model", {"architectures": [architecture], **config})


def elements(model: Model) -> dict[str, int]:
    total: Counter[str] = Counter()
    for row in model.stored:
        total[row.dtype] += row.elements
    return dict(total)


def tensors(model: Model) -> dict[str, tuple[tuple[int, ...], str]]:
    """Every tensor of the checkpoint; experts and tower layers stand for all of their kind."""
    places: list[tuple[str, Block]] = [("", model.root), ("", model.draft_root)]
    places += [(f"{x.prefix}.", x.block) for x in (*model.layers, *model.drafts)]
    places += [(f"{t.prefix}." if t.prefix else "", block) for t in model.towers for _, block in t.blocks]
    return {
        prefix + name: (shape, dtype)
        for prefix, block in places
        for module in block.modules
        for name, shape, dtype, _, _ in module_tensors(module)
    }


def mixers(model: Model) -> list[Mixer]:
    return [m for layer in model.layers for m in layer.mixers]


def windows(model: Model) -> list[int]:
    return [m.window for m in mixers(model) if isinstance(m, Attention)]
