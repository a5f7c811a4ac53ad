"""DeepSeek V2 to V3.2, Kimi K2 (the same architecture), GLM-5, GLM-4.7-Flash, A.X K1, the language model of Kimi K2.5
and VL.

vLLM: models/deepseek_v2.py, deepseek_mtp.py.

Behind it: DeepSeek-OCR.
"""

from msgspec.structs import replace

from oomph.ir import Attention, Layer, Linear, Modality, Module, Tower
from oomph.sources.arch.base import SHARED_WHOLE, Builder, Site, Skeleton, heads_of, rope_of
from oomph.sources.arch.llava import clip
from oomph.sources.arch.mla import indexer_modules, indexer_of, mla_mixer, mla_modules, nextn_modules, routed_mlp
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.config import Config


def build(builder: Builder) -> Skeleton:
    if builder.architecture == "Glm4MoeLiteForCausalLM":
        builder.text.fill(topk_method="noaux_tc", n_shared_experts=1, first_k_dense_replace=1)  # Glm4MoeLiteConfig
    if builder.architecture == "AXK1ForCausalLM":  # AXK1.py:118, 177 (0.32.0)
        builder.text.fill(topk_method="noaux_tc", scoring_func="sigmoid")
    return language_model(builder, "model", "lm_head")


def build_bidirectional(builder: Builder) -> Skeleton:
    """deepseek_v2.py:1134 (0.32.0): attention that looks both ways is built from its parts, and has no cache."""
    model = build(builder)
    heads = builder.text.integer("num_attention_heads")
    width = builder.text.integer("qk_nope_head_dim") + builder.text.integer("qk_rope_head_dim")
    layers = tuple(
        replace(
            layer,
            mixers=tuple(
                Attention("encoder_only", heads, heads, width, width, rope=mixer.rope)
                if isinstance(mixer, Attention)
                else mixer
                for mixer in layer.mixers
            ),
        )
        for layer in model.layers
    )
    return replace(model, layers=layers, pooling=True)


def language_model(
    builder: Builder,
    prefix: str,
    head: str,
    *,
    towers: tuple[Tower, ...] = (),
    modalities: tuple[Modality, ...] = (),
) -> Skeleton:
    text = builder.text
    count = text.integer("num_hidden_layers", high=10_000)
    nextn = text.integer("num_nextn_predict_layers", default=0, low=0, high=100)
    hidden, vocab = text.integer("hidden_size"), text.integer("vocab_size")
    layers = tuple(_layer(builder, prefix, i) for i in range(count))
    drafts = tuple(_layer(builder, prefix, count + i, draft=True) for i in range(nextn))
    root = builder.head(
        vocab,
        hidden,
        embed=f"{prefix}.embed_tokens",
        norm=f"{prefix}.norm.weight",
        head=head,
        tied=text.flag("tie_word_embeddings"),
    )
    params = (("index_topk", text.integer("index_topk")),) if text.has("index_topk") else ()
    return Skeleton(layers, root, drafts=drafts, towers=towers, modalities=modalities, params=params)


def _layer(builder: Builder, prefix: str, index: int, *, draft: bool = False) -> Layer:
    text = builder.text
    hidden = text.integer("hidden_size")
    site = builder.site(f"{prefix}.layers.{index}", index)
    # deepseek_v2.py:1113 (0.21.0) use_mha
    if builder.architecture == "DeepseekForCausalLM" or (
        text.get("qk_nope_head_dim"),
        text.get("qk_rope_head_dim"),
    ) == (0, 0):
        return _first_generation(site)
    indexer = indexer_of(text)
    if indexer is not None and not draft and not _has_indexer(text, index):
        indexer = None
    types = text.items("indexer_types")
    stored = not types or types[min(index, len(types) - 1)] == "full"

    def modules_of(site: Site) -> list[Module]:
        modules = mla_modules(site, text)
        if indexer is not None:
            modules += indexer_modules(site, text, indexer, stored=stored)
        modules += _mlp(site, text, index)
        modules += [site.norm("input_layernorm", hidden), site.norm("post_attention_layernorm", hidden)]
        if builder.architecture == "AXK1ForCausalLM":
            modules.append(site.norm("post_mlp_layernorm", hidden))
        if draft:
            # GLM-5 leaves embedding and head out of the layer, DeepSeek stores copies of them
            own = text.text("model_type") != "glm_moe_dsa"
            modules = nextn_modules(site, hidden, text.integer("vocab_size"), modules, own_vocab=own)
        return modules

    kind = (prefix, index) if draft else (prefix, indexer, stored, _is_sparse(text, index))
    return builder.layer_like(kind, index, site.prefix, [mla_mixer(text, indexer=indexer)], modules_of)


def _first_generation(site: Site) -> Layer:
    """DeepSeek-MoE 16B: the routed MLP behind ordinary attention (deepseek_v2.py DeepseekAttention)."""
    text = site.b.text
    hidden = text.integer("hidden_size")
    heads, kv, width = heads_of(text)
    modules: list[Module] = [
        site.qkv(hidden, heads, kv, width, bias=text.flag("attention_bias")),
        site.row("self_attn.o_proj", hidden, heads * width, "attention"),
        *_mlp(site, text, site.index),
        site.norm("input_layernorm", hidden),
        site.norm("post_attention_layernorm", hidden),
    ]
    return site.layer([Attention("full", heads, kv, width, width, rope=rope_of(text, width))], modules)


