"""Which models give their vocabulary LoRA slots, by release (`embedding_modules` of the model classes)."""

from oomph.facts.changes import Facts, changes, members

DEFAULT_RANK, DEFAULT_LORAS = 16, 1  # config/lora.py
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # the same file, possible_max_ranks

_ALWAYS = """ApertusForCausalLM Cohere2ForCausalLM CohereForCausalLM CwmForCausalLM DeciLMForCausalLM
Ernie4_5ForCausalLM Exaone4ForCausalLM ExaoneForCausalLM FalconH1ForCausalLM GlmForCausalLM GraniteForCausalLM
GraniteMoeForCausalLM GraniteMoeHybridForCausalLM GraniteMoeSharedForCausalLM InternLM3ForCausalLM JambaForCausalLM
LLaMAForCausalLM Lfm2ForCausalLM Lfm2MoeForCausalLM Llama4ForCausalLM LlamaForCausalLM LlamaModel MiniCPM3ForCausalLM
MiniCPMForCausalLM MixtralForCausalLM NemotronForCausalLM NemotronHForCausalLM Phi3ForCausalLM PhiMoEForCausalLM
SolarForCausalLM TeleChat2ForCausalLM TeleFLMForCausalLM"""

# Classes whose tied head is the embedding itself (`self.lm_head = self.model.embed_tokens`): LoRAModelManager visits it
# under both names and gives it slots twice (lora/model_manager.py:432, 0.26.0; 18.9 MiB more in a measured start-up).
HEAD_IS_EMBEDDING = frozenset({
    "Olmo3ForCausalLM", "Param2MoEForCausalLM", "Qwen3ForCausalLM", "Qwen3_5ForCausalLM", "SeedOssForCausalLM",
})  # fmt: skip

# Classes that are SupportsLoRA in no release from 0.8.0 to 0.32.0 that has them, by the class headers of every wheel
# (and of the NVIDIA variant where a class has several): v1/worker/lora_model_runner_mixin.py load_lora_model refuses
# them once their weights are loaded.
_WITHOUT = """AriaForConditionalGeneration BailingMoeV2_5ForCausalLM BeeForConditionalGeneration BertForMaskedLM
BertForSequenceClassification BertForTokenClassification BloomForCausalLM CLIPModel Cohere2MoeForCausalLM
Cohere2VisionForConditionalGeneration ColBERTJinaRobertaModel ColBERTLfm2Model ColBERTModernBertModel
ColModernVBertForRetrieval Cosmos3EdgeForConditionalGeneration DbrxForCausalLM DeepseekVLV2ForCausalLM
DiffusionGemmaForBlockDiffusion EmbeddingGemma2Model FalconForCausalLM FalconMambaForCausalLM
FireRedASR2ForConditionalGeneration FunASRForConditionalGeneration FunAudioChatForConditionalGeneration
GPT2ForSequenceClassification GPT2LMHeadModel GPTJForCausalLM Gemma3TextModel Gemma3nForCausalLM
Gemma3nForConditionalGeneration GteModel GteNewForSequenceClassification GteNewModel HCXVisionV2ForCausalLM
HfMoondream HrmTextForCausalLM IQuestLoopCoderForCausalLM JinaForRanking KananaVForConditionalGeneration
KimiK25ForConditionalGeneration KimiK3ForConditionalGeneration KimiLinearForCausalLM KimiVLForConditionalGeneration
LlavaOnevision2ForConditionalGeneration LlavaOnevisionForConditionalGeneration MPTForCausalLM Mamba2ForCausalLM
MambaForCausalLM MiDashengLMModel MiMoV2FlashForCausalLM MiMoV2ForCausalLM MiniMaxForCausalLM MiniMaxM1ForCausalLM
MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration MiniMaxText01ForCausalLM
ModernBertForSequenceClassification ModernBertForTokenClassification Moondream3ForCausalLM MoonshotKimiaForCausalLM
MossTranscribeDiarizeForConditionalGeneration NemotronParseForConditionalGeneration NomicBertModel
OpenAIPrivacyFilterForTokenClassification OpenVLAForActionPrediction OrionForCausalLM Ovis Ovis2_5
Ovis2_6ForCausalLM Ovis2_6_MoeForCausalLM PaddleOCRVLForConditionalGeneration Phi3VForCausalLM Phi4ForCausalLMV
Qwen2AudioForConditionalGeneration RForConditionalGeneration RWForCausalLM RobertaForTokenClassification SiglipModel
SkyworkR1VChatModel StableLmForCausalLM Step1ForCausalLM Step3TextForCausalLM Step3VLForConditionalGeneration
Step3p5ForCausalLM Step3p7ForConditionalGeneration StepVLForConditionalGeneration XLMRobertaForTokenClassification
Zamba2ForCausalLM"""
# what vLLM calls such a class where it is not the architecture's name
_CLASSES = {
    "BailingMoeV2_5ForCausalLM": "BailingMoeV25ForCausalLM",
    "CLIPModel": "CLIPEmbeddingModel",
    "DiffusionGemmaForBlockDiffusion": "DiffusionGemmaForConditionalGeneration",
    "FalconMambaForCausalLM": "MambaForCausalLM",
    "Gemma3TextModel": "Gemma3Model",
    "GteModel": "SnowflakeGteNewModel",
    "HfMoondream": "Moondream3ForCausalLM",
    "MoonshotKimiaForCausalLM": "KimiAudioForConditionalGeneration",
    "Ovis2_6ForCausalLM": "Ovis2_5",
    "Ovis2_6_MoeForCausalLM": "Ovis2_5",
    "SiglipModel": "SiglipEmbeddingModel",
    "StableLmForCausalLM": "StablelmForCausalLM",
    "XLMRobertaForTokenClassification": "RobertaForTokenClassification",
}
NO_LORA = "{name} does not support LoRA yet."
# mamba2.py:106, zamba2.py:719 (0.32.0): their constructors assert it
ASSERTS_NO_LORA = frozenset(("Mamba2ForCausalLM", "Zamba2ForCausalLM"))


