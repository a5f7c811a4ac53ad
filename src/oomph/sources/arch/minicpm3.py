"""MiniCPM 3: low-rank projections as DeepSeek has them, but whole keys and values in the cache.

vLLM: models/minicpm3.py, minicpm.py.
"""

from __future__ import annotations

from oomph.ir.model import Attention, Module
from oomph.sources.arch.base import Builder, Skeleton, rope_of
from oomph.sources.arch.decoder import ALL_STAGES, Style, decoder_root


def build(builder: Builder) -> Skeleton:
    text = builder.text
    hidden, heads = text.integer("hidden_size"), text.integer("num_attention_heads")
    text.fill(v_head_dim=hidden // heads)  # MiniCPM3Config
    nope, rotary, v_dim = text.integer("qk_nope_head_dim"), text.integer("qk_rope_head_dim"), text.integer("v_head_dim")
    q_rank, kv_rank, width = text.integer("q_lora_rank"), text.integer("kv_lora_rank"), nope + rotary
    # minicpm3.py:204 (0.32.0): values are padded to the keys' width
    attention = Attention("full", heads, heads, width, width, rope=rope_of(text, rotary))
    layers = []
    for index in range(text.integer("num_hidden_layers", high=10_000)):
        site = builder.site(f"model.layers.{index}")
        at = "self_attn"
        modules: list[Module] = [
            site.norm("input_layernorm", hidden),
            site.replicated(f"{at}.q_a_proj", q_rank, hidden, "attention"),
            site.norm(f"{at}.q_a_layernorm", q_rank),
            site.linear(f"{at}.q_b_proj", [(f"{at}.q_b_proj", heads * width, heads)], q_rank, "column", "attention"),
            site.replicated(f"{at}.kv_a_proj_with_mqa", kv_rank + rotary, hidden, "attention"),
            site.norm(f"{at}.kv_a_layernorm", kv_rank),
            site.linear(
                f"{at}.kv_b_proj", [(f"{at}.kv_b_proj", heads * (nope + v_dim), heads)], kv_rank, "column", "attention"
            ),
            site.row(f"{at}.o_proj", hidden, heads * v_dim, "attention"),
            *site.gated_mlp(hidden, text.integer("intermediate_size")),
            site.norm("post_attention_layernorm", hidden),
        ]
        layers.append(builder.layer(index, site.prefix, [attention], modules))
    return Skeleton(tuple(layers), decoder_root(builder, Style(everywhere=ALL_STAGES)))