def _has_indexer(text: Config, index: int) -> bool:
    """deepseek_v2.py:1142 (0.32.0): from layer `offset` on only each `freq`-th layer chooses tokens; the others use
    the choice of the layer before."""
    pattern = text.get("index_topk_pattern")
    if isinstance(pattern, str):
        return index >= len(pattern) or pattern[index] != "S"
    every, offset = text.integer("index_topk_freq", default=1), text.integer("index_skip_topk_offset", default=2, low=0)
    return max(index - offset + 1, 0) % every == 0


def _is_sparse(text: Config, index: int) -> bool:
    return (
        text.has("n_routed_experts")
        and index >= text.integer("first_k_dense_replace", default=0, low=0)
        and index % text.integer("moe_layer_freq", default=1) == 0
    )


def _mlp(site: Site, text: Config, index: int) -> list[Module]:
    if not _is_sparse(text, index):
        dense = site.gated_mlp(text.integer("hidden_size"), text.integer("intermediate_size"))
        whole = "dense layers whole in sequence parallelism"
        sparse_attention = site.b.architecture in ("DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM")
        return [replace(m, whole_by=whole) if sparse_attention and isinstance(m, Linear) else m for m in dense]
    lite = site.b.architecture == "Glm4MoeLiteForCausalLM"  # glm4_moe_lite.py: as GLM-4.5, a float32 router
    site.b.shared_whole_by = SHARED_WHOLE
    return routed_mlp(site, text, correction=text.text("topk_method") == "noaux_tc", gate_dtype="F32" if lite else "")


# DeepSeek-OCR: SAM-B and CLIP-L behind each other, one linear layer, and a small DeepSeek with ordinary attention.
#
# vLLM: models/deepseek_ocr.py, deepencoder.py. The encoders' sizes are the classes' own.

_SAM, _SAM_LAYERS, _SAM_HEADS = 768, 12, 12
_WHOLE = (2, 5, 8, 11)  # layers that see the whole image; the others windows of 14 patches
# a whole view of 16 rows of 16 and a newline, six tiles of 10 x 10 side by side, a separator
_TOKENS = 16 * 17 + 30 * 21 + 1


def build_ocr(builder: Builder) -> Skeleton:
    return language_model(
        builder,
        "model",
        "lm_head",
        towers=(sam(builder), _clip(builder), _projector(builder)),
        modalities=(Modality("image", _TOKENS),),
    )


def sam(builder: Builder, last: int = 1024) -> Tower:
    """Plain modules of torch: whole on every rank; `last`: channels of the last convolution."""
    site, wide = builder.site("model.sam_model"), _SAM

    def layer(rows: int) -> list[Module]:
        at = "blocks.0"
        return [
            *layer_norm(site, f"{at}.norm1", wide),
            site.tensor(f"{at}.attn.rel_pos_h", 2 * rows - 1, wide // _SAM_HEADS),
            site.tensor(f"{at}.attn.rel_pos_w", 2 * rows - 1, wide // _SAM_HEADS),
            site.replicated(f"{at}.attn.qkv", 3 * wide, wide, "multimodal", bias=True, quantised=False),
            site.replicated(f"{at}.attn.proj", wide, wide, "multimodal", bias=True, quantised=False),
            *layer_norm(site, f"{at}.norm2", wide),
            site.replicated(f"{at}.mlp.lin1", 4 * wide, wide, "multimodal", bias=True, quantised=False),
            site.replicated(f"{at}.mlp.lin2", wide, 4 * wide, "multimodal", bias=True, quantised=False),
        ]

    first: list[Module] = [
        site.tensor("pos_embed", 1, 64, 64, wide),
        site.tensor("patch_embed.proj.weight", wide, 3, 16, 16),
        site.tensor("patch_embed.proj.bias", wide),
        site.tensor("neck.0.weight", 256, wide, 1, 1),
        *layer_norm(site, "neck.1", 256),
        site.tensor("neck.2.weight", 256, 256, 3, 3),
        *layer_norm(site, "neck.3", 256),
        site.tensor("net_2.weight", 512, 256, 3, 3),
        site.tensor("net_3.weight", last, 512, 3, 3),
    ]
    return site.tower(
        "sam_model",
        "vision",
        [(1, first), (_SAM_LAYERS - len(_WHOLE), layer(14)), (len(_WHOLE), layer(64))],
        _SAM_LAYERS,
        wide,
        4 * wide,
        _SAM_HEADS,
    )


def _clip(builder: Builder) -> Tower:
    sizes = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}
    tower = clip(builder, "model.vision_model", Config({**sizes, "image_size": 224, "patch_size": 14}, "CLIP-L"))
    first, layer, _ = tower.blocks  # no norm behind the layers
    return Tower(
        tower.name,
        modality="vision",
        prefix=tower.prefix,
        blocks=(first, layer),
        layers=24,
        hidden=1024,
        intermediate=4096,
        num_heads=16,
    )


def _projector(builder: Builder) -> Tower:
    hidden = builder.text.integer("hidden_size")
    site = builder.site("model")
    modules: list[Module] = [
        site.tensor("image_newline", hidden),
        site.tensor("view_seperator", hidden),
        site.replicated("projector.layers", hidden, 2048, "multimodal", bias=True, quantised=False),
    ]
    return site.tower("projector", "vision", [(1, modules)])
