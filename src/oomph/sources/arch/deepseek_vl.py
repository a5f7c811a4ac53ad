"""DeepSeek-VL2 and DeepSeek-OCR 2: encoders of fixed size before a DeepSeek. vLLM: models/deepseek_vl2.py,
deepseek_ocr2.py."""

from msgspec.structs import replace

from oomph.ir import Modality, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.deepseek import language_model, sam
from oomph.sources.arch.towers import TowerStyle, styled_tower

_SO400M = TowerStyle(
    name="vision",
    rows="""
        pos_embed               tensor   1 729 H
        patch_embed.proj        conv+    H 3 14 14
      each N
        blocks.0.norm1          norm+    H
        blocks.0.attn.qkv       whole+!  3*H H
        blocks.0.attn.proj      whole+!  H H
        blocks.0.norm2          norm+    H
        blocks.0.mlp.fc1        column+  I H
        blocks.0.mlp.fc2        row+     H I
      then
        norm                    norm+    H
        attn_pool.latent        tensor   1 1 H
        attn_pool.q             whole+!  H H
        attn_pool.kv            whole+!  2*H H
        attn_pool.proj          whole+!  H H
        attn_pool.norm          norm+    H
        attn_pool.mlp.fc1       column+  I H
        attn_pool.mlp.fc2       row+     H I
    """,
)
_VL2_PROJECTOR = TowerStyle(
    name="projector",
    rows="""
        projector.layers.0      whole+!  R*E R*R_*R_*D   if deep
        projector.layers.2      whole+!  E R*E           if deep
        projector.layers        whole+!  E D             if flat
        image_newline           tensor   E               if line
        view_seperator          tensor   E               if grid
    """,
)


def _vl2_projector(builder: Builder, *, newline: bool, prefix: str = "") -> Tower:
    config = builder.config.sub("projector_config")
    deep = config.text("projector_type", default="downsample_mlp_gelu") == "downsample_mlp_gelu"
    grid = builder.config.text("tile_tag", default="2D") == "2D"
    sizes = {
        "R": config.integer("mlp_ratio", default=1), "R_": config.integer("downsample_ratio", default=2),
        "E": config.integer("n_embed", default=2048), "D": config.integer("input_dim", default=1152),
        "deep": int(deep), "flat": int(not deep), "grid": int(grid), "line": int(grid and newline),
    }  # fmt: skip
    rows = _VL2_PROJECTOR
    if deep:  # the layer reads all patches that are merged into one
        rows = replace(rows, rows=rows.rows.replace("R*E R*R_*R_*D", "R*E R_*R_*D"))
    return styled_tower(builder, rows, prefix, config, sizes)


def build_vl2(builder: Builder) -> Skeleton:
    """deepseek_vl2.py: timm's SigLIP so400m of fixed size; tensor parallelism splits its MLPs only."""
    sizes = {"H": 1152, "I": 4304, "A": 16, "N": 27}
    vision = styled_tower(builder, _SO400M, "vision", builder.config.sub("vision_config"), sizes)
    return language_model(
        builder,
        "language.model",
        "language.lm_head",
        towers=(vision, _vl2_projector(builder, newline=True)),
        modalities=(Modality("image", 10 * 14 * 15 + 1),),
    )


_QWEN_ENCODER = TowerStyle(
    name="qwen2_model",
    rows="""
        query_768.weight         tensor   144 H
        query_1024.weight        tensor   256 H
      each N
        model.layers.0.self_attn.q_proj   whole+!  H H
        model.layers.0.self_attn.k_proj   whole+!  128 H
        model.layers.0.self_attn.v_proj   whole+!  128 H
        model.layers.0.self_attn.o_proj   whole!   H H
        model.layers.0.mlp.gate_proj      whole!   I H
        model.layers.0.mlp.up_proj        whole!   I H
        model.layers.0.mlp.down_proj      whole!   H I
        model.layers.0.input_layernorm    norm     H
        model.layers.0.post_attention_layernorm   norm   H
      then
        model.norm               norm     H
        model.rotary_emb.inv_freq            float32  32
        model.rotary_emb.original_inv_freq   float32  32
    """,
)


def build_ocr2(builder: Builder) -> Skeleton:
    """deepseek_ocr2.py: SAM-B, then a small Qwen2 of fixed size that reads learned queries."""
    encoder = styled_tower(
        builder, _QWEN_ENCODER, "model.qwen2_model", builder.config, {"H": 896, "I": 4864, "A": 14, "N": 24}
    )
    return language_model(
        builder,
        "model",
        "lm_head",
        towers=(sam(builder, 896), encoder, _vl2_projector(builder, newline=False, prefix="model")),
        modalities=(Modality("image", 256 + 6 * 144 + 1),),
    )