def class_name(architecture: str) -> str:
    return _CLASSES.get(architecture, architecture)


class LoraFacts(Facts):
    vocabulary = members(
        _ALWAYS,
        since={
            "0.13.0": "Jais2ForCausalLM",
            "0.14.0": "ExaoneMoEForCausalLM ExaoneMoeForCausalLM",
            "0.16.0": "Qwen3ForCausalLM Qwen3MoeForCausalLM",
            "0.18.0": "HyperCLOVAXForCausalLM",
            "0.20.0": "Param2MoEForCausalLM",
            "0.29.0": "GraniteMoeSWAForCausalLM GraniteSWAForCausalLM Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM",
            "0.30.0": "K2HorizonForCausalLM",
            "0.31.0": "FlexOlmoForCausalLM GPTBigCodeForCausalLM HunYuanDenseV1ForCausalLM HunYuanMoEV1ForCausalLM "
            "Olmo2ForCausalLM Olmo3ForCausalLM OlmoForCausalLM SmolLM3ForCausalLM Starcoder2ForCausalLM "
            "VaultGemmaForCausalLM",
            "0.32.0": "ArceeForCausalLM GPTNeoXForCausalLM PhiForCausalLM SeedOssForCausalLM",
        },
        until={
            "0.15.0": "MistralForCausalLM",
            "0.24.0": "BambaForCausalLM InternLMForCausalLM XverseForCausalLM",
            "0.25.0": "AquilaForCausalLM AquilaModel",
        },
    )
    extra_vocabulary = changes(256, ("0.12.0", 0))  # lora_extra_vocab_size
    without = members(
        _WITHOUT,
        until={
            "0.9.0": "Mistral3ForConditionalGeneration",
            "0.9.1": "H2OVLChatModel InternVLChatModel NVLM_D",
            "0.10.0": "Ernie4_5_MoeForCausalLM HunYuanMoEV1ForCausalLM Qwen2MoeForCausalLM Qwen3MoeForCausalLM",
            "0.10.1": "Dots1ForCausalLM Glm4MoeForCausalLM",
            "0.10.2": "DeepseekForCausalLM DeepseekV2ForCausalLM DeepseekV3ForCausalLM Olmo2ForCausalLM "
            "OlmoForCausalLM Qwen2_5OmniForConditionalGeneration Qwen2_5OmniModel VoxtralForConditionalGeneration",
            "0.11.1": "GptOssForCausalLM Llama4ForConditionalGeneration OPTForCausalLM OlmoeForCausalLM",
            "0.14.0": "Blip2ForConditionalGeneration DeepseekOCRForCausalLM LlavaForConditionalGeneration "
            "PaliGemmaForConditionalGeneration PixtralForConditionalGeneration Plamo2ForCausalLM "
            "Plamo3ForCausalLM",
            "0.15.0": "MiniMaxM2ForCausalLM",
            "0.18.0": "WhisperForConditionalGeneration",
            "0.20.0": "Gemma4ForConditionalGeneration Qwen3ASRForConditionalGeneration "
            "Qwen3ASRForcedAlignerForTokenClassification Qwen3ASRRealtimeGeneration",
            "0.25.0": "MiniCPMV4_6ForConditionalGeneration Starcoder2ForCausalLM",
            "0.26.0": "LlavaNextVideoForConditionalGeneration",
            "0.29.0": "DeepseekV4ForCausalLM LlavaNextForConditionalGeneration Qwen3OmniMoeForConditionalGeneration",
            "0.31.0": "ModernBertModel NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Nano_VL_V2 "
            "NemotronH_Omni_Reasoning_V3 NemotronH_Super_Omni_Reasoning_V3 RobertaForSequenceClassification "
            "VoyageQwen3BidirectionalEmbedModel XLMRobertaForSequenceClassification",
            "0.32.0": "BertModel BertSpladeSparseEmbeddingModel BgeM3EmbeddingModel GPTNeoXForCausalLM HF_ColBERT "
            "RobertaForMaskedLM RobertaModel XLMRobertaModel",
        },
    )
