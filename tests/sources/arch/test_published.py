"""Parameter counts that the Hub shows for well-known releases, from their sizes alone."""

from __future__ import annotations

from typing import Any

import pytest
from arch_build import build


def _sizes(hidden: int, inner: int, layers: int, heads: int, kv: int, vocab: int, **more: Any) -> dict[str, Any]:
    return {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "vocab_size": vocab,
        "rope_theta": 1e6,
        "torch_dtype": "bfloat16",
        **more,
    }


_TIED = {"tie_word_embeddings": True}
_QWEN_MOE = {"moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_experts": 60}
_VIT = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}
_INTERNVL = {
    "llm_config": _sizes(3584, 18944, 28, 28, 4, 151674, architectures=["Qwen2ForCausalLM"]),
    "vision_config": _VIT,
}
_LLAVA = {"text_config": {"model_type": "llama", "vocab_size": 32064}, "vision_config": {}, "torch_dtype": "float16"}
_QWEN2_VISION = {"depth": 32, "embed_dim": 1280, "num_heads": 16, "hidden_size": 3584}


@pytest.mark.parametrize(
    ("name", "architecture", "config", "count"),
    [
        ("Qwen2.5-0.5B", "Qwen2ForCausalLM", _sizes(896, 4864, 24, 14, 2, 151936, **_TIED), 494_032_768),
        ("Qwen2.5-32B", "Qwen2ForCausalLM", _sizes(5120, 27648, 64, 40, 8, 152064), 32_763_876_352),
        ("Qwen3-4B", "Qwen3ForCausalLM", _sizes(2560, 9728, 36, 32, 8, 151936, **_TIED), 4_022_468_096),
        ("Llama-3.2-1B", "LlamaForCausalLM", _sizes(2048, 8192, 16, 32, 8, 128256, **_TIED), 1_235_814_400),
        ("Mistral-Nemo", "MistralForCausalLM", _sizes(5120, 14336, 40, 32, 8, 131072, head_dim=128), 12_247_782_400),
        ("Phi-4-mini", "Phi3ForCausalLM", _sizes(3072, 8192, 32, 24, 8, 200064, **_TIED), 3_836_021_760),
        ("phi-2", "PhiForCausalLM", _sizes(2560, 10240, 32, 32, 32, 51200), 2_779_683_840),
        ("OLMo-2-7B", "Olmo2ForCausalLM", _sizes(4096, 11008, 32, 32, 32, 100352), 7_298_617_344),
        ("Granite 3.1 8B", "GraniteForCausalLM", _sizes(4096, 12800, 40, 32, 8, 49155, **_TIED), 8_170_848_256),
        ("StarCoder2-7B", "Starcoder2ForCausalLM", _sizes(4608, 18432, 32, 36, 4, 49152), 7_173_923_840),
        ("SmolLM3-3B", "SmolLM3ForCausalLM", _sizes(2048, 11008, 36, 16, 4, 128256), 3_075_098_624),
        ("Qwen1.5-MoE", "Qwen2MoeForCausalLM", _sizes(2048, 5632, 24, 16, 16, 151936, **_QWEN_MOE), 14_315_784_192),
        ("OLMoE", "OlmoeForCausalLM", _sizes(2048, 1024, 16, 16, 16, 50304), 6_919_161_856),
        ("Phi-3.5-MoE", "PhiMoEForCausalLM", _sizes(4096, 6400, 32, 32, 8, 32064), 41_873_153_344),
        ("InternLM2.5-7B", "InternLM2ForCausalLM", _sizes(4096, 14336, 32, 32, 8, 92544), 7_737_708_544),
        ("GLM-4-9B-0414", "Glm4ForCausalLM", _sizes(4096, 13696, 40, 32, 2, 151552), 9_400_279_040),
        ("Seed-OSS-36B", "SeedOssForCausalLM", _sizes(5120, 27648, 64, 80, 8, 155136), 36_151_104_512),
        (
            "Qwen2-VL-7B",
            "Qwen2VLForConditionalGeneration",
            _sizes(3584, 18944, 28, 28, 4, 152064, vision_config=_QWEN2_VISION),
            8_291_375_616,
        ),
        ("LLaVA-1.5-7B", "LlavaForConditionalGeneration", _LLAVA, 7_063_427_072),
        ("InternVL3-8B", "InternVLChatModel", _INTERNVL, 7_944_373_760),
    ],
)
def test_published(name: str, architecture: str, config: dict[str, Any], count: int) -> None:
    assert build(architecture, **config).elements == count, name
