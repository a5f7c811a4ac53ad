"""MiniCPM 3: low-rank projections as DeepSeek has them, but whole keys and values in the cache.

vLLM: models/minicpm3.py, minicpm.py.

Behind it: MiniCPM-V.
"""

from msgspec.structs import replace

from oomph.errors import UnknownCache
from oomph.ir import Attention, Block, Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Skeleton, rope_of
from oomph.sources.arch.decoder import ALL_STAGES, Style, decoder_layers, decoder_root, fill
from oomph.sources.arch.llama import LLAMA, QWEN2, QWEN3
from oomph.sources.arch.qwen_gdn import language_model
from oomph.sources.arch.siglip import layer_norm, siglip
from oomph.sources.config import Config


def build(builder: Builder) -> Skeleton:
    text = builder.text
    hidden, heads = text.integer("hidden_size"), text.integer("num_attention_heads")
    text.fill(v_head_dim=hidden // heads)  # MiniCPM3Config
    nope, rotary, v_dim = text.integer("qk_nope_head_dim"), text.integer("qk_rope_head_dim"), text.integer("v_head_dim")
    q_rank, kv_rank, width = text.integer("q_lora_rank"), text.integer("kv_lora_rank"), nope + rotary
    # minicpm3.py:204 (0.32.0): values are padded to the keys' width
    attention = Attention("full", heads, heads, width, width, rope=rope_of(text, rotary))
    layers = []
    for site in builder.sites("model.layers"):
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
        layers.append(site.layer([attention], modules))
    return Skeleton(tuple(layers), decoder_root(builder, Style(everywhere=ALL_STAGES)))


# MiniCPM-V 2.5 to 4.5: a SigLIP encoder, a resampler with learnt queries, a language model by version.
#
# vLLM: models/minicpmv.py, idefics2_vision_model.py, layers/resampler.py.

# minicpmv.py _SUPPORT_VERSION and each class's init_llm (0.32.0); version 2.0 has a tower of timm's
_TEXT: dict[str, Style] = {"2.5": LLAMA, "2.6": QWEN2, "4.0": LLAMA, "4": LLAMA, "4.5": QWEN3}
_SIDE = 70  # Resampler2_5: the longest grid for which positions are kept


def build_vision(builder: Builder) -> Skeleton:
    version = builder.config.get("version")
    style = _TEXT.get(str(version))
    if style is None:
        raise UnknownCache(f"{builder.config.where}: MiniCPM-V of version {version} is not known")
    fill(builder, style)
    hidden = builder.text.integer("hidden_size")
    vision = builder.config.sub("vision_config")
    vision.fill(
        hidden_size=1152, intermediate_size=4304, num_hidden_layers=27, num_attention_heads=16, image_size=980,
        patch_size=14,
    )  # fmt: skip
    tower = siglip(builder, "vpm", vision, idefics=True)
    if builder.config.flag("drop_vision_last_layer", default=True):
        (count, layer), rest = tower.blocks[1], tower.blocks[2:]
        tower = replace(tower, blocks=(tower.blocks[0], (count - 1, layer), *rest))
    queries = builder.config.integer("query_num", default=64)
    pieces = builder.config.sub("slice_config").integer("max_slice_nums", default=9) + 1
    return Skeleton(
        decoder_layers(builder, style, "llm.model"),
        decoder_root(builder, style, "llm.model", "llm.lm_head"),
        towers=(tower, _resampler(builder, hidden, vision.integer("hidden_size"), queries)),
        modalities=(Modality("image", queries * pieces),),
    )


def _resampler(builder: Builder, hidden: int, vision: int, queries: int) -> Tower:
    site = builder.site("resampler")

    modules: list[Module] = [
        site.tensor("query", queries, hidden),
        site.replicated("kv_proj", hidden, vision, "multimodal"),
        site.tensor("attn.in_proj_weight", 3 * hidden, hidden),
        site.tensor("attn.in_proj_bias", 3 * hidden),
        site.tensor("attn.out_proj.weight", hidden, hidden),
        site.tensor("attn.out_proj.bias", hidden),
        *(site.tensor(f"{norm}.{n}", hidden) for norm in ("ln_q", "ln_kv", "ln_post") for n in ("weight", "bias")),
        site.tensor("proj", hidden, hidden),
        Param("pos_embed", (_SIDE, _SIDE, hidden), builder.dtype, "multimodal", stored=False),
    ]
    return Tower("resampler", "vision", "resampler", ((1, builder.block(modules)),))


# MiniCPM-V 4.6 and 4.7: a SigLIP encoder with a merger inside, another behind it, and a Qwen3.5.
#
# vLLM: models/minicpmv4_6.py (0.32.0), idefics2_vision_model.py.

_PATCHES = 16  # that become one token: four times in the encoder, four times behind it
_MOST_SLICES = 9  # the image processor's max_slice_nums, and the whole image once more


def build_vision_4_6(builder: Builder) -> Skeleton:
    config, vision = builder.config, builder.config.sub("vision_config")
    tower = siglip(builder, "model.vision_tower", vision, idefics=True)
    if config.flag("drop_vision_last_layer"):
        (count, layer), rest = tower.blocks[1], tower.blocks[2:]
        tower = replace(tower, blocks=(tower.blocks[0], (count - 1, layer), *rest))
    side = config.integer("image_size", default=448) // vision.integer("patch_size")
    language = language_model(builder, "model.language_model")
    return replace(
        language,
        drafts=(),
        draft_root=Block(),
        towers=(tower, _inner_merger(builder, vision), *_mergers(builder, vision)),
        modalities=(Modality("image", max(1, side**2 // _PATCHES) * (_MOST_SLICES + 1)),),
    )


def _inner_merger(builder: Builder, vision: Config) -> Tower:
    hidden, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    heads, site = vision.integer("num_attention_heads"), builder.site("model.vision_tower.vit_merger")
    modules: list[Module] = [
        site.qkv(hidden, heads, heads, hidden // heads, bias=True, role="multimodal"),
        site.row("self_attn.out_proj", hidden, hidden, "multimodal", bias=True),
        *layer_norm(site, "layer_norm1", hidden),
        *layer_norm(site, "pre_norm", 4 * hidden),
        site.replicated("linear_1", 4 * inner, 4 * hidden, "multimodal", bias=True, quantised=False),
        site.replicated("linear_2", hidden, 4 * inner, "multimodal", bias=True, quantised=False),
    ]
    return site.tower("vit_merger", "vision", [(1, modules)], heads=heads)


def _mergers(builder: Builder, vision: Config) -> tuple[Tower, ...]:
    """The class is built with its default of one step, whatever merger_times says."""
    wide, out = 4 * vision.integer("hidden_size"), builder.text.integer("hidden_size")
    site = builder.site("model.merger")
    modules: list[Module] = [
        *layer_norm(site, "mlp.0.pre_norm", wide),
        site.replicated("mlp.0.linear_1", wide, wide, "multimodal", bias=True, quantised=False),
        site.replicated("mlp.0.linear_2", out, wide, "multimodal", bias=True, quantised=False),
    ]
    return (site.tower("merger", "vision", [(1, modules)]),)
