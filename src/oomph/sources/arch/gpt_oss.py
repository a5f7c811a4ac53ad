"""gpt-oss: experts in MXFP4, attention sinks, a window on every other layer.

vLLM: models/gpt_oss.py.
"""

from oomph.ir import Attention, Param
from oomph.sources.arch.base import Builder, Skeleton, heads_of, rope_of
from oomph.sources.arch.decoder import ALL_STAGES, Style, decoder_root
from oomph.sources.arch.pooling import both_ways
from oomph.sources.config import Config

_DEFAULTS = {
    "num_hidden_layers": 36,
    "num_local_experts": 128,
    "vocab_size": 201088,
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "head_dim": 64,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "sliding_window": 128,
    "max_position_embeddings": 131072,
    "num_experts_per_tok": 4,
}


# OpenAIPrivacyFilterConfig
_FILTER_DEFAULTS = {
    **_DEFAULTS,
    "num_hidden_layers": 8,
    "vocab_size": 200064,
    "hidden_size": 640,
    "intermediate_size": 640,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
}


def build(builder: Builder, defaults: dict[str, int] = _DEFAULTS) -> Skeleton:
    text = builder.text
    text.fill(**defaults)
    hidden, inter = text.integer("hidden_size"), text.integer("intermediate_size")
    heads, kv, head_dim = heads_of(text)
    experts, top_k = text.integer("num_local_experts"), text.integer("num_experts_per_tok")
    both = _attentions(text, heads, kv, head_dim)
    layers = tuple(
        site.layer(
            [both[site.index % 2]],
            [
                Param("self_attn.sinks", (heads,), builder.dtype, "attention", shard_dim=0),
                site.qkv(hidden, heads, kv, head_dim, bias=True),
                site.row("self_attn.o_proj", hidden, heads * head_dim, "attention", bias=True),
                site.replicated("mlp.router", experts, hidden, "router", bias=True, quantised=False),
                site.experts(experts, hidden, inter, top_k, bias=True, layout="stacked", activation="swigluoai"),
                site.norm("input_layernorm", hidden),
                site.norm("post_attention_layernorm", hidden),
            ],
        )
        for site in builder.sites("model.layers")
    )
    return Skeleton(layers, decoder_root(builder, Style(everywhere=ALL_STAGES)))


def build_filter(builder: Builder) -> Skeleton:
    """OpenAI's privacy filter: the same layers, looking both ways, and a label per token (openai_privacy_filter.py)."""
    text = builder.text
    model = build(builder, _FILTER_DEFAULTS)
    rows, hidden = text.integer("num_labels", default=len(text.table("id2label")) or 33), text.integer("hidden_size")
    head = [
        Param(f"score.{part}", shape, builder.dtype, "lm_head", created_dtype="F32")
        for part, shape in (("weight", (rows, hidden)), ("bias", (rows,)))
    ]
    body = [module for module in model.root.modules if module.role != "lm_head"]
    return Skeleton(both_ways(model.layers), builder.block([*body, *head]), pooling=True)


def _attentions(text: Config, heads: int, kv: int, head_dim: int) -> tuple[Attention, Attention]:
    """gpt_oss.py:125 (0.21.0): even layers slide, whatever layer_types says. The table is float32 (gpt_oss.py:87)."""
    rope = rope_of(text, head_dim, theta=150000.0, dtype="F32")
    window = text.integer("sliding_window")
    return (
        Attention("sliding_window", heads, kv, head_dim, head_dim, window=window, sinks=True, rope=rope),
        Attention("full", heads, kv, head_dim, head_dim, sinks=True, rope=rope),
    )
