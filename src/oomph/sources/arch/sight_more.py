"""More vision-language models that are a table each.

vLLM: models/glm4v.py, phi4siglip.py, kanana_v.py, bagel.py, step3_vl.py, molmo.py.
"""

from msgspec.structs import replace

from oomph.ir import Attention, Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Site, Skeleton, rope_of
from oomph.sources.arch.classic import build as classic
from oomph.sources.arch.decoder import (
    Names,
    Style,
    attention_modules,
    decoder_layers,
    decoder_root,
    dims,
    fill,
)
from oomph.sources.arch.lfm2 import siglip2
from oomph.sources.arch.llama import QWEN2
from oomph.sources.arch.llava import up_to, without
from oomph.sources.arch.qwen_vision import qwen2_vision
from oomph.sources.arch.siglip import siglip
from oomph.sources.arch.step3 import build as step3
from oomph.sources.arch.text import text_model
from oomph.sources.arch.towers import TowerStyle, styled_tower
from oomph.sources.config import Config

# --- GLM-4V (the first one, 9B): EVA-2-CLIP before a ChatGLM --------------------------------------------------------

_EVA = TowerStyle(
    sizes=(
        ("H", "hidden_size"), ("I", "intermediate_size"), ("A", "num_heads"), ("N", "num_hidden_layers"),
        ("P", "patch_size"), ("L", "num_positions"),
    ),
    name="vision",
    rows="""
        patch_embedding.cls_embedding              tensor    1 H
        patch_embedding.proj                       conv+     H 3 P P
        patch_embedding.position_embedding.weight  tensor    L H
      each N
        transformer.layers.0.input_layernorm              norm+    H
        transformer.layers.0.attention.query_key_value    qkv+     H A
        transformer.layers.0.attention.dense              row+     H H
        transformer.layers.0.mlp.fc1                      column+  I H
        transformer.layers.0.mlp.fc2                      row+     H I
        transformer.layers.0.post_attention_layernorm     norm+    H
      then
        linear_proj.linear_proj       whole    O O
        linear_proj.norm1             norm+    O
        linear_proj.gate_proj,linear_proj.dense_h_to_4h   pair   F O
        linear_proj.dense_4h_to_h     row      O F
        conv                          conv+    O H 2 2
        boi                           tensor   1 1 O
        eoi                           tensor   1 1 O
    """,
)  # fmt: skip


def build_glm4v(builder: Builder) -> Skeleton:
    config, vision = builder.config, builder.config.sub("vision_config")
    model = classic(builder, "ChatGLMModel")
    own = {"O": config.integer("hidden_size"), "F": config.integer("ffn_hidden_size")}
    tower = styled_tower(builder, _EVA, "transformer.vision", vision, own)
    side = vision.integer("image_size", default=1120) // vision.integer("patch_size") // 2
    return replace(model, towers=(tower,), modalities=(Modality("image", side * side + 2),))


# --- Phi-4 reasoning vision: SigLIP 2 up to its last layer but one, two linear layers, a Phi-3 ------------------------

_PHI = Style(names=Names(packed_qkv="qkv_proj", packed_gate_up="gate_up_proj"))
_TWO_LINEARS = TowerStyle(
    name="multi_modal_projector",
    rows="""
        linear_1    column+   O E
        linear_2    row+      O O
    """,
)


def build_phi4_siglip(builder: Builder) -> Skeleton:
    vision = builder.config.sub("vision_config")
    vision.fill(
        hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12, num_channels=3,
        patch_size=16, num_patches=256,
    )  # fmt: skip
    tower = siglip2(builder, "model.vision_tower.vision_model", vision)
    tower = without(up_to(tower, tower.layers - 1, 1), 3)
    own = {"O": builder.text.integer("hidden_size"), "E": builder.config.integer("mm_hidden_size")}
    return Skeleton(
        decoder_layers(builder, _PHI),
        decoder_root(builder, _PHI),
        towers=(tower, styled_tower(builder, _TWO_LINEARS, "model.mm_projector", vision, own)),
        modalities=(Modality("image", builder.config.integer("max_num_patches", default=3600)),),
    )


# --- Kanana-V: Qwen2-VL's encoder without its merger, convolutions, a Llama -------------------------------------------


def build_kanana(builder: Builder) -> Skeleton:
    config = builder.config
    vision, projector = config.sub("vision_config"), config.sub("projector_config")
    tower, modalities = qwen2_vision(builder, "vision_model", vision)
    layers, root = text_model(builder, "language_model.model", "language_model.lm_head")
    bare = replace(tower, blocks=tower.blocks[:2])
    return Skeleton(layers, root, towers=(bare, _abstractor(builder, projector)), modalities=modalities[:1])


