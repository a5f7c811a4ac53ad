"""Step-3's language model: one key-value head, queries through a narrow projection, experts beside a shared MLP.

vLLM: models/step3_text.py.
"""

from __future__ import annotations

from msgspec.structs import replace

from oomph.ir.model import Attention, Module, Part, Routing
from oomph.sources.arch.base import Builder, Site, Skeleton, rope_of
from oomph.sources.arch.decoder import Style, decoder_root


def build(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(
        hidden_size=7168, intermediate_size=18432, num_attention_heads=64, num_hidden_layers=61
    )  # Step3TextConfig
    text.fill(vocab_size=128815, moe_intermediate_size=5120, moe_num_experts=48, moe_top_k=3, head_dim=256)
    text.fill(share_expert_dim=5120, share_q_dim=2048, max_position_embedding=65536)
    heads, width = text.integer("num_attention_heads"), text.integer("head_dim")
    # step3_text.py:232 (0.32.0) reads a key of its own
    text.fill(max_position_embeddings=text.integer("max_position_embedding"))
    rope = replace(rope_of(text, width), positions=text.integer("max_position_embedding"))
    attention = Attention("full", heads, 1, width, width, rope=rope)
    count = text.integer("num_hidden_layers", high=10_000)
    listed = [int(i) for i in text.text("moe_layers_enum").split(",") if i.strip().isdigit()]
    sparse = set(listed or range(1, count))
    layers = tuple(
        builder.layer(i, f"model.layers.{i}", [attention], _modules(builder.site(f"model.layers.{i}"), i in sparse))
        for i in range(count)
    )
    return Skeleton(layers, decoder_root(builder, Style()))


def _modules(site: Site, sparse: bool) -> list[Module]:
    text, at = site.b.text, "self_attn"
    hidden, heads, width = text.integer("hidden_size"), text.integer("num_attention_heads"), text.integer("head_dim")
    q_size = text.integer("share_q_dim", default=0, low=0) or width
    qkv = [Part(f"{at}.q_proj", q_size), Part(f"{at}.k_proj", width), Part(f"{at}.v_proj", width)]
    modules: list[Module] = [
        site.linear(f"{at}.qkv_proj", qkv, hidden, "replicated", "attention"),
        site.row(f"{at}.o_proj", hidden, heads * width, "attention"),
        site.norm(f"{at}.inter_norm", q_size),
        site.linear(f"{at}.wq", [(f"{at}.wq", heads * width, heads)], q_size, "column", "attention"),
    ]
    if sparse:
        count, inner = text.integer("moe_num_experts"), text.integer("moe_intermediate_size")
        routing = Routing(renormalised=text.flag("norm_expert_weight"))
        modules += [
            site.experts(count, hidden, inner, text.integer("moe_top_k"), at="moe", layout="stacked", routing=routing),
            site.replicated("moe.gate", count, hidden, "router", quantised=False),
            *site.gated_mlp(hidden, text.integer("share_expert_dim"), at="share_expert", role="shared_experts"),
        ]
    else:
        modules += site.gated_mlp(hidden, text.integer("intermediate_size"))
    return [*modules, site.norm("input_layernorm", hidden), site.norm("post_attention_layernorm", hidden)]
