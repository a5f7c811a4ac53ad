"""The multimodal encoder's share of profiling: its own peak, and what it leaves for the passes that follow."""

from __future__ import annotations

from math import prod

from msgspec import Struct

from oomph.engines.vllm.run import Run
from oomph.engines.vllm.shard import outs
from oomph.facts.dtypes import TORCH, nbytes
from oomph.ir.model import Linear, Param, Tower


class Encoder(Struct, frozen=True):
    peak: int = 0
    # the dummy batch and the outputs of the encoder, which live until profile_run returns (gpu_model_runner.py:6366)
    resident: int = 0
    embeds: bool = False  # the compiled model is given embeddings: their table is outside the graph


PATCHES_PER_TOKEN = 4  # a 2 x 2 merge, as in Qwen-VL, Pixtral and Llama 4
_PIXELS = 3 * 14 * 14  # of a patch where the tower has no convolution to read its size from


def encoder(run: Run) -> Encoder:
    """multimodal/encoder_budget.py: as many items of the most expensive modality as the budget holds.

    Not measured. A block holds its input, the norm's output and the MLP's widest pair for every patch, beside the
    pixels; the processor gives pixels in the model's dtype (multimodal/processing/context.py:231, 0.18.0). A
    start-up of Qwen3.6-27B on an L40S (0.26.0) printed 0.1 GiB less than this, start-ups of Qwen3-VL on H200 and B200
    the outputs and the pixels beside the sampler's peak.
    """
    model, settings = run.model, run.settings
    flags = settings.flags.multimodal
    allowed = [m for m in model.modalities if m.name in flags.modalities]
    towers = [t for t in model.towers if t.layers and t.hidden]
    if not allowed or not towers or flags.text_only:
        return Encoder()
    if not flags.profiled:
        return Encoder(embeds=True)
    # the dummy image has the largest size whatever the context; a video has as many frames as the context holds
    item = max(m.max_tokens if m.name == "image" else min(m.max_tokens, settings.max_model_len) for m in allowed)
    budget = max(settings.max_num_batched_tokens, item)
    tokens = item * max(1, min(budget // max(1, item), settings.max_num_seqs))
    tower = max(towers, key=lambda t: t.hidden)
    tp = 1 if flags.encoder_per_rank else settings.tensor_parallel_size
    width = nbytes(TORCH[settings.dtype], 1)
    patches = tokens * PATCHES_PER_TOKEN
    pixels = patches * _pixels(tower) * width
    outputs = tokens * model.hidden_size * (1 + int(model.param("deepstack_levels", 0))) * width
    wide = (3 if _gated(tower) else 2) * tower.intermediate // tp + 2 * tower.hidden
    return Encoder(pixels + patches * wide * width, pixels + outputs, embeds=True)


def _gated(tower: Tower) -> bool:
    linears = [m for _, block in tower.blocks for m in block.modules if isinstance(m, Linear)]
    return any(sum(outs(m, 1)) == 2 * tower.intermediate for m in linears)


def _pixels(tower: Tower) -> int:
    """Elements of one patch, from the convolution that reads it."""
    shapes = [m.shape for _, block in tower.blocks for m in block.modules if isinstance(m, Param) and len(m.shape) > 3]
    return prod(shapes[0][1:]) if shapes else _PIXELS