def _abstractor(builder: Builder, config: Config) -> Tower:
    """kanana_v.py DynamicCAbstractor: two stages of timm's RegNet blocks around a merge, then linear layers."""
    site, depth = builder.site("abstractor"), config.integer("depth", default=0, low=0, high=100)
    encoder, hidden = config.integer("encoder_hidden_size"), config.integer("hidden_size")
    out, merge = config.integer("output_hidden_size"), config.integer("merge_size")
    modules: list[Module] = []
    if config.flag("pos_emb", default=True):
        modules.append(site.tensor("pos_emb", 1, config.integer("pos_emb_size"), encoder))
    for stage, wide in ((0, encoder), (2, merge * merge * hidden)) if depth else ():
        for block in range(1, depth + 1):
            inputs = wide if block == 1 else hidden
            modules += _reg_block(site, f"net.{stage}.b{block}", inputs, hidden)
    width = hidden if depth else encoder
    for number in range(config.integer("mlp_depth", default=2, high=100)):
        modules.append(
            site.replicated(f"readout.{2 * number}", out, width if number == 0 else out, "multimodal", bias=True,
                            quantised=False)
        )  # fmt: skip
    return site.tower("abstractor", "vision", [(1, modules)])


def _reg_block(site: Site, at: str, inputs: int, hidden: int) -> list[Module]:
    """timm regnet.py Bottleneck: a depthwise convolution and a squeeze to a quarter of the inputs."""
    squeeze = round(inputs / 4)
    shapes = [
        ("conv1", (hidden, inputs, 1, 1)), ("conv2", (hidden, 1, 3, 3)), ("conv3", (hidden, hidden, 1, 1)),
        *([("downsample", (hidden, inputs, 1, 1))] if inputs != hidden else []),
    ]  # fmt: skip
    modules: list[Module] = []
    for name, shape in shapes:
        modules.append(site.tensor(f"{at}.{name}.conv.weight", *shape))
        modules += [site.tensor(f"{at}.{name}.bn.{part}", hidden) for part in ("weight", "bias")]
    modules += site.convolution(f"{at}.se.fc1", squeeze, hidden, 1, 1)
    return [*modules, *site.convolution(f"{at}.se.fc2", hidden, squeeze, 1, 1)]


# --- BAGEL: SigLIP, two linear layers and a table of positions, a Qwen2 ----------------------------------------------

_BAGEL = TowerStyle(
    name="connector",
    rows="""
        connector.fc1               column+  O E
        connector.fc2               row+     O O
        vit_pos_embed.pos_embed     float32  Q*Q O
    """,
)


def build_bagel(builder: Builder) -> Skeleton:
    config, vision = builder.config, builder.config.sub("vit_config")
    fill(builder, QWEN2)
    # bagel.py: 27 layers are cut to 26
    if vision.integer("num_hidden_layers", default=27) == 27:
        vision = Config({**vision.raw, "num_hidden_layers": 26}, vision.where)
    vision.fill(vision_use_head=False)
    tower = siglip(builder, "vit_model.vision_model", vision)
    hidden, side = builder.text.integer("hidden_size"), config.integer("vit_max_num_patch_per_side", default=70)
    own = {"O": hidden, "E": vision.integer("hidden_size"), "Q": side}
    towers = (tower, styled_tower(builder, _BAGEL, "", vision, own)) if config.flag("visual_und", default=True) else ()
    return Skeleton(
        decoder_layers(builder, QWEN2, "language_model.model"),
        decoder_root(builder, QWEN2, "language_model.model", "language_model.lm_head"),
        towers=towers,
        modalities=(Modality("image", side * side),),
    )


# --- Step3-VL: CLIP's kind of encoder, two convolutions and a linear layer, a Step3 -----------------------------------

_STEP3 = TowerStyle(
    sizes=(
        ("H", "hidden_size=1792"), ("I", "intermediate_size=3072"), ("A", "num_attention_heads=16"),
        ("N", "num_hidden_layers=63"), ("P", "patch_size=14"), ("S", "image_size=728"),
        ("W", "output_hidden_size=4096"),
    ),
    name="vision_model",
    alone="attention",
    rows="""
        vision_model.embeddings.class_embedding             tensor     1 H
        vision_model.embeddings.patch_embedding             conv+      H 3 P P
        vision_model.embeddings.position_embedding.weight   tensor     Q H
        vision_model.embeddings.position_ids                positions  L
      each N
        vision_model.transformer.layers.0.self_attn.qkv       qkv+     H A
        vision_model.transformer.layers.0.self_attn.out_proj  row+     H H
        vision_model.transformer.layers.0.layer_norm1         norm+    H
        vision_model.transformer.layers.0.layer_norm2         norm+    H
        vision_model.transformer.layers.0.mlp.fc1             column+  I H
        vision_model.transformer.layers.0.mlp.fc2             row+     H I
      then
        vit_downsampler           conv+    W H 2 2
        vit_downsampler2          conv+    2*W W 3 3
        vit_large_projector       whole!?B O 2*W
    """,
)  # fmt: skip


