"""GLM-4.1V (dense) and GLM-4.5V (routed): GLM-4's language models behind a vision tower.

vLLM: models/glm4_1v.py, glm4.py, glm4_moe.py.
"""

from __future__ import annotations

from oomph.ir.model import Attention, Layer, Linear, Modality, Module, Param, Part, Tower
from oomph.sources.arch import glm4_moe
from oomph.sources.arch.base import Builder, Skeleton, heads_of
from oomph.sources.arch.rope import rope_of
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.config import Config

# glm4_1v.py: the image processor's longest_edge, 28 x 28 x 2 x 6144 pixels over two frames
_IMAGE_TOKENS = 6144


def build(b: Builder) -> Skeleton:
    prefix = b.root("model.language_model", "language_model.model")
    outer = "model." if prefix.startswith("model.") else ""
    head = "lm_head" if outer else "language_model.lm_head"
    moe = b.architecture == "Glm4vMoeForConditionalGeneration"
    made = glm4_moe.language_model(b, prefix, head) if moe else _dense(b, prefix, head)
    towers = (_vision(b, f"{outer}visual", b.config.sub("vision_config")),)
    modalities = (Modality("image", _IMAGE_TOKENS), Modality("video", 2 * _IMAGE_TOKENS))
    return Skeleton(made.layers, made.root, made.drafts, made.draft_root, towers, modalities)


def _dense(b: Builder, prefix: str, head: str) -> Skeleton:
    t = b.text
    # Glm4vTextConfig
    t.fill(vocab_size=151552, hidden_size=4096, intermediate_size=13696, num_hidden_layers=40, num_attention_heads=32)
    t.fill(num_key_value_heads=2, max_position_embeddings=32768, attention_bias=True)
    heads, kv, width = heads_of(t)
    attention = Attention("full", heads, kv, width, width, rope=rope_of(t, width))
    count = t.integer("num_hidden_layers", high=10_000)
    root = b.head(
        t.integer("vocab_size"),
        t.integer("hidden_size"),
        embed=f"{prefix}.embed_tokens",
        norm=f"{prefix}.norm.weight",
        head=head,
        tied=t.flag("tie_word_embeddings"),
    )
    return Skeleton(tuple(_layer(b, prefix, i, attention) for i in range(count)), root)


def _layer(b: Builder, prefix: str, index: int, attention: Attention) -> Layer:
    t = b.text
    hidden, inter, width = t.integer("hidden_size"), t.integer("intermediate_size"), attention.head_dim
    s = b.site(f"{prefix}.layers.{index}")
    packed = "mlp.gate_up_proj"
    parts = (Part(packed, 2 * inter, created=False), *(Part(f"{packed}.{i}", inter, stored=False) for i in (0, 1)))
    norms = ("input_layernorm", "post_attention_layernorm", "post_self_attn_layernorm", "post_mlp_layernorm")
    modules: list[Module] = [
        s.qkv(hidden, attention.num_heads, attention.num_kv_heads, width, bias=t.flag("attention_bias")),
        s.row("self_attn.o_proj", hidden, attention.num_heads * width, "attention"),
        Linear(packed, parts, hidden, "column", "mlp", b.dtype, scheme=b.scheme([f"{s.prefix}.{packed}"])),
        s.row("mlp.down_proj", hidden, inter, "mlp"),
        *[s.norm(n, hidden) for n in norms],
    ]
    return b.layer(index, s.prefix, [attention], modules)


def _vision(b: Builder, prefix: str, v: Config) -> Tower:
    # Glm4vVisionConfig
    v.fill(depth=24, hidden_size=1536, num_heads=12, in_channels=3, image_size=336, patch_size=14)
    v.fill(out_hidden_size=4096, intermediate_size=13696, spatial_merge_size=2, temporal_patch_size=2)
    hidden, heads, out = v.integer("hidden_size"), v.integer("num_heads"), v.integer("out_hidden_size")
    count, patch, merge = v.integer("depth", high=10_000), v.integer("patch_size"), v.integer("spatial_merge_size")
    inter, frames = v.integer("intermediate_size"), v.integer("temporal_patch_size")
    positions = (v.integer("image_size") // patch) ** 2
    s, at = b.site(prefix), "blocks.0"
    width = hidden // heads

    def param(name: str, *shape: int) -> Param:
        return Param(name, shape, b.dtype, "multimodal")

    first: list[Module] = [
        param("patch_embed.proj.weight", hidden, v.integer("in_channels"), frames, patch, patch),
        param("patch_embed.proj.bias", hidden),
        # vLLM: a rotary table of half the head's width for 8192 positions
        Param("rotary_pos_emb.cos_sin_cache", (8192, width // 2), b.dtype, "multimodal", stored=False),
        param("embeddings.position_embedding.weight", positions, hidden),
        Param("embeddings.position_ids", (1, positions), "I64", "multimodal", stored=False, created_dtype="I64"),
        param("post_conv_layernorm.weight", hidden),
    ]
    layer: list[Module] = [
        param(f"{at}.norm1.weight", hidden),
        param(f"{at}.norm2.weight", hidden),
        s.packed_qkv(f"{at}.attn.qkv", hidden, heads, "multimodal"),
        s.row(f"{at}.attn.proj", hidden, hidden, "multimodal"),
        *s.gated_mlp(hidden, out, at=f"{at}.mlp", role="multimodal"),
    ]
    last: list[Module] = [
        s.column("merger.proj", out, out, "multimodal"),
        *layer_norm(s, "merger.post_projection_norm", out),
        *s.gated_mlp(out, inter, at="merger", role="multimodal"),
        param("downsample.weight", out, hidden, merge, merge),
        param("downsample.bias", out),
        param("post_layernorm.weight", hidden),
    ]
    blocks = ((1, b.block(first)), (count, b.block(layer)), (1, b.block(last)))
    return Tower("visual", "vision", prefix, blocks, count, hidden, out, heads)
