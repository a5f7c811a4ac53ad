"""Moondream 3, OpenVLA and Granite 4 vision. vLLM: models/moondream3.py, openvla.py, granite4_vision.py."""

from msgspec.structs import replace

from oomph.errors import UnknownCache
from oomph.ir import Attention, Linear, Modality, Module, Param, Part, Tower, Vocab
from oomph.sources.arch.base import Builder, Site, Skeleton, rope_of
from oomph.sources.arch.decoder import norm
from oomph.sources.arch.siglip import siglip
from oomph.sources.arch.text import text_model
from oomph.sources.arch.towers import TowerStyle, styled_tower
from oomph.sources.config import Config

# --- Moondream 3 -----------------------------------------------------------------------------------------------------

_MOON_VISION = TowerStyle(
    sizes=(
        ("H", "enc_dim=1152"), ("I", "enc_ff_dim=4304"), ("A", "enc_n_heads=16"), ("N", "enc_n_layers=27"),
        ("P", "enc_patch_size=14"), ("W", "proj_inner_dim=8192"), ("S", "crop_size=378"),
    ),
    name="vision",
    rows="""
        pos_emb                tensor   1 L H
        patch_emb              whole+!  H 3*P*P
      each N
        blocks.0.ln1           norm+    H
        blocks.0.attn.qkv      qkv+     H A
        blocks.0.attn.proj     row+     H H
        blocks.0.ln2           norm+    H
        blocks.0.mlp.fc1       column+  I H
        blocks.0.mlp.fc2       row+     H I
      then
        post_ln                norm+    H
        proj_mlp.fc1           column+  W 2*H
        proj_mlp.fc2           row+     O W
    """,
)  # fmt: skip


def build_moondream(builder: Builder) -> Skeleton:
    """moondream3.py: config.json keeps `text` and `vision` below `config`; experts are dealt out whole to the ranks."""
    both = builder.config.sub("config")
    text, vision = both.sub("text"), both.sub("vision")
    hidden, heads = text.integer("dim", default=2048), text.integer("n_heads", default=32)
    kv, inner = text.integer("n_kv_heads", default=32), text.integer("ff_dim", default=8192)
    rows, context = text.integer("vocab_size", default=51200), text.integer("max_context", default=4096)
    builder.text.fill(
        hidden_size=hidden, vocab_size=rows, num_attention_heads=heads, num_key_value_heads=kv,
        max_position_embeddings=context, rope_theta=text.number("rope_theta", default=1.5e6), partial_rotary_factor=0.5,
    )  # fmt: skip
    width = hidden // heads
    attention = Attention("full", heads, kv, width, width, rope=rope_of(builder.text, width))
    layers = tuple(
        site.layer([attention], _moon_layer(site, text, attention, hidden, inner))
        for site in builder.sites("model.text.blocks", text.integer("n_layers", default=24, high=10_000))
    )
    root: list[Module] = [
        # every stage builds all of these
        Vocab("model.text.wte", rows, hidden, builder.dtype, "embed", everywhere=True),
        *(
            Param(f"model.text.post_ln.{part}", (hidden,), builder.dtype, "norm", everywhere=True)
            for part in ("weight", "bias")
        ),
        Vocab("model.text.lm_head", rows, hidden, builder.dtype, "lm_head", bias=True, everywhere=True),
    ]
    side = vision.integer("crop_size", default=378) // vision.integer("enc_patch_size", default=14)
    tower = styled_tower(builder, _MOON_VISION, "model.vision", vision, {"L": side * side, "O": hidden})
    return Skeleton(
        layers,
        builder.block(root),
        towers=(tower,),
        modalities=(Modality("image", side * side),),
        max_position=context,
    )


