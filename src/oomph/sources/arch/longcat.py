"""LongCat-Flash: two latent attentions and two MLPs per layer, and experts of which some do nothing.

vLLM: models/longcat_flash.py.
"""

from oomph.ir import Linear, Module, Part, Routing
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.decoder import Style, decoder_root
from oomph.sources.arch.mla import mla_mixer, mla_modules, score_correction
from oomph.sources.config import Config


def build(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(num_hidden_layers=text.integer("num_layers", default=28, high=10_000), n_routed_experts=512)
    hidden, wide = text.integer("hidden_size"), text.integer("ffn_hidden_size", "intermediate_size")
    inner = text.integer("expert_ffn_hidden_size", "moe_intermediate_size")
    count, idle = text.integer("n_routed_experts"), text.integer("zero_expert_num", default=0, low=0)
    mixer, name = mla_mixer(text), "mlp.router.classifier"
    layers = []
    for site in builder.sites("model.layers", text.integer("num_hidden_layers")):
        modules: list[Module] = [
            *_half(site, text, wide, 0),
            *_half(site, text, wide, 1),
            Linear(name, (Part(name, count + idle),), hidden, "replicated", "router", "F32", created_dtype="F32"),
            score_correction("mlp.router.e_score_correction_bias", count + idle),
            # the router resolves the experts that do nothing itself: no kernel can (zero_expert_router.py)
            site.experts(
                count, hidden, inner, text.integer("moe_topk"), routing=Routing(renormalised=False, custom="zero")
            ),
        ]
        layers.append(site.layer([mixer, mixer], modules))
    return Skeleton(tuple(layers), decoder_root(builder, Style()))


def _half(site: Site, text: Config, wide: int, half: int) -> list[Module]:
    """Every layer has attention and an MLP twice, beside its experts."""
    hidden = text.integer("hidden_size")
    return [
        *mla_modules(site, text, at=f"self_attn.{half}"),
        site.norm(f"input_layernorm.{half}", hidden),
        site.norm(f"post_attention_layernorm.{half}", hidden),
        *site.gated_mlp(hidden, wide, at=f"mlps.{half}"),
    ]
