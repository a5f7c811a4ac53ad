"""K-EXAONE: EXAONE 4's attention, DeepSeek's router and experts. vLLM: models/exaone_moe.py, exaone_moe_mtp.py."""

from __future__ import annotations

from oomph.errors import ConfigError
from oomph.ir.model import Attention, Layer, Module, Rope
from oomph.sources.arch.base import Builder, Site, Skeleton, rope_of, sigmoid_routing
from oomph.sources.arch.decoder import Style, attention_modules, decoder_root, dims, layer_kinds
from oomph.sources.arch.mla import score_correction

STYLE = Style(qkv_bias=False, qk_norm="head", norms=())


def build(b: Builder) -> Skeleton:
    t = b.text
    t.fill(n_group=1, norm_topk_prob=True, first_k_dense_replace=1, num_shared_experts=0)
    rope = rope_of(t, dims(t, STYLE)[2])
    kinds = layer_kinds(t, STYLE)
    count = len(kinds)
    layers = tuple(_layer(b, "model.layers", i, kinds[i], rope, _is_sparse(b, i)) for i in range(count))
    nextn = t.integer("num_nextn_predict_layers", default=0, low=0, high=100)
    drafts = tuple(_layer(b, "mtp.layers", i, kinds[i % count], rope, False) for i in range(nextn))
    return Skeleton(layers, decoder_root(b, STYLE), drafts=drafts, draft_root=b.block(_draft_root(b) if nextn else []))


def _draft_root(b: Builder) -> list[Module]:
    """exaone_moe_mtp.py: one projection of embedding and hidden state together; embedding and head are the target's."""
    hidden, s = b.text.integer("hidden_size"), b.site("mtp")
    return [
        s.column("fc", hidden, 2 * hidden, "other"),
        s.norm("pre_fc_norm_hidden", hidden),
        s.norm("pre_fc_norm_embedding", hidden),
        s.norm("norm", hidden),
    ]


def _is_sparse(b: Builder, index: int) -> bool:
    listed = b.text.items("is_moe_layer")
    if listed:
        if index >= len(listed):
            raise ConfigError(f"{b.text.where}: is_moe_layer does not name {index + 1} layers")
        return bool(listed[index])
    kinds = b.text.items("mlp_layer_types")
    if index < len(kinds):
        return bool(kinds[index] == "sparse")
    return index >= b.text.integer("first_k_dense_replace", low=0)


def _layer(b: Builder, prefix: str, index: int, kind: str, rope: Rope, sparse: bool) -> Layer:
    t = b.text
    heads, kv, width = dims(t, STYLE)
    hidden = t.integer("hidden_size")
    window = t.integer("sliding_window", default=0, low=0) if kind == "sliding_attention" else 0
    s = b.site(f"{prefix}.{index}")
    modules = attention_modules(b, s, STYLE, heads, kv, width)
    modules += _experts(s) if sparse else s.gated_mlp(hidden, t.integer("intermediate_size"))
    modules += [s.norm("input_layernorm", hidden), s.norm("post_attention_layernorm", hidden)]
    attention = Attention("sliding_window" if window else "full", heads, kv, width, width, window=window, rope=rope)
    return b.layer(index, s.prefix, [attention], modules)


def _experts(s: Site) -> list[Module]:
    t = s.b.text
    hidden, count, inner = t.integer("hidden_size"), t.integer("num_experts"), t.integer("moe_intermediate_size")
    shared = t.integer("num_shared_experts", low=0)
    return [
        s.replicated("mlp.gate", count, hidden, "router", quantised=False),
        score_correction("mlp.e_score_correction_bias", count),
        *(s.gated_mlp(hidden, inner * shared, at="mlp.shared_experts", role="shared_experts") if shared else []),
        s.experts(count, hidden, inner, t.integer("num_experts_per_tok"), routing=sigmoid_routing(t)),
    ]