def _moon_layer(site: Site, text: Config, attention: Attention, hidden: int, inner: int) -> list[Module]:
    moe, dtype = text.sub("moe"), site.b.dtype
    heads, kv, width = attention.num_heads, attention.num_kv_heads, attention.head_dim
    wide = (heads + 2 * kv) * width
    parts = (
        Part("attn.qkv", wide, created=False),
        *(Part(f"attn.{q}", n * width, n, stored=False) for q, n in (("q", heads), ("k", kv), ("v", kv))),
    )
    scheme = site.b.scheme([f"{site.prefix}.attn.qkv"])
    modules: list[Module] = [
        *norm(site, "ln", hidden, True),
        Param("attn.tau.alpha", (heads,), dtype, "attention", shard_dim=0),
        Param("attn.tau.wq", (heads, wide), dtype, "attention", shard_dim=0),
        Param("attn.tau.wv", (heads, wide), dtype, "attention", shard_dim=0),
        Linear(
            "attn.qkv",
            parts=parts,
            in_features=hidden,
            shard="column",
            role="attention",
            dtype=dtype,
            bias=True,
            scheme=scheme,
        ),
        site.row("attn.proj", hidden, heads * width, "attention", bias=True),
    ]
    if site.index < moe.integer("start_layer", default=4, low=0):
        up = site.column("mlp.fc1", inner, hidden, "mlp", bias=True)
        return [*modules, up, site.row("mlp.fc2", hidden, inner, "mlp", bias=True)]
    count, narrow = moe.integer("n_experts", default=64), moe.integer("expert_inner_dim", default=1024)
    return [
        *modules,
        Param("mlp.fc1.weight", (count, 2 * narrow, hidden), dtype, "experts", shard_dim=0),
        Param("mlp.fc2.weight", (count, hidden, narrow), dtype, "experts", shard_dim=0),
        site.replicated("mlp.router", count, hidden, "router", bias=True, quantised=False),
        Param("mlp.expert_map", (count,), "I32", "experts", stored=False, created_dtype="I32"),
        Param("mlp.fused_bias", (count, 2 * narrow), "F32", "experts", shard_dim=0, stored=False, created_dtype="F32"),
    ]


# --- OpenVLA: timm's DINOv2 and SigLIP side by side, a Llama ---------------------------------------------------------

_PRISMATIC = TowerStyle(
    name="vision_backbone",
    rows="""
        featurizer.cls_token               tensor   1 1 1024
        featurizer.reg_token               tensor   1 4 1024
        featurizer.pos_embed               tensor   1 L 1024
        featurizer.patch_embed.proj        conv+    1024 3 14 14
      each 24
        featurizer.blocks.0.norm1          norm+    1024
        featurizer.blocks.0.attn.qkv       whole+!  3072 1024
        featurizer.blocks.0.attn.proj      whole+!  1024 1024
        featurizer.blocks.0.ls1.gamma      tensor   1024
        featurizer.blocks.0.norm2          norm+    1024
        featurizer.blocks.0.mlp.fc1        whole+!  4096 1024
        featurizer.blocks.0.mlp.fc2        whole+!  1024 4096
        featurizer.blocks.0.ls2.gamma      tensor   1024
      then
        featurizer.norm                    norm+    1024
        fused_featurizer.pos_embed         tensor   1 L 1152
        fused_featurizer.patch_embed.proj  conv+    1152 3 14 14
      each 27
        fused_featurizer.blocks.0.norm1       norm+    1152
        fused_featurizer.blocks.0.attn.qkv    whole+!  3456 1152
        fused_featurizer.blocks.0.attn.proj   whole+!  1152 1152
        fused_featurizer.blocks.0.norm2       norm+    1152
        fused_featurizer.blocks.0.mlp.fc1     whole+!  4304 1152
        fused_featurizer.blocks.0.mlp.fc2     whole+!  1152 4304
      then
        fused_featurizer.norm                 norm+    1152
        fused_featurizer.attn_pool.latent     tensor   1 1 1152
        fused_featurizer.attn_pool.q          whole+!  1152 1152
        fused_featurizer.attn_pool.kv         whole+!  2304 1152
        fused_featurizer.attn_pool.proj       whole+!  1152 1152
        fused_featurizer.attn_pool.norm       norm+    1152
        fused_featurizer.attn_pool.mlp.fc1    whole+!  4304 1152
        fused_featurizer.attn_pool.mlp.fc2    whole+!  1152 4304
    """,
)
_PRISMATIC_PROJECTOR = TowerStyle(
    name="projector",
    rows="""
        fc1    column+  8704 2176
        fc2    row+     O 8704
        fc3    whole+   O O
    """,
)
_PRISMATIC_ENCODERS = ["vit_large_patch14_reg4_dinov2.lvd142m", "vit_so400m_patch14_siglip_224"]


