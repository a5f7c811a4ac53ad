"""Step-3's language model: one key-value head, queries through a narrow projection, experts beside a shared MLP.

vLLM: models/step3_text.py.
"""

from __future__ import annotations

from msgspec.structs import replace

from oomph.ir.model import Attention, Module, Part, Routing
from oomph.sources.arch.base import Builder, Site, Skeleton, rope_of
from oomph.sources.arch.decoder import Style, decoder_root


def build(b: Builder) -> Skeleton:
    t = b.text
    t.fill(hidden_size=7168, intermediate_size=18432, num_attention_heads=64, num_hidden_layers=61)  # Step3TextConfig
    t.fill(vocab_size=128815, moe_intermediate_size=5120, moe_num_experts=48, moe_top_k=3, head_dim=256)
    t.fill(share_expert_dim=5120, share_q_dim=2048, max_position_embedding=65536)
    heads, width = t.integer("num_attention_heads"), t.integer("head_dim")
    # step3_text.py:232 (0.32.0) reads a key of its own
    t.fill(max_position_embeddings=t.integer("max_position_embedding"))
    rope = replace(rope_of(t, width), positions=t.integer("max_position_embedding"))
    attention = Attention("full", heads, 1, width, width, rope=rope)
    count = t.integer("num_hidden_layers", high=10_000)
    listed = [int(i) for i in t.text("moe_layers_enum").split(",") if i.strip().isdigit()]
    sparse = set(listed or range(1, count))
    layers = tuple(
        b.layer(i, f"model.layers.{i}", [attention], _modules(b.site(f"model.layers.{i}"), i in sparse))
        for i in range(count)
    )
    return Skeleton(layers, decoder_root(b, Style()))


def _modules(s: Site, sparse: bool) -> list[Module]:
    t, at = s.b.text, "self_attn"
    hidden, heads, width = t.integer("hidden_size"), t.integer("num_attention_heads"), t.integer("head_dim")
    q_size = t.integer("share_q_dim", default=0, low=0) or width
    qkv = [Part(f"{at}.q_proj", q_size), Part(f"{at}.k_proj", width), Part(f"{at}.v_proj", width)]
    modules: list[Module] = [
        s.linear(f"{at}.qkv_proj", qkv, hidden, "replicated", "attention"),
        s.row(f"{at}.o_proj", hidden, heads * width, "attention"),
        s.norm(f"{at}.inter_norm", q_size),
        s.linear(f"{at}.wq", [(f"{at}.wq", heads * width, heads)], q_size, "column", "attention"),
    ]
    if sparse:
        count, inner = t.integer("moe_num_experts"), t.integer("moe_intermediate_size")
        routing = Routing(renormalised=t.flag("norm_expert_weight"))
        modules += [
            s.experts(count, hidden, inner, t.integer("moe_top_k"), at="moe", layout="stacked", routing=routing),
            s.replicated("moe.gate", count, hidden, "router", quantised=False),
            *s.gated_mlp(hidden, t.integer("share_expert_dim"), at="share_expert", role="shared_experts"),
        ]
    else:
        modules += s.gated_mlp(hidden, t.integer("intermediate_size"))
    return [*modules, s.norm("input_layernorm", hidden), s.norm("post_attention_layernorm", hidden)]
