"""LongCat-Flash: two latent attentions and two MLPs per layer, and experts of which some do nothing.

vLLM: models/longcat_flash.py.
"""

from oomph.ir import Linear, Module, Param, Part, Routing, Vocab
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.decoder import Style, decoder_root
from oomph.sources.arch.mla import mla_mixer, mla_modules, score_correction
from oomph.sources.config import Config


def build(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(n_routed_experts=512)
    count_of_layers = text.integer("num_layers", "num_hidden_layers", default=28, high=10_000)
    hidden, wide = text.integer("hidden_size"), text.integer("ffn_hidden_size", "intermediate_size")
    inner = text.integer("expert_ffn_hidden_size", "moe_intermediate_size")
    count, idle = text.integer("n_routed_experts"), text.integer("zero_expert_num", default=0, low=0)
    mixer, name = mla_mixer(text), "mlp.router.classifier"
    layers = []
    for site in builder.sites("model.layers", count_of_layers):
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
    root = decoder_root(builder, Style())
    drafts = []  # longcat_flash_mtp.py: latent attention and a dense MLP
    # config/speculative.py:964 (0.32.0): one where the config does not say
    nextn = text.integer("num_nextn_predict_layers", default=int(builder.stores("model.mtp.", True)), low=0, high=100)
    for site in builder.sites("model.mtp.layers", nextn, 2 * len(layers)):
        own: list[Module] = [
            *(site.norm(norm, hidden) for norm in ("enorm", "hnorm", "final_layernorm")),
            site.replicated("eh_proj", hidden, 2 * hidden, "other"),
            *mla_modules(site, text),
            *site.gated_mlp(hidden, text.integer("intermediate_size", default=wide)),
            *(site.norm(norm, hidden) for norm in ("input_layernorm", "post_attention_layernorm")),
        ]
        drafts.append(site.layer([mixer], own))
    return Skeleton(tuple(layers), builder.block([*root.modules, *_ngrams(builder, text)]), drafts=tuple(drafts))


def _ngrams(builder: Builder, text: Config) -> list[Module]:
    """LongCat-Flash-Lite: tables of token pairs, triples, ..., hashed (longcat_flash_ngram.py NgramEmbedding)."""
    if builder.architecture != "LongcatFlashNgramForCausalLM" or not text.has("ngram_vocab_size_ratio"):
        return []
    hidden = text.integer("hidden_size")
    splits, most = text.integer("emb_split_num", high=1000), text.integer("emb_neighbor_num", low=2, high=100)
    tables = splits * (most - 1)
    base, width = text.integer("ngram_vocab_size_ratio") * text.integer("vocab_size"), hidden // tables
    rows = sum(base + 2 * n + 1 for n in range(tables))
    sizes = {"ne_weights": (most - 1, splits, most), "ne_mods": (most - 1, splits), "exclusive_sizes": (tables + 1,)}
    at = "model.ngram_embeddings"
    return [
        Vocab(f"{at}.embedders", rows, width, builder.dtype, "embed"),
        Param(f"{at}.post_projs", (tables, width, hidden), builder.dtype, "embed"),
        *(
            Param(f"{at}.{name}", shape, "I32", "embed", stored=False, created_dtype="I32")
            for name, shape in sizes.items()
        ),
    ]


def _half(site: Site, text: Config, wide: int, half: int) -> list[Module]:
    """Every layer has attention and an MLP twice, beside its experts."""
    hidden = text.integer("hidden_size")
    return [
        *mla_modules(site, text, at=f"self_attn.{half}"),
        site.norm(f"input_layernorm.{half}", hidden),
        site.norm(f"post_attention_layernorm.{half}", hidden),
        *site.gated_mlp(hidden, wide, at=f"mlps.{half}"),
    ]
