"""The multimodal encoder's share of profiling: its own peak, and what it leaves for the passes that follow."""

import sys
from math import prod

from msgspec import Struct

from oomph.engines.common.shard import outs
from oomph.engines.vllm.run import Run
from oomph.facts.dtypes import TORCH, nbytes
from oomph.facts.vllm.encoders import DEFAULT, MASK_MULTIPLE, PATCHES, Patches
from oomph.ir import Linear, Modality, Param, Tower

Sizes = tuple[int, ...]


class Encoder(Struct, frozen=True):
    peak: int = 0
    # the dummy batch and the outputs of the encoder, which live until profile_run returns (gpu_model_runner.py:6366)
    resident: int = 0
    outputs: int = 0  # of it, what the encoder cache keeps while serving
    skipped: bool = False  # --skip-mm-profiling: images come all the same
    embeds: bool = False  # the compiled model is given embeddings: their table is outside the graph
    traced: bool = False
    profiled: tuple[Sizes, ...] = ()  # tensors of a block, half by half, while profiling
    served: tuple[Sizes, ...] = ()  # the same for the largest batch of items that requests may bring

    @property
    def served_bytes(self) -> int:
        return max(map(sum, self.served), default=0)


_SIDE = 14
_PIXELS = 3 * _SIDE * _SIDE  # of a patch where the tower has no convolution to read its size from


def encoder(run: Run) -> Encoder:
    """multimodal/encoder_budget.py: as many items of the most expensive modality as the budget holds.

    A block holds its attention's tensors or the MLP's widest pair for every patch (facts/vllm/encoders.py), beside the
    pixels (multimodal/processing/context.py:231, 0.18.0) and what deepstack has put aside.
    """
    model, settings = run.model, run.settings
    flags = settings.flags.multimodal
    allowed = [m for m in model.modalities if m.name in flags.modalities]
    towers = [t for t in model.towers if t.layers and t.hidden]
    if not allowed or not towers or flags.text_only:
        return Encoder()
    tower = max(towers, key=lambda t: t.hidden)
    shape = PATCHES.get(model.architecture, DEFAULT)
    # the dummy image has the largest size whatever the context; a video has as many frames as the context holds
    largest = max((m.max_tokens for m in allowed if m.name == "image"), default=0)
    image, context = min(largest, _most_image_tokens(tower, shape, flags.max_pixels)), settings.max_model_len
    counted = {m: _tokens(m, image if m.name == "image" else context, image) for m in allowed}
    # get_modality_with_max_tokens: of two that are equally long, the later by name
    modality = max(allowed, key=lambda m: (counted[m], m.name))
    item, budget = counted[modality], max(settings.max_num_batched_tokens, *counted.values())
    seen, limit = _Tower(run, tower, modality), dict(flags.limits)[modality.name]
    # get_dummy_encoder_profile_inputs: the dummy item stands alone, so that all of the context is its own
    profiled = _items(run, item, budget, limit) * _tokens(modality, image if modality.name == "image" else context, 0)
    # a request whose image alone is longer than the context is refused
    short = min(item, context)
    served = _items(run, short, budget, limit) * short
    return Encoder(
        peak=seen.peak(profiled),
        resident=seen.pixels(profiled) + seen.outputs(profiled),
        outputs=seen.outputs(profiled),
        skipped=not flags.profiled,
        embeds=True,
        traced=shape.traced,
        profiled=seen.halves(profiled),
        served=seen.halves(served),
    )


