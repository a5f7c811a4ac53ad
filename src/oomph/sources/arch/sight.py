"""Vision-language models that are a table each: encoder, projector, and a language model that has a family.

vLLM: models/dots_ocr.py, keye.py, keye_vl1_5.py, ovis.py, ovis2_5.py, aimv2.py, siglip2navit.py, step_vl.py,
hyperclovax_vision_v2.py, isaac.py, glm4v.py.
"""

from msgspec.structs import replace

from oomph.ir import Linear, Modality, Tower
from oomph.sources.arch.base import Builder, Skeleton, rope_of
from oomph.sources.arch.decoder import decoder_layers, decoder_root, dims, fill, tied_outside
from oomph.sources.arch.llama import QWEN2, QWEN3
from oomph.sources.arch.qwen_vision import modalities_2, qwen2_5_vision
from oomph.sources.arch.text import text_model
from oomph.sources.arch.towers import TowerStyle, read_sizes, styled_tower
from oomph.sources.config import Config

_VIT = (("H", "hidden_size"), ("I", "intermediate_size"), ("A", "num_attention_heads"), ("N", "num_hidden_layers"))
_PIXELS = 12_845_056  # the largest image of Qwen2-VL's processor, which these processors descend from


def _image(config: Config, merge: int = 2, pixels: int = _PIXELS) -> Modality:
    unit = config.integer("patch_size", default=14) * merge
    return Modality("image", pixels // unit**2)


# --- dots.ocr --------------------------------------------------------------------------------------------------------

_DOTS = TowerStyle(
    sizes=(
        ("H", "embed_dim=1536"), ("I", "intermediate_size=4224"), ("A", "num_attention_heads=12"),
        ("N", "num_hidden_layers=42"), ("P", "patch_size=14"), ("M", "spatial_merge_size=2"), ("O", "hidden_size=1536"),
        ("B", "use_bias=0"), ("post", "post_norm=1"),
    ),
    rows="""
        patch_embed.patchifier.proj     conv+    H 3 P P
        patch_embed.patchifier.norm     norm     H
        rotary_pos_emb.inv_freq         float32  R
      each N
        blocks.0.attn.qkv               qkv?B    H A
        blocks.0.attn.proj              row?B    H H
        blocks.0.norm1                  norm     H
        blocks.0.mlp.fc1,blocks.0.mlp.fc3   pair?B   I H
        blocks.0.mlp.fc2                row?B    H I
        blocks.0.norm2                  norm     H
      then
        post_trunk_norm                 norm     H    if post
        merger.ln_q                     norm+    H
        merger.mlp.0                    column+! H*M*M H*M*M
        merger.mlp.2                    row+!    O H*M*M
    """,
)  # fmt: skip


def build_dots(builder: Builder) -> Skeleton:
    vision = builder.config.sub("vision_config")
    fill(builder, QWEN2)
    sizes = read_sizes(_DOTS, vision)
    tower = styled_tower(builder, _DOTS, "vision_tower", vision, {"R": sizes["H"] // max(1, sizes["A"]) // 4})
    return Skeleton(
        decoder_layers(builder, QWEN2),
        decoder_root(builder, QWEN2),
        towers=(tower,),
        modalities=(_image(vision),),
    )


# --- Keye-VL ---------------------------------------------------------------------------------------------------------

_KEYE = TowerStyle(
    sizes=(*_VIT, ("P", "patch_size=14"), ("S", "image_size=384")),
    name="visual",
    rows="""
        embeddings.patch_embedding                conv+      H 3 P P
        embeddings.position_embedding.weight      tensor     Q H
        embeddings.packing_position_embedding.weight  tensor 32768 H
        embeddings.position_ids                   positions  Q
        encoder.rotary_pos_emb.inv_freq           float32    R
      each N
        encoder.layers.0.layer_norm1              norm+      H
        encoder.layers.0.self_attn                heads+     H A
        encoder.layers.0.self_attn.out_proj       row+       H H
        encoder.layers.0.layer_norm2              norm+      H
        encoder.layers.0.mlp.fc1                  column+    I H
        encoder.layers.0.mlp.fc2                  row+       H I
      then
        post_layernorm                            norm+      H
    """,
)
_KEYE_PROJECTOR = TowerStyle(
    name="mlp_AR",
    rows="""
        pre_norm    norm+     E
        linear_1    column+   4*H 4*H
        linear_2    row+      O 4*H
    """,
)


def build_keye(builder: Builder) -> Skeleton:
    vision = builder.config.sub("vision_config")
    fill(builder, QWEN3)
    sizes = read_sizes(_KEYE, vision)
    hidden, heads = sizes["H"], max(1, sizes["A"])
    own = {"Q": (sizes["S"] // max(1, sizes["P"])) ** 2, "R": hidden // heads // 4}
    wide = 4 * hidden if builder.architecture == "KeyeVL1_5ForConditionalGeneration" else hidden
    between = {"H": hidden, "E": wide, "O": builder.text.integer("hidden_size")}
    _, _, head_dim = dims(builder.text, QWEN3)
    return Skeleton(
        decoder_layers(builder, QWEN3, rope=rope_of(builder.text, head_dim)),
        decoder_root(builder, QWEN3),
        towers=(
            styled_tower(builder, _KEYE, "visual.vision_model", vision, own),
            styled_tower(builder, _KEYE_PROJECTOR, "mlp_AR", vision, between),
        ),
        modalities=(_image(vision), Modality("video", _image(vision).max_tokens)),
    )


# --- Ovis ------------------------------------------------------------------------------------------------------------

_AIM = TowerStyle(
    sizes=(
        *_VIT, ("P", "patch_size=14"), ("S", "image_size=448"), ("Q", "qkv_bias=0"), ("B", "use_bias=0"),
        ("F", "mlp_bias=0"),
    ),
    name="visual_tokenizer",
    rows="""
        preprocessor.pos_embed            tensor   1 L H
        preprocessor.patchifier.proj      conv+    H 3 P P
        preprocessor.patchifier.norm      norm     H
      each N
        trunk.blocks.0.attn.qkv           qkv?Q    H A
        trunk.blocks.0.attn.proj          row?B    H H
        trunk.blocks.0.norm_1             norm     H
        trunk.blocks.0.mlp.fc1,trunk.blocks.0.mlp.fc3  pair?F  I H
        trunk.blocks.0.mlp.fc2            row?F    H I
        trunk.blocks.0.norm_2             norm     H
      then
        trunk.post_trunk_norm             norm     H    if post
    """,
)  # fmt: skip
_NAVIT = TowerStyle(
    sizes=(*_VIT, ("P", "patch_size=16"), ("S", "image_size=512"), ("own", "preserve_original_pe=1")),
    name="visual_tokenizer",
    rows="""
        embeddings.patch_embedding               conv+    H 3 P P
        embeddings.position_embedding.weight     tensor   L H    if own
        encoder.rotary_pos_emb.inv_freq          float32  R
      each N
        encoder.layers.0.layer_norm1             norm+    H
        encoder.layers.0.self_attn               heads+   H A
        encoder.layers.0.self_attn.out_proj      row+     H H
        encoder.layers.0.layer_norm2             norm+    H
        encoder.layers.0.mlp.fc1                 column+  I H
        encoder.layers.0.mlp.fc2                 row+     H I
      then
        post_layernorm                           norm+    H
    """,
)
_OVIS_HEAD = TowerStyle(
    name="visual_tokenizer_head",
    rows="""
        visual_tokenizer.head.0    whole!   V H*M*M
        visual_tokenizer.head.1    norm+    V
        vte.weight                 tensor   T O
    """,
)
_INDICATORS = 5  # ovis.py: rows that mark an image's ends, not the head's; one less in ovis2_5.py


def build_ovis(builder: Builder) -> Skeleton:
    config = builder.config
    tokenizer = config.sub("visual_tokenizer_config")
    if config.has("visual_tokenizer_config"):
        vision, vocab = tokenizer.sub("backbone_config"), tokenizer.integer("vocab_size")
        merge = tokenizer.integer("hidden_stride", default=1)
    else:
        vision, vocab = config.sub("vit_config"), config.integer("visual_vocab_size")
        merge = vision.integer("hidden_stride", default=2)
    style = _AIM if vision.text("model_type", default="aimv2") == "aimv2" else _NAVIT
    sizes = read_sizes(style, vision)
    own = {"L": (sizes["S"] // max(1, sizes["P"])) ** 2, "post": 0, "R": sizes["H"] // max(1, sizes["A"]) // 4}
    head = {
        "V": vocab - (_INDICATORS if style is _AIM else _INDICATORS - 1),
        "H": sizes["H"],
        "M": merge,
        "T": vocab,
        "O": config.integer("hidden_size", default=builder.text.integer("hidden_size")),
    }
    layers, root = text_model(builder, "llm.model", "llm.lm_head")
    prefix = "visual_tokenizer.backbone" if style is _AIM else "visual_tokenizer.vit.vision_model"
    return Skeleton(
        layers,
        root,
        towers=(
            styled_tower(builder, style, prefix, vision, own),
            styled_tower(builder, _OVIS_HEAD, "", vision, head),
        ),
        modalities=(_image(vision, merge), Modality("video", _image(vision, merge).max_tokens)),
    )


# --- Step-VL ---------------------------------------------------------------------------------------------------------

_PERCEPTION = TowerStyle(
    sizes=(
        ("H", "width=1536"), ("N", "layers=47"), ("A", "heads=16"), ("P", "patch_size=14"), ("S", "image_size=728"),
        ("pre", "use_ln_pre=1"), ("post", "use_ln_post=0"), ("cls", "use_cls_token=0"), ("abs", "use_abs_posemb=1"),
    ),
    name="vision_model",
    rows="""
        class_embedding              tensor   H           if cls
        positional_embedding         tensor   cls+G*G H   if abs
        conv1                        conv     H 3 P P
        ln_pre                       norm+    H           if pre
        ln_post                      norm+    H           if post
      each N
        transformer.resblocks.0.attn.in_proj     qkv+     H A
        transformer.resblocks.0.attn.out_proj    row+     H H
        transformer.resblocks.0.ls_1.gamma       tensor   H    if scale
        transformer.resblocks.0.ls_2.gamma       tensor   H    if scale
        transformer.resblocks.0.ln_1             norm+    H
        transformer.resblocks.0.ln_2             norm+    H
        transformer.resblocks.0.mlp.c_fc         column+  I H
        transformer.resblocks.0.mlp.c_proj       row+     H I
        transformer.resblocks.0.attn.rope.freqs_cache   float32  1 1 cls+G*G D
      then
        vit_downsampler1             conv+    2*H H 3 3
        vit_downsampler2             conv+    4*H 2*H 3 3
    """,
)  # fmt: skip
_STEP_PROJECTOR = TowerStyle(name="vit_large_projector", rows="vit_large_projector  column?B  O 4*H")


def build_step(builder: Builder) -> Skeleton:
    vision = builder.config.sub("vision_config")
    sizes = read_sizes(_PERCEPTION, vision)
    hidden, side = sizes["H"], sizes["S"] // max(1, sizes["P"])
    own = {
        "G": side,
        "D": hidden // max(1, sizes["A"]),
        "I": int(hidden * vision.number("mlp_ratio", default=8960 / 1536)),
        "scale": int(vision.has("ls_init_value")),
    }
    bias = int(builder.config.flag("projector_bias", default=False))
    between = {"H": hidden, "B": bias, "O": builder.text.integer("hidden_size")}
    layers, root = text_model(builder, "language_model.model", "language_model.lm_head")
    tokens = (side // 4) ** 2
    return Skeleton(
        layers,
        root,
        towers=(
            styled_tower(builder, _PERCEPTION, "vision_model", vision, own),
            styled_tower(builder, _STEP_PROJECTOR, "", vision, between),
        ),
        modalities=(Modality("image", tokens + 81 * 6),),  # the image and at most six crops of 504 pixels
    )


# --- HyperCLOVA X SEED vision, second generation ---------------------------------------------------------------------


def build_hyperclova(builder: Builder) -> Skeleton:
    """hyperclovax_vision_v2.py: Qwen2.5-VL's encoder, a linear layer, a HyperCLOVA X or a Llama."""
    vision = builder.config.sub("vision_config")
    tower, modalities = qwen2_5_vision(builder, "model.vision_model", vision)
    wide, hidden = vision.integer("out_hidden_size"), builder.text.integer("hidden_size")
    site = builder.site("model.mm_projector")
    linear = site.replicated("", hidden, wide, "multimodal", bias=True, quantised=False)
    layers, root = text_model(builder, "model.language_model.model", "model.language_model.lm_head")
    project: Tower = site.tower("mm_projector", "vision", [(1, [linear])])
    root = tied_outside(builder, root, "model.language_model.lm_head")
    return Skeleton(layers, root, towers=(tower, project), modalities=modalities)


# --- Isaac -----------------------------------------------------------------------------------------------------------

_ISAAC = TowerStyle(
    sizes=(
        ("H", "hidden_size=768"), ("I", "intermediate_size=3072"), ("A", "num_attention_heads=12"),
        ("N", "num_hidden_layers=12"), ("P", "patch_size=16"), ("L", "num_patches=256"),
    ),
    name="vision_embedding",
    rows="""
        0.embeddings.patch_embedding             whole+!  H 3*P*P
        0.embeddings.position_embedding.weight   tensor   L H
      each N
        0.encoder.layers.0.layer_norm1           norm+    H
        0.encoder.layers.0.self_attn             heads+   H A
        0.encoder.layers.0.self_attn.out_proj    row+     H H
        0.encoder.layers.0.layer_norm2           norm+    H
        0.encoder.layers.0.mlp.fc1               column+  I H
        0.encoder.layers.0.mlp.fc2               row+     H I
      then
        0.post_layernorm                         norm+    H
        1                                        column   4*H*M*M H*M*M
        3                                        row      O 4*H*M*M
    """,
)  # fmt: skip


def build_isaac(builder: Builder) -> Skeleton:
    vision = builder.config.sub("vision_config")
    fill(builder, QWEN3)
    merge = vision.integer("pixel_shuffle_scale_factor", default=1)
    own = {"M": merge, "O": builder.text.integer("hidden_size")}
    _, _, width = dims(builder.text, QWEN3)
    table = rope_of(builder.text, width)
    turned = replace(table, positions=4 * table.positions, params=(*table.params, ("mrope_section", 1.0)))
    pixels = builder.config.integer("vision_max_num_patches", default=6144) * 16 * 16
    return Skeleton(
        decoder_layers(builder, QWEN3, "text_model", rope=turned),
        decoder_root(builder, QWEN3, "text_model"),
        towers=(styled_tower(builder, _ISAAC, "vision_embedding", vision, own),),
        modalities=(_image(vision, merge, pixels),),
    )


def build_opencua(builder: Builder) -> Skeleton:
    """OpenCUA: Qwen2.5-VL's encoder, and a Qwen2 with plain positions (opencua.py)."""
    vision = builder.config.sub("vision_config")
    tower, _ = qwen2_5_vision(builder, "vision_tower", vision)
    layers, root = text_model(builder, "language_model.model", "language_model.lm_head")
    return Skeleton(layers, root, towers=(tower,), modalities=modalities_2(vision)[:1])


# --- LLaVA-OneVision 2 ----------------------------------------------------------------------------------------------

_ONEVISION_2 = TowerStyle(
    sizes=(*_VIT, ("P", "patch_size=14"), ("M", "spatial_merge_size=2"), ("C", "num_channels=3")),
    name="visual",
    rows="""
        embeddings.patch_embedding           conv     H C P P
        layernorm_pre                        norm+    H
        rotary_pos_emb.inv_freq_t            float32  4*U
        rotary_pos_emb.inv_freq_h            float32  6*U
        rotary_pos_emb.inv_freq_w            float32  6*U
      each N
        encoder.layers.0.layer_norm1         norm+    H
        encoder.layers.0.layer_norm2         norm+    H
        encoder.layers.0.self_attn.qkv       qkv+     H A
        encoder.layers.0.self_attn.proj      row+     H H
        encoder.layers.0.mlp.fc1             column+  I H
        encoder.layers.0.mlp.fc2             row+     H I
      then
        merger.ln_q                          norm+    H
        merger.mlp.0                         column+  H*M*M H*M*M
        merger.mlp.2                         row+     O H*M*M
    """,
)


def build_onevision2(builder: Builder) -> Skeleton:
    """llava_onevision2.py: the encoder gets no quantisation config; rotary frequencies in units of 16 per half head."""
    vision = builder.config.sub("vision_config")
    sizes = read_sizes(_ONEVISION_2, vision)
    unit = sizes["H"] // max(1, sizes["A"]) // 2 // 16
    own = {"U": unit, "O": builder.text.integer("hidden_size")}
    builder.text.fill(model_type="qwen3")
    layers, root = text_model(builder, "language_model.model", "language_model.lm_head")
    tower = styled_tower(builder, _ONEVISION_2, "visual", vision, own)
    plain = tuple(
        (times, builder.block([replace(m, scheme=None) if isinstance(m, Linear) else m for m in block.modules]))
        for times, block in tower.blocks
    )
    image = _image(vision, sizes["M"])
    return Skeleton(
        layers, root, towers=(replace(tower, blocks=plain),), modalities=(image, Modality("video", image.max_tokens))
    )
