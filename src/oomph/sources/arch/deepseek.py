"""DeepSeek V2 to V3.2, Kimi K2 (the same architecture), GLM-5, GLM-4.7-Flash, the language model of Kimi K2.5 and VL.

vLLM: models/deepseek_v2.py, deepseek_mtp.py.
"""

from __future__ import annotations

from oomph.ir.model import Attention, Layer, Modality, Module, Tower
from oomph.sources.arch.base import SHARED_WHOLE, Builder, Site, Skeleton, heads_of
from oomph.sources.arch.mla import indexer_modules, indexer_of, mla_mixer, mla_modules, nextn_modules, routed_mlp
from oomph.sources.arch.rope import rope_of
from oomph.sources.config import Config


def build(b: Builder) -> Skeleton:
    if b.architecture == "Glm4MoeLiteForCausalLM":
        b.text.fill(topk_method="noaux_tc", n_shared_experts=1, first_k_dense_replace=1)  # Glm4MoeLiteConfig
    return language_model(b, "model", "lm_head")


def language_model(
    b: Builder,
    prefix: str,
    head: str,
    *,
    towers: tuple[Tower, ...] = (),
    modalities: tuple[Modality, ...] = (),
) -> Skeleton:
    t = b.text
    count = t.integer("num_hidden_layers", high=10_000)
    nextn = t.integer("num_nextn_predict_layers", default=0, low=0, high=100)
    hidden, vocab = t.integer("hidden_size"), t.integer("vocab_size")
    layers = tuple(_layer(b, prefix, i) for i in range(count))
    drafts = tuple(_layer(b, prefix, count + i, draft=True) for i in range(nextn))
    root = b.head(
        vocab,
        hidden,
        embed=f"{prefix}.embed_tokens",
        norm=f"{prefix}.norm.weight",
        head=head,
        tied=t.flag("tie_word_embeddings"),
    )
    params = (("index_topk", t.integer("index_topk")),) if t.has("index_topk") else ()
    return Skeleton(layers, root, drafts=drafts, towers=towers, modalities=modalities, params=params)


def _layer(b: Builder, prefix: str, index: int, *, draft: bool = False) -> Layer:
    t = b.text
    hidden = t.integer("hidden_size")
    s = b.site(f"{prefix}.layers.{index}")
    # deepseek_v2.py:1113 (0.21.0) use_mha
    if b.architecture == "DeepseekForCausalLM" or (t.get("qk_nope_head_dim"), t.get("qk_rope_head_dim")) == (0, 0):
        return _first_generation(b, s, index)
    indexer = indexer_of(t)
    if indexer is not None and not draft and not _has_indexer(t, index):
        indexer = None
    modules = mla_modules(s, t)
    if indexer is not None:
        types = t.items("indexer_types")
        stored = not types or types[min(index, len(types) - 1)] == "full"
        modules += indexer_modules(s, t, indexer, stored=stored)
    modules += _mlp(s, t, index)
    modules += [s.norm("input_layernorm", hidden), s.norm("post_attention_layernorm", hidden)]
    if draft:
        # GLM-5 leaves embedding and head out of the layer, DeepSeek stores copies of them
        own = t.text("model_type") != "glm_moe_dsa"
        modules = nextn_modules(s, hidden, t.integer("vocab_size"), modules, own_vocab=own)
    return b.layer(index, s.prefix, [mla_mixer(t, indexer=indexer)], modules)


def _first_generation(b: Builder, s: Site, index: int) -> Layer:
    """DeepSeek-MoE 16B: the routed MLP behind ordinary attention (deepseek_v2.py DeepseekAttention)."""
    t = b.text
    hidden = t.integer("hidden_size")
    heads, kv, width = heads_of(t)
    bias = t.flag("attention_bias")
    modules: list[Module] = [
        s.qkv(hidden, heads, kv, width, bias=bias),
        s.row("self_attn.o_proj", hidden, heads * width, "attention"),
        *_mlp(s, t, index),
        s.norm("input_layernorm", hidden),
        s.norm("post_attention_layernorm", hidden),
    ]
    return b.layer(index, s.prefix, [Attention("full", heads, kv, width, width, rope=rope_of(t, width))], modules)


def _has_indexer(t: Config, index: int) -> bool:
    """deepseek_v2.py:1142 (0.32.0): from layer `offset` on only each `freq`-th layer chooses tokens; the others use
    the choice of the layer before."""
    pattern = t.get("index_topk_pattern")
    if isinstance(pattern, str):
        return index >= len(pattern) or pattern[index] != "S"
    every, offset = t.integer("index_topk_freq", default=1), t.integer("index_skip_topk_offset", default=2, low=0)
    return max(index - offset + 1, 0) % every == 0


def _mlp(s: Site, t: Config, index: int) -> list[Module]:
    sparse = (
        t.has("n_routed_experts")
        and index >= t.integer("first_k_dense_replace", default=0, low=0)
        and index % t.integer("moe_layer_freq", default=1) == 0
    )
    if not sparse:
        return s.gated_mlp(t.integer("hidden_size"), t.integer("intermediate_size"))
    lite = s.b.architecture == "Glm4MoeLiteForCausalLM"  # glm4_moe_lite.py: as GLM-4.5, a float32 router
    s.b.shared_whole_by = SHARED_WHOLE
    return routed_mlp(s, t, correction=t.text("topk_method") == "noaux_tc", gate_dtype="F32" if lite else "")
