"""Tensors that a model's classes keep beside their parameters: as long as the largest batch, and part of what
"Model loading took" counts, though no list of parameters or buffers has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from oomph.engines.vllm.allocator import ROUND
from oomph.engines.vllm.plain_flags import Balancing
from oomph.engines.vllm.shard import stage_layers
from oomph.engines.vllm.traits import Traits
from oomph.engines.vllm.weights import Build, Placed
from oomph.facts.dtypes import nbytes
from oomph.facts.vllm.weights import Loading
from oomph.ir import Attention, Experts, Layer, Model
from oomph.units import round_up

Buffers = tuple[tuple[str, int], ...]


@lru_cache(maxsize=4096)
def model_buffers(traits: Traits, build: Build, rules: Loading, tokens: int) -> Buffers:
    return tuple(_buffers(traits.model, build, rules, tokens))


def _buffers(model: Model, build: Build, rules: Loading, tokens: int) -> Iterator[tuple[str, int]]:
    width = nbytes(build.dtype, 1)
    yield from draft_buffers(model.layers, tokens)
    if rules.query_workspace:
        yield from _query_workspace(model, build, tokens)
    if model.architecture.startswith("DeepseekV4") and build.layout.pp_rank == build.layout.pp - 1:
        # deepseek_v4.py:1351 (0.21.0) _mtp_hidden_buffer: every residual stream of every token
        yield "_mtp_hidden_buffer", tokens * int(model.param("hc_mult", 4)) * model.hidden_size * width
    if build.towers or rules.deepstack_without_tower:  # qwen3_vl.py:1680 (0.21.0)
        for _ in range(int(model.param("deepstack_levels", 0))):
            yield "deepstack_input_embeds", tokens * model.hidden_size * width
    per_layer = int(model.param("per_layer_embeddings", 0))
    if per_layer and model.towers:  # gemma3n_mm.py:530, gemma4_mm.py:993
        yield "per_layer_embeddings", tokens * per_layer * width
    if model.architecture.startswith(("Gemma4", "DiffusionGemma")):
        yield "norms without weights", _norms_without_weights(model, build, width)


def _query_workspace(model: Model, build: Build, tokens: int) -> Iterator[tuple[str, int]]:
    """One for all layers, in 16 bits: every head's latent query with its rotated part."""
    sparse = [m for x in model.layers for m in x.mixers if isinstance(m, Attention) and m.indexer and m.kv_lora_rank]
    if sparse and not sparse[0].compress_ratio:
        heads, wide = sparse[0].num_heads // build.layout.tp, sparse[0].kv_lora_rank + sparse[0].qk_rope_head_dim
        yield "q_concat_buffer", tokens * heads * wide * 2


def _norms_without_weights(model: Model, build: Build, width: int) -> int:
    """layernorm.py:64 (0.21.0): RMSNorm(has_weight=False) makes its ones all the same: v_norm and the router's norm.
    Each is a tensor of its own."""
    stage = stage_layers(len(model.layers), build.layout)
    total = 0
    kinds = Counter((layer.block, layer.mixers) for layer in model.layers[stage.start : stage.stop])
    for (block, mixers), count in kinds.items():
        total += count * sum(round_up(m.head_dim_v * width, ROUND) for m in mixers if isinstance(m, Attention))
        if any(isinstance(module, Experts) for module in block.modules):
            total += count * round_up(model.hidden_size * width, ROUND)
    return total


def balancing_buffers(places: tuple[Placed, ...], build: Build, balancing: Balancing | None) -> Buffers:
    """eplb_state.py:448 (0.21.0): with --enable-eplb one layer's experts once more, and the load of every expert over
    the window of steps that is looked back on."""
    if balancing is None:
        return ()
    layers = [place for place in places if any(isinstance(tensor.of, Experts) for tensor in place.tensors)]
    if not layers:
        return ()
    first = [tensor for tensor in layers[0].tensors if isinstance(tensor.of, Experts) and "input" not in tensor.name]
    experts = max(t.of.count for t in first if isinstance(t.of, Experts)) + build.layout.redundant_experts
    loads = 4 * len(layers) * experts * (balancing.window + 1)
    return (("expert load window", loads), *((f"spare {t.name}", t.nbytes) for t in first))


def draft_buffers(layers: tuple[Layer, ...], tokens: int) -> Buffers:
    """deepseek_v2.py:1220, deepseek_mtp.py:80: one table of chosen tokens for all indexers of a model."""
    for layer in layers:
        for mixer in layer.mixers:
            if isinstance(mixer, Attention) and mixer.indexer is not None:
                return (("topk_indices_buffer", 4 * tokens * mixer.indexer.top_k),)
    return ()
