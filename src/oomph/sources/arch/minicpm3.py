"""MiniCPM 3: low-rank projections as DeepSeek has them, but whole keys and values in the cache.

vLLM: models/minicpm3.py, minicpm.py.
"""

from __future__ import annotations

from oomph.ir.model import Attention, Module
from oomph.sources.arch.base import Builder, Skeleton, rope_of
from oomph.sources.arch.decoder import ALL_STAGES, Style, decoder_root


def build(b: Builder) -> Skeleton:
    t = b.text
    hidden, heads = t.integer("hidden_size"), t.integer("num_attention_heads")
    t.fill(v_head_dim=hidden // heads)  # MiniCPM3Config
    nope, rotary, v_dim = t.integer("qk_nope_head_dim"), t.integer("qk_rope_head_dim"), t.integer("v_head_dim")
    q_rank, kv_rank, width = t.integer("q_lora_rank"), t.integer("kv_lora_rank"), nope + rotary
    # minicpm3.py:204 (0.32.0): values are padded to the keys' width
    attention = Attention("full", heads, heads, width, width, rope=rope_of(t, rotary))
    layers = []
    for index in range(t.integer("num_hidden_layers", high=10_000)):
        s = b.site(f"model.layers.{index}")
        at = "self_attn"
        modules: list[Module] = [
            s.norm("input_layernorm", hidden),
            s.replicated(f"{at}.q_a_proj", q_rank, hidden, "attention"),
            s.norm(f"{at}.q_a_layernorm", q_rank),
            s.linear(f"{at}.q_b_proj", [(f"{at}.q_b_proj", heads * width, heads)], q_rank, "column", "attention"),
            s.replicated(f"{at}.kv_a_proj_with_mqa", kv_rank + rotary, hidden, "attention"),
            s.norm(f"{at}.kv_a_layernorm", kv_rank),
            s.linear(
                f"{at}.kv_b_proj", [(f"{at}.kv_b_proj", heads * (nope + v_dim), heads)], kv_rank, "column", "attention"
            ),
            s.row(f"{at}.o_proj", hidden, heads * v_dim, "attention"),
            *s.gated_mlp(hidden, t.integer("intermediate_size")),
            s.norm("post_attention_layernorm", hidden),
        ]
        layers.append(b.layer(index, s.prefix, [attention], modules))
    return Skeleton(tuple(layers), decoder_root(b, Style(everywhere=ALL_STAGES)))
