"""Gemma 4's assistants: small drafters that read the target's caches. vLLM: models/gemma4_mtp.py.

Their layers have queries only, so no cache is their own; embedding and head stay in the drafter's width.
"""

from __future__ import annotations

from oomph.errors import ConfigError
from oomph.ir.model import Layer, Module, Param
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.gemma import layer_types


def build(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(vocab_size=262144, hidden_size=256, intermediate_size=2048, num_hidden_layers=4, num_attention_heads=4)
    text.fill(num_key_value_heads=1, head_dim=256, global_head_dim=512, max_position_embeddings=131072)
    text.fill(tie_word_embeddings=True)
    hidden, vocab = text.integer("hidden_size"), text.integer("vocab_size")
    target = builder.config.integer("backbone_hidden_size", default=1536)
    types = layer_types(text, 6)
    types[-1] = "full_attention"  # Gemma4TextConfig forces it
    site = builder.site("")
    extra: list[Module] = [
        site.column("pre_projection", hidden, 2 * target, "other"),
        site.row("post_projection", target, hidden, "other"),
        Param("model.normalizer", (), builder.dtype, "other", stored=False),
    ]
    if builder.config.flag("use_ordered_embeddings"):
        centroids = builder.config.integer("num_centroids", default=2048)
        extra += [
            Param("masked_embedding.centroids.weight", (centroids, hidden), builder.dtype, "other"),
            Param("masked_embedding.token_ordering", (vocab,), "I64", "other", created_dtype="I64"),
        ]
    tied = builder.config.flag("tie_word_embeddings", default=text.flag("tie_word_embeddings"))
    root = builder.head(vocab, hidden, tied=tied, extra=extra)
    return Skeleton(tuple(_layer(builder, i, kind) for i, kind in enumerate(types)), root)


def _layer(builder: Builder, index: int, kind: str) -> Layer:
    text = builder.text
    if kind not in ("full_attention", "sliding_attention"):
        raise ConfigError(f"{text.where}: layer_types has {kind!r}, which is not known")
    hidden, heads = text.integer("hidden_size"), text.integer("num_attention_heads")
    width = text.integer("global_head_dim" if kind == "full_attention" else "head_dim")
    site = builder.site(f"model.layers.{index}")
    queries = ("self_attn.q_proj", heads * width, heads)
    norms = ("input", "post_attention", "pre_feedforward", "post_feedforward")
    modules: list[Module] = [
        site.linear("self_attn.q_proj", [queries], hidden, "column", "attention", bias=text.flag("attention_bias")),
        site.row("self_attn.o_proj", hidden, heads * width, "attention", bias=text.flag("attention_bias")),
        site.norm("self_attn.q_norm", width),
        *site.gated_mlp(hidden, text.integer("intermediate_size")),
        *[site.norm(f"{n}_layernorm", hidden) for n in norms],
        Param("layer_scalar", (1,), builder.dtype, "other"),
    ]
    return builder.layer(index, site.prefix, [], modules)
