"""The language model inside a multimodal one, by the architecture or the model_type that its own config names."""

from msgspec.structs import replace

from oomph.errors import UnknownCache
from oomph.ir import Block, Layer
from oomph.sources.arch.base import Builder
from oomph.sources.arch.decoder import Mlp, Style, decoder_layers, decoder_root, fill
from oomph.sources.arch.dense import STYLES as DENSE
from oomph.sources.arch.llama import STYLES as LLAMA
from oomph.sources.arch.moe import QWEN2_MOE, QWEN3_MOE, qwen_moe_mlp

_STYLES: dict[str, Style] = {
    **DENSE,
    **LLAMA,
    "Qwen2MoeForCausalLM": QWEN2_MOE,
    "Qwen3MoeForCausalLM": QWEN3_MOE,
}
_TYPES = {
    "hyperclovax": "HyperCLOVAXForCausalLM",
    "cohere2": "Cohere2ForCausalLM",
    "glm4": "Glm4ForCausalLM",
    "granite": "GraniteForCausalLM",
    "granite4_vision_text": "GraniteForCausalLM",
    "internlm2": "InternLM2ForCausalLM",
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen2_5": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
}


def text_model(builder: Builder, prefix: str, head: str) -> tuple[tuple[Layer, ...], Block]:
    """`prefix` and `head` as the checkpoint names them: "language_model.model", "language_model.lm_head"."""
    name = next((a for a in builder.text.items("architectures") if isinstance(a, str)), "")
    name = name or _TYPES.get(builder.text.text("model_type", default="llama"), "")
    style = _STYLES.get(name)
    if style is None:
        raise UnknownCache(
            f"the language model {name or builder.text.text('model_type')} inside this model is not known"
        )
    fill(builder, style)
    if builder.text.flag("use_post_norm") and name == "HyperCLOVAXForCausalLM":
        style = replace(style, norms=(*style.norms, "post_norm1", "post_norm2"))
    mlp: Mlp | None = qwen_moe_mlp(builder, style) if style in (QWEN2_MOE, QWEN3_MOE) else None
    tied = builder.text.flag("tie_word_embeddings")
    return decoder_layers(builder, style, prefix, mlp), decoder_root(builder, style, prefix, head, tied=tied)
