"""Gemma 4's assistants: small drafters that read the target's caches. vLLM: models/gemma4_mtp.py.

Their layers have queries only, so no cache is their own; embedding and head stay in the drafter's width.
"""

from __future__ import annotations

from oomph.errors import ConfigError
from oomph.ir.model import Layer, Module, Param
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.gemma import layer_types


def build(b: Builder) -> Skeleton:
    t = b.text
    t.fill(vocab_size=262144, hidden_size=256, intermediate_size=2048, num_hidden_layers=4, num_attention_heads=4)
    t.fill(num_key_value_heads=1, head_dim=256, global_head_dim=512, max_position_embeddings=131072)
    t.fill(tie_word_embeddings=True)
    hidden, vocab = t.integer("hidden_size"), t.integer("vocab_size")
    target = b.config.integer("backbone_hidden_size", default=1536)
    types = layer_types(t, 6)
    types[-1] = "full_attention"  # Gemma4TextConfig forces it
    s = b.site("")
    extra: list[Module] = [
        s.column("pre_projection", hidden, 2 * target, "other"),
        s.row("post_projection", target, hidden, "other"),
        Param("model.normalizer", (), b.dtype, "other", stored=False),
    ]
    if b.config.flag("use_ordered_embeddings"):
        centroids = b.config.integer("num_centroids", default=2048)
        extra += [
            Param("masked_embedding.centroids.weight", (centroids, hidden), b.dtype, "other"),
            Param("masked_embedding.token_ordering", (vocab,), "I64", "other", created_dtype="I64"),
        ]
    tied = b.config.flag("tie_word_embeddings", default=t.flag("tie_word_embeddings"))
    root = b.head(vocab, hidden, tied=tied, extra=extra)
    return Skeleton(tuple(_layer(b, i, kind) for i, kind in enumerate(types)), root)


def _layer(b: Builder, index: int, kind: str) -> Layer:
    t = b.text
    if kind not in ("full_attention", "sliding_attention"):
        raise ConfigError(f"{t.where}: layer_types has {kind!r}, which is not known")
    hidden, heads = t.integer("hidden_size"), t.integer("num_attention_heads")
    width = t.integer("global_head_dim" if kind == "full_attention" else "head_dim")
    s = b.site(f"model.layers.{index}")
    queries = ("self_attn.q_proj", heads * width, heads)
    norms = ("input", "post_attention", "pre_feedforward", "post_feedforward")
    modules: list[Module] = [
        s.linear("self_attn.q_proj", [queries], hidden, "column", "attention", bias=t.flag("attention_bias")),
        s.row("self_attn.o_proj", hidden, heads * width, "attention", bias=t.flag("attention_bias")),
        s.norm("self_attn.q_norm", width),
        *s.gated_mlp(hidden, t.integer("intermediate_size")),
        *[s.norm(f"{n}_layernorm", hidden) for n in norms],
        Param("layer_scalar", (1,), b.dtype, "other"),
    ]
    return b.layer(index, s.prefix, [], modules)
