"""The families: which file builds which architecture. A new family is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from oomph.sources.arch.base import Builder, Skeleton

# architecture name in config.json -> module in this package
FAMILIES: dict[str, str] = {
    "AquilaForCausalLM": "dense",
    "ArceeForCausalLM": "dense",
    "BambaForCausalLM": "bamba",
    "Cohere2ForCausalLM": "llama",
    "CohereForCausalLM": "llama",
    "DeciLMForCausalLM": "decilm",
    "DeepseekV2ForCausalLM": "deepseek",
    "DeepseekV32ForCausalLM": "deepseek",
    "DeepseekV3ForCausalLM": "deepseek",
    "DeepseekV4ForCausalLM": "deepseek_v4",
    "Ernie4_5ForCausalLM": "dense",
    "Exaone4ForCausalLM": "dense",
    "FalconH1ForCausalLM": "falcon_h1",
    "Gemma2ForCausalLM": "gemma",
    "Gemma3ForCausalLM": "gemma",
    "Gemma3ForConditionalGeneration": "gemma",
    "Gemma3nForCausalLM": "gemma3n",
    "Gemma3nForConditionalGeneration": "gemma3n",
    "Gemma4ForCausalLM": "gemma4",
    "Gemma4ForConditionalGeneration": "gemma4",
    "GemmaForCausalLM": "gemma",
    "Glm4ForCausalLM": "dense",
    "Glm4MoeForCausalLM": "glm4_moe",
    "GlmForCausalLM": "dense",
    "GlmMoeDsaForCausalLM": "deepseek",
    "GptOssForCausalLM": "gpt_oss",
    "GraniteForCausalLM": "dense",
    "GraniteMoeForCausalLM": "granite_moe",
    "GraniteMoeHybridForCausalLM": "granite_moe",
    "GraniteMoeSharedForCausalLM": "granite_moe",
    "HunYuanDenseV1ForCausalLM": "dense",
    "InternLM2ForCausalLM": "dense",
    "InternLM3ForCausalLM": "dense",
    "JambaForCausalLM": "jamba",
    "KimiK25ForConditionalGeneration": "kimi",
    "KimiK3ForConditionalGeneration": "kimi_linear",
    "KimiLinearForCausalLM": "kimi_linear",
    "LagunaForCausalLM": "laguna",
    "Llama4ForCausalLM": "llama4",
    "Llama4ForConditionalGeneration": "llama4",
    "LlamaForCausalLM": "llama",
    "MiMoForCausalLM": "mimo",
    "MiMoV2FlashForCausalLM": "mimo",
    "MiniMaxM2ForCausalLM": "minimax_m2",
    "MiniMaxM3ForCausalLM": "minimax_m3",
    "MiniMaxM3SparseForCausalLM": "minimax_m3",
    "MiniMaxM3SparseForConditionalGeneration": "minimax_m3",
    "Mistral3ForConditionalGeneration": "pixtral",
    "MistralForCausalLM": "llama",
    "MixtralForCausalLM": "moe",
    "MuseGlimmerForConditionalGeneration": "muse_glimmer",
    "NemotronForCausalLM": "dense",
    "NemotronHForCausalLM": "nemotron_h",
    "Olmo2ForCausalLM": "dense",
    "Olmo3ForCausalLM": "dense",
    "PaliGemmaForConditionalGeneration": "gemma",
    "Phi3ForCausalLM": "llama",
    "PhiForCausalLM": "dense",
    "Qwen2ForCausalLM": "llama",
    "Qwen2MoeForCausalLM": "moe",
    "Qwen2VLForConditionalGeneration": "qwen_vl",
    "Qwen2_5_VLForConditionalGeneration": "qwen_vl",
    "Qwen3ForCausalLM": "llama",
    "Qwen3MoeForCausalLM": "moe",
    "Qwen3NextForCausalLM": "qwen_gdn",
    "Qwen3VLForConditionalGeneration": "qwen_vl",
    "Qwen3VLMoeForConditionalGeneration": "qwen_vl",
    "Qwen3_5ForCausalLM": "qwen_gdn",
    "Qwen3_5ForConditionalGeneration": "qwen_gdn",
    "Qwen3_5MoeForCausalLM": "qwen_gdn",
    "Qwen3_5MoeForConditionalGeneration": "qwen_gdn",
    "SeedOssForCausalLM": "dense",
    "SmolLM3ForCausalLM": "dense",
    "StableLmForCausalLM": "dense",
    "Starcoder2ForCausalLM": "dense",
    "Step3p7FlashForCausalLM": "step3p7",
    "Step3p7ForConditionalGeneration": "step3p7",
    "XverseForCausalLM": "dense",
}


def family(architecture: str) -> Callable[[Builder], Skeleton] | None:
    name = FAMILIES.get(architecture)
    if name is None:
        return None
    build: Callable[[Builder], Skeleton] = import_module(f"oomph.sources.arch.{name}").build
    return build
