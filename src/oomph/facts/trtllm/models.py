"""The model classes of TensorRT-LLM's PyTorch backend (`_torch/models`, register_auto_model), by release.

What no class is registered for ends with modeling_auto.py's ValueError. The names are those that its main branch
registers in 2026 (`_arch_index.py`). Those that are not in the list of supported models of the newest finished release
came with a candidate of 1.3.0: Cohere2 and Kimi-K2.5 with rc7, GLM-5 and Qwen3.5 with rc9 (release notes), the others
not before rc10 (models that were published after rc9); where it was later, a plan says "fits" too early. Classes that
came between 0.20 and 1.2 were not read release by release: they count for all of them.
"""

from oomph.facts.changes import Facts, changes, names
from oomph.facts.trtllm.versions import dated

_ALL = frozenset(
    names("""
    BertForSequenceClassification CLIPVisionModel DeciLMForCausalLM DeepseekV32ForCausalLM DeepseekV3ForCausalLM
    Exaone4ForCausalLM ExaoneMoEForCausalLM Gemma3ForCausalLM Gemma3ForConditionalGeneration Glm4MoeForCausalLM
    GptOssForCausalLM HCXVisionForCausalLM HunYuanDenseV1ForCausalLM HunYuanMoEV1ForCausalLM
    Llama4ForConditionalGeneration LlamaForCausalLM LlavaLlamaModel LlavaNextForConditionalGeneration
    MiniMaxM2ForCausalLM Mistral3ForConditionalGeneration MistralForCausalLM MistralLarge3ForCausalLM
    MixtralForCausalLM MllamaForConditionalGeneration NemotronForCausalLM NemotronHForCausalLM
    NemotronHPuzzleForCausalLM NemotronH_Nano_VL_V2 Phi3ForCausalLM Phi4MMForCausalLM PixtralForConditionalGeneration
    PixtralVisionModel Qwen2ForCausalLM Qwen2ForProcessRewardModel Qwen2ForRewardModel Qwen2MoeForCausalLM
    Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration Qwen3ForCausalLM Qwen3ForTextEmbedding
    Qwen3MoeForCausalLM Qwen3NextForCausalLM Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration
    SeedOssForCausalLM SiglipVisionModel Starcoder2ForCausalLM
""")
)
_RC7 = frozenset(names("Cohere2ForCausalLM KimiK25ForConditionalGeneration"))
_RC9 = frozenset(
    names("""
    GlmMoeDsaForCausalLM Qwen3_5ForCausalLM Qwen3_5ForConditionalGeneration Qwen3_5MoeForCausalLM
    Qwen3_5MoeForConditionalGeneration
""")
)
_RC10 = frozenset(
    names("""
    AfmoeForCausalLM BartForConditionalGeneration Cosmos3ForConditionalGeneration DeepseekV4ForCausalLM
    Exaone4_5_ForConditionalGeneration Gemma4AssistantForCausalLM Gemma4ForCausalLM Gemma4ForConditionalGeneration
    Gemma4UnifiedForConditionalGeneration KimiK3ForConditionalGeneration KimiLinearForCausalLM LagunaForCausalLM
    MBartForConditionalGeneration MiniCPMV4_6ForConditionalGeneration MiniMaxM3SparseForCausalLM
    MiniMaxM3SparseForConditionalGeneration NemotronH_Nano_Omni_Reasoning_V3 QwenImageBenchForConditionalGeneration
    Step3p5ForCausalLM Step3p7ForConditionalGeneration T5ForConditionalGeneration WhisperForConditionalGeneration
""")
)


class Models(Facts):
    classes = changes(
        _ALL,
        (dated("1.3.0rc7"), _ALL | _RC7),
        (dated("1.3.0rc9"), _ALL | _RC7 | _RC9),
        (dated("1.3.0rc10"), _ALL | _RC7 | _RC9 | _RC10),
    )