def _tokens(modality: Modality, room: int, beside: int) -> int:
    """Of the longest item. `beside`: what an image takes of the context in which the frames of a video are counted."""
    if not modality.frame:
        return min(modality.max_tokens, room)
    return max(1, (min(modality.max_tokens, room) - beside) // modality.frame) * modality.frame


def _items(run: Run, tokens: int, budget: int, limit: int) -> int:
    """encoder_budget.py _get_max_items: what the budget holds, and at most what all requests may bring."""
    settings = run.settings
    per_prompt = max(1, min(limit, settings.max_model_len // max(1, tokens)))
    return max(1, min(budget // max(1, tokens), settings.max_num_seqs * per_prompt))


class _Tower:
    """Bytes of a pass through one tower, for tokens that the language model will see."""

    def __init__(self, run: Run, tower: Tower, modality: Modality) -> None:
        settings, model, facts = run.settings, run.model, run.facts.encoders
        self.shape = PATCHES.get(model.architecture, DEFAULT)
        self.modality = modality
        self.width = nbytes(TORCH[settings.dtype], 1)
        self.levels = int(model.param("deepstack_levels", 0))
        self.hidden = model.hidden_size
        is_raw = model.architecture in facts.raw_pixels and not settings.flags.multimodal.normalised_on_host
        self.patch = _pixels(tower) * (1 if is_raw else self.width)
        self.has_mask = self.shape.mask and facts.masks_patches
        tp = 1 if settings.flags.multimodal.encoder_per_rank else settings.tensor_parallel_size
        inner, is_gated = tower.intermediate // tp, _gated(tower)
        # SiluAndMul and QuickGELU are custom ops: a compiled model's encoder, which is not compiled itself, runs them
        # as PyTorch does, with a tensor between (custom_op.py default_on)
        between = (inner,) if not settings.enforce_eager and (is_gated or tower.activation == "quick_gelu") else ()
        self.mlp = (2 * inner if is_gated else inner, inner, *between, *self.shape.beside_mlp * (tower.hidden,))
        self.attention = tuple(count * tower.hidden for count in self.shape.attention)

    def patches(self, tokens: int) -> int:
        """All of the items'; in the largest item there may be patches that are no token's."""
        largest = self.modality.patches
        return -(-tokens * largest // self.modality.max_tokens) if largest else tokens * self.shape.per_token

    def pixels(self, tokens: int) -> int:
        return self.patches(tokens) * self.patch

    def outputs(self, tokens: int) -> int:
        return tokens * self.hidden * (1 + self.levels) * self.width

    def peak(self, tokens: int) -> int:
        return max(map(sum, self.halves(tokens)))

    def halves(self, tokens: int) -> tuple[Sizes, Sizes]:
        """Alive at once in a block: in its attention (the projection of all three, and what is made of it), then in its
        MLP."""
        patches = self.patches(tokens)
        mask = patches**2 * self.width if self.has_mask else 0
        copy = mask if patches % MASK_MULTIPLE else 0
        deep = self.outputs(tokens) * self.levels // (1 + self.levels)
        attention, mlp = (tuple(patches * wide * self.width for wide in half) for half in (self.attention, self.mlp))
        beside = self.pixels(tokens), mask, deep
        return (*beside, *attention, copy), beside + mlp


def _most_image_tokens(tower: Tower, shape: Patches, max_pixels: int) -> int:
    """Of an image scaled to `max_pixels` (qwen2_vl.py get_image_size_with_most_features); 0 = no such limit."""
    if not max_pixels or not shape.scaled_by_pixels:
        return sys.maxsize
    side = _patch_side(tower)
    return max(1, max_pixels // (side * side * shape.per_token))


def _patch_side(tower: Tower) -> int:
    shape = _convolution(tower)
    return shape[-1] if shape else _SIDE


def _convolution(tower: Tower) -> tuple[int, ...]:
    """The shape of the one that reads patches; () = the tower has none."""
    modules = [module for _, block in tower.blocks for module in block.modules]
    return next((module.shape for module in modules if isinstance(module, Param) and len(module.shape) > 3), ())


def _gated(tower: Tower) -> bool:
    linears = [module for _, block in tower.blocks for module in block.modules if isinstance(module, Linear)]
    return any(sum(outs(m, 1)) == 2 * tower.intermediate for m in linears)


def _pixels(tower: Tower) -> int:
    """Elements of one patch, from the convolution that reads it."""
    shape = _convolution(tower)
    return prod(shape[1:]) if shape else _PIXELS
