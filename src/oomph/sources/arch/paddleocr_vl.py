"""PaddleOCR-VL: a SigLIP with rotary positions, a projector and an Ernie 4.5. vLLM: models/paddleocr_vl.py."""

from oomph.ir import Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import decoder_layers, decoder_root, fill
from oomph.sources.arch.dense import STYLES
from oomph.sources.arch.siglip import layer_norm, siglip

_PIXELS = 2822400  # the processor's max_pixels


def build(builder: Builder) -> Skeleton:
    style = STYLES["Ernie4_5ForCausalLM"]
    builder.text.fill(tie_word_embeddings=False)
    fill(builder, style)
    vision = builder.config.sub("vision_config")
    vision.fill(
        hidden_size=1152, intermediate_size=4304, num_hidden_layers=27, num_attention_heads=16, image_size=384,
        patch_size=14, spatial_merge_size=2,
    )  # fmt: skip
    tower = siglip(builder, "visual.vision_model", vision)
    half = vision.integer("hidden_size") // vision.integer("num_attention_heads") // 2
    table = Param("rotary_pos_emb.inv_freq", (half // 2,), "F32", "multimodal", stored=False, created_dtype="F32")
    angles = Tower("rotary_pos_emb", "vision", "visual", ((1, builder.block([table])),))
    unit = vision.integer("patch_size") * vision.integer("spatial_merge_size")
    return Skeleton(
        decoder_layers(builder, style),
        decoder_root(builder, style),
        towers=(tower, angles, _projector(builder, vision.integer("hidden_size"))),
        modalities=(Modality("image", _PIXELS // unit**2),),
    )


def _projector(builder: Builder, width: int) -> Tower:
    site, wide = builder.site("mlp_AR"), 4 * width
    modules: list[Module] = [
        *layer_norm(site, "pre_norm", width),
        site.replicated("linear_1", wide, wide, "multimodal", bias=True, quantised=False),
        site.replicated(
            "linear_2", builder.text.integer("hidden_size"), wide, "multimodal", bias=True, quantised=False
        ),
    ]
    return site.tower("mlp_AR", "vision", [(1, modules)])