def build_openvla(builder: Builder) -> Skeleton:
    config = builder.config
    if config.items("timm_model_ids") not in ([], _PRISMATIC_ENCODERS):
        raise UnknownCache(f"{config.where}: other encoders than OpenVLA 7B's are not known")
    size = (config.integers("image_sizes") or [224])[0]
    layers, root = text_model(builder, "language_model.model", "language_model.lm_head")
    patches, hidden = (size // 14) ** 2, builder.text.integer("hidden_size")
    return Skeleton(
        layers,
        root,
        towers=(
            styled_tower(builder, _PRISMATIC, "vision_backbone", config, {"L": patches}),
            styled_tower(builder, _PRISMATIC_PROJECTOR, "projector", config, {"O": hidden}),
        ),
        modalities=(Modality("image", patches),),
    )


# --- Granite 4 vision: SigLIP read at several depths, a window Q-Former for each -------------------------------------

_WINDOW_QFORMER = TowerStyle(
    name="projectors",
    rows="""
      each K
        query                        tensor   1 U*U H
        image_positions              tensor   1 V*V H
        norm                         norm+    H
        qformer.layernorm            norm+    H
        attention.query              whole+!  H H
        attention.key                whole+!  H H
        attention.value              whole+!  H H
        attention.output.dense       whole+!  H H
        attention.output.LayerNorm   norm+    H
        crossattention.query         whole+!  H H
        crossattention.key           whole+!  H H
        crossattention.value         whole+!  H H
        crossattention.output.dense  whole+!  H H
        crossattention.output.LayerNorm   norm+    H
        intermediate_query.dense     whole+!  3072 H
        output_query.dense           whole+!  H 3072
        output_query.LayerNorm       norm+    H
        out_linear                   whole+!  O H
    """,
)


def build_granite(builder: Builder) -> Skeleton:
    config, vision = builder.config, builder.config.sub("vision_config")
    vision.fill(vision_use_head=False)
    tower = siglip(builder, "model.vision_tower.vision_model", vision)
    rate = config.text("downsample_rate", default="4/8").partition("/")
    sides = [int(part) if part.isdigit() else 1 for part in (rate[0], rate[2])]
    hidden = builder.text.integer("hidden_size")
    many = len(config.items("deepstack_layer_map")) + 4  # granite4_vision.py: four corners of the spatial one
    sizes = {"K": many, "U": sides[0], "V": sides[1], "H": vision.integer("hidden_size"), "O": hidden}
    layers, root = text_model(builder, "model.language_model", "lm_head")
    line = Param("image_newline", (hidden,), builder.dtype, "multimodal")
    tile = (vision.integer("image_size") // vision.integer("patch_size") * sides[0] // max(1, sides[1])) ** 2
    levels = many - 4 + len(config.items("spatial_target_layers"))
    return Skeleton(
        layers,
        root,
        towers=(
            replace(tower, blocks=tower.blocks[:2]),
            Tower("image_newline", "vision", "model", ((1, builder.block([line])),)),
            styled_tower(builder, _WINDOW_QFORMER, "model.projectors", vision, sizes),
        ),
        modalities=(Modality("image", tile * 10),),
        params=(("deepstack_levels", levels),) if levels else (),
    )