def build_step3(builder: Builder) -> Skeleton:
    vision, model = builder.config.sub("vision_config"), step3(builder)
    patches = (vision.integer("image_size", default=728) // vision.integer("patch_size", default=14)) ** 2
    own = {
        "L": patches + 1, "Q": patches + 1, "O": builder.text.integer("hidden_size"),
        "B": int(builder.config.flag("projector_bias", default=True)),
    }  # fmt: skip
    return replace(
        model,
        towers=(styled_tower(builder, _STEP3, "", vision, own),),
        modalities=(Modality("image", 169 + 6 * 81),),  # the image and at most six crops of 504 pixels
    )


# --- Molmo: OpenAI's CLIP of fixed size, read at two depths, a Llama whose MLP halves its width -----------------------

_MOLMO_VISION = TowerStyle(
    name="vision_backbone",
    rows="""
        image_vit.class_embedding           tensor   H
        image_vit.positional_embedding      tensor   577 H
        image_vit.patch_embedding           whole!   H 588
        image_vit.pre_ln                    norm+    H
      each N
        image_vit.transformer.resblocks.0.attention          heads+   H A
        image_vit.transformer.resblocks.0.attention.wo       row+     H H
        image_vit.transformer.resblocks.0.feed_forward.w1    column+  I H
        image_vit.transformer.resblocks.0.feed_forward.w2    row+     H I
        image_vit.transformer.resblocks.0.attention_norm     norm+    H
        image_vit.transformer.resblocks.0.ffn_norm           norm+    H
      then
        image_pooling_2d.wq                 column+  H 2*H
        image_pooling_2d.wk                 column+  H 2*H
        image_pooling_2d.wv                 column+  H 2*H
        image_pooling_2d.wo                 row+     H H
        image_projector.w1,image_projector.w3   pair     F H
        image_projector.w2                  row      O F
        pad_embed                           tensor   2 2*H
    """,
)
_MOLMO = Style(qkv_bias=False, own_head_dim=False, window="none")
_EXTRA_ROWS = 128  # molmo.py ADDITIONAL_VOCAB_SIZE


def build_molmo(builder: Builder) -> Skeleton:
    """molmo.py VisionBackboneConfig has the encoder's sizes; intermediate_size is both halves of the MLP."""
    text = builder.text
    inner = text.integer("intermediate_size") // 2
    heads, kv, width = dims(text, _MOLMO)
    hidden = text.integer("hidden_size")
    own = {"H": 1024, "I": 4096, "A": 16, "N": 23, "F": inner, "O": hidden}
    style = replace(_MOLMO, qkv_bias=text.flag("qkv_bias"), o_bias=False)
    attention = Attention("full", heads, kv, width, width, rope=rope_of(text, width))
    normed = (("q_norm", heads * width), ("k_norm", kv * width)) if text.flag("attention_layer_norm") else ()
    layers = tuple(
        site.layer(
            [attention],
            [
                *attention_modules(builder, site, style, heads, kv, width),
                *(
                    Param(f"self_attn.{name}.weight", (size,), builder.dtype, "norm",
                          shard_dim=0 if name == "k_norm" else None)
                    for name, size in normed
                ),
                *site.gated_mlp(hidden, inner),
                *(site.norm(name, hidden) for name in ("input_layernorm", "post_attention_layernorm")),
            ],
        )
        for site in builder.sites("model.layers")
    )  # fmt: skip
    rows = text.integer("embedding_size", default=text.integer("vocab_size"))
    root = decoder_root(builder, _MOLMO, tied=text.flag("weight_tying"))
    sized = [
        replace(module, rows=rows + (_EXTRA_ROWS if module.role == "embed" else 0))
        if module.role in ("embed", "lm_head")
        else module
        for module in root.modules
    ]
    return Skeleton(
        layers,
        builder.block(sized),
        towers=(styled_tower(builder, _MOLMO_VISION, "vision_backbone", text, own),),
        modalities=(Modality("image", 144 * 13 + 200),),  # 12 crops and the image, with columns and ends of lines
    )
