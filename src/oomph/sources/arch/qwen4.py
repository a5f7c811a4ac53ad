"""Qwen4-Exp and Intern-S2 Mobius: Qwen3.5's layers with other residuals, or with experts that layers share.

vLLM: models/qwen4_exp/nvidia/model.py, common/hyperconnection.py, model_executor/models/interns2_mobius.py (0.32.0).
"""

from collections.abc import Mapping

from msgspec.structs import replace

from oomph.errors import UnknownCache
from oomph.ir import Attention, Layer, Module, Rope, Routing
from oomph.sources.arch.base import Builder, Site, Skeleton, rope_of
from oomph.sources.arch.qwen_gdn import build as qwen

_NORMS = ("input_layernorm.weight", "post_attention_layernorm.weight")


def build(builder: Builder) -> Skeleton:
    """Hyper-connections in place of the norms around attention and MLP. Sparse attention (indexer_n_heads) and
    per-layer embeddings have caches and tables of their own, which are not planned."""
    text = builder.text
    text.fill(hc_count=4, hc_lowrank=320, num_experts=512, num_experts_per_tok=10)
    if text.has("indexer_n_heads") or text.items("ple_layer_ids"):
        raise UnknownCache(f"{text.where}: Qwen4-Exp with sparse attention or per-layer embeddings is not planned yet")
    model = qwen(builder)
    streams, rank = text.integer("hc_count"), text.integer("hc_lowrank")
    wide = streams * text.integer("hidden_size")

    def connected(layer: Layer) -> Layer:
        site = builder.site(layer.prefix, layer.index)
        modules = [module for module in layer.block.modules if module.name not in _NORMS]
        for at in ("attn_hyper_connection", "mlp_hyper_connection"):
            modules += _connection(site, at, wide, rank, streams * streams)
        return replace(layer, block=builder.block(modules))

    body = [module for module in model.root.modules if module.role != "norm"]
    mixer = _connection(builder.site(""), "hyper_connection_mixer", wide, rank, 0)
    own = dict(text.table("rope_parameters", "rope_scaling"))
    tables = {width: rope_of(text, width, params={"partial_rotary_factor": 1.0, **own}) for width in _widths(model)}
    layers = tuple(_turned(connected(layer), tables) for layer in model.layers)
    # the checkpoint's draft layers are another class's
    return replace(model, layers=layers, root=builder.block([*body, *mixer]), drafts=())


def _widths(model: Skeleton) -> set[int]:
    """Of the heads that turn; a model of recurrent layers alone has none."""
    return {m.head_dim for layer in model.layers for m in layer.mixers if isinstance(m, Attention)}


def _turned(layer: Layer, tables: Mapping[int, Rope]) -> Layer:
    """The layer with the rotary table of its heads' width."""
    mixers = (replace(m, rope=tables[m.head_dim]) if isinstance(m, Attention) else m for m in layer.mixers)
    return replace(layer, mixers=tuple(mixers))


def _connection(site: Site, at: str, wide: int, rank: int, injected: int) -> list[Module]:
    """hyperconnection.py GatedResidual: whole on every rank, in BF16."""
    return [
        site.norm(f"{at}.hc_norm", wide),
        site.replicated(f"{at}.input_mix_weight_down", rank + injected, wide, "other", quantised=False),
        site.replicated(f"{at}.input_mix_weight_up", wide, rank, "other", quantised=False),
    ]


def build_mobius(builder: Builder) -> Skeleton:
    """Every layer has a shared expert; the routed experts stand beside the layers, in `num_blocks` blocks."""
    model, text = qwen(builder), builder.text
    hidden, count = text.integer("hidden_size"), text.integer("num_experts")
    scales = ("attn_layer_scale", "ffn_layer_scale") if text.flag("layer_scale") else ()

    def own(layer: Layer, *apart: str) -> Layer:
        """With the scales of both residuals, and without the modules that stand beside the layers."""
        site = builder.site(layer.prefix, layer.index)
        others = [module for module in layer.block.modules if module.name not in apart]
        return replace(layer, block=builder.block([*others, *(site.norm(name, hidden) for name in scales)]))

    site, experts = builder.site("model.language_model"), list[Module]()
    for number in range(text.integer("num_blocks", high=1000)):
        at = f"meta_mlp.{number}"
        routing = Routing(renormalised=text.flag("norm_topk_prob", default=True))
        inner, top_k = text.integer("moe_intermediate_size"), text.integer("num_experts_per_tok")
        experts += [
            site.replicated(f"{at}.gate", count, hidden, "router", quantised=False),
            site.experts(count, hidden, inner, top_k, at=f"{at}.experts", layout="stacked", routing=routing),
        ]
    tables = {width: rope_of(text, width) for width in _widths(model)}
    layers = tuple(_turned(own(layer, "mlp.gate", "mlp.experts"), tables) for layer in model.layers)
    drafts = tuple(own(layer) for layer in model.drafts)
    return replace(model, layers=layers, drafts=drafts, root=builder.block([*model.root.modules, *experts]))
