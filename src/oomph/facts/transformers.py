"""What Hugging Face's Transformers has: engines fall back to its classes where they have none of their own."""

from oomph.facts.changes import names

# of the architectures that vLLM registers or the catalogue has, those that transformers 5.19 has no class for
NOT_IN_TRANSFORMERS = frozenset(
    names("""
    AquilaForCausalLM BagelForConditionalGeneration BaiChuanForCausalLM BaichuanForCausalLM BailingMoeForCausalLM
    BailingMoeV2ForCausalLM BailingMoeV2_5ForCausalLM BailingMoeV3ForCausalLM BailingMoeV3VLForConditionalGeneration
    BeeForConditionalGeneration BertSpladeSparseEmbeddingModel BgeM3EmbeddingModel ChatGLMForConditionalGeneration
    ChatGLMModel ClefOmniForJointSchema ColBERTJinaRobertaModel ColBERTLfm2Model ColBERTModernBertModel ColQwen3
    ColQwen3_5 Cosmos3ForConditionalGeneration DeciLMForCausalLM DeepseekForCausalLM DeepseekOCR2ForCausalLM
    DeepseekOCRForCausalLM DeepseekV3BidirectionalModel DeepseekV41ForCausalLM DeepseekV4ForConditionalGeneration
    DeepseekVLV2ForCausalLM Dots3NoteForCausalLM DotsOCRForCausalLM Eagle2_5_VLForConditionalGeneration
    ExaoneForCausalLM ExaoneMoEForCausalLM FireRedASR2ForConditionalGeneration FunASRForConditionalGeneration
    FunAudioChatForConditionalGeneration GLM4VForCausalLM Glm5NextForCausalLM Grok1ForCausalLM Grok1ModelForCausalLM
    GteNewForSequenceClassification GteNewModel H2OVLChatModel HCXVisionV2ForCausalLM HF_ColBERT HfMoondream
    IQuestCoderForCausalLM IQuestLoopCoderForCausalLM InternLM2ForCausalLM InternLM2ForRewardModel
    InternLM3ForCausalLM InternS1ForConditionalGeneration InternS1ProForConditionalGeneration
    InternS2MobiusForConditionalGeneration InternS2PreviewForConditionalGeneration InternVLChatModel
    IsaacForConditionalGeneration JinaEmbeddingsV5Model JinaForRanking JinaVLForRanking K2HorizonForCausalLM
    KananaVForConditionalGeneration KeyeForConditionalGeneration KeyeVL1_5ForConditionalGeneration
    KimiK25ForConditionalGeneration KimiK3ForConditionalGeneration KimiVLForConditionalGeneration LLaMAForCausalLM
    LightOnOCRForConditionalGeneration LlamaBidirectionalForSequenceClassification LlamaBidirectionalModel
    LlamaNemotronVLForSequenceClassification LlamaNemotronVLModel Llama_Nemotron_Nano_VL
    LlavaOnevision2ForConditionalGeneration LongcatFlashNgramForCausalLM MPTForCausalLM MiDashengLMModel
    MiMoForCausalLM MiMoV2ForCausalLM MiMoV2OmniForCausalLM MiniCPMForCausalLM MiniCPMO MiniCPMV
    MiniMaxM1ForCausalLM MiniMaxM3ForCausalLM MiniMaxM3SparseForCausalLM MiniMaxText01ForCausalLM
    MistralLarge3ForCausalLM Molmo2ForConditionalGeneration MolmoForCausalLM Moondream3ForCausalLM
    MoonshotKimiaForCausalLM MossAudioModel MossTranscribeDiarizeForConditionalGeneration MuseGlimmerForCausalLM
    NVLM_D NanbeigeForCausalLM NemotronHPuzzleForCausalLM NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Nano_VL_V2
    NemotronH_Super_Omni_Reasoning_V3 NemotronParseForConditionalGeneration OpenCUAForConditionalGeneration
    OpenPanguVLForConditionalGeneration OpenVLAForActionPrediction OpsColQwen3Model OrionForCausalLM Ovis Ovis2_5
    Ovis2_6ForCausalLM Ovis2_6_MoeForCausalLM PanguEmbeddedForCausalLM PanguProMoEV2ForCausalLM
    PanguUltraMoEForCausalLM Param2MoEForCausalLM Phi3VForCausalLM Phi4ForCausalLMV Phi4MMForCausalLM
    PhiMoEForCausalLM PixtralForConditionalGeneration Plamo2ForCausalLM Plamo3ForCausalLM Qwen2ForProcessRewardModel
    Qwen2ForRewardModel Qwen2_5OmniModel Qwen3ASRForcedAlignerForTokenClassification Qwen3ASRRealtimeGeneration
    Qwen3VLNemotronEmbedModel RForConditionalGeneration RWForCausalLM Rnj1ForCausalLM SarvamMLAForCausalLM
    SarvamMoEForCausalLM SkyworkR1VChatModel SolarForCausalLM Step1ForCausalLM Step3TextForCausalLM
    Step3VLForConditionalGeneration Step3p5ForCausalLM Step3p7FlashForCausalLM StepVLForConditionalGeneration
    TeleChat2ForCausalLM
    TeleChat3ForCausalLM TeleFLMForCausalLM Terratorch UltravoxModel UnlimitedOCRForCausalLM
    VoxtralRealtimeGeneration VoyageQwen3BidirectionalEmbedModel XverseForCausalLM
    """)
)
# PreTrainedModel.is_backend_compatible of transformers 5.8 and 5.10, and since 0.30.0 _can_set_attn_implementation too
INCOMPATIBLE = names("""
    BambaForCausalLM BloomForCausalLM ColPaliForRetrieval FalconForCausalLM FalconH1ForCausalLM FalconMambaForCausalLM
    GPTBigCodeForCausalLM GPTJForCausalLM JambaForCausalLM JambaForSequenceClassification Mamba2ForCausalLM
    MambaForCausalLM MiniCPMV4_6ForConditionalGeneration NemotronForCausalLM NemotronHForCausalLM OlmoHybridForCausalLM
    Qwen2AudioForConditionalGeneration Qwen3NextForCausalLM Qwen3_5ForCausalLM Qwen3_5ForConditionalGeneration
    Qwen3_5MoeForCausalLM Qwen3_5MoeForConditionalGeneration StableLmForCausalLM WhisperForConditionalGeneration
    Zamba2ForCausalLM
""")

# Model types whose configuration is code of their own repository: neither Transformers 5.19 (CONFIG_MAPPING_NAMES) nor
# vLLM 0.32.0 (_CONFIG_REGISTRY) has them. Without the flag vLLM stops where it reads the configuration ("Failed to load
# the model config. If the model is a custom model not yet available in the HuggingFace transformers library, consider
# setting `trust_remote_code=True`"); seen with MiMo-7B. A checkpoint of another layout under the same type starts.
REMOTE_TYPES = frozenset(
    names("""
    aquila arctic baichuan bailing_moe deepseek exaone grok-1 hunyuan internlm internlm2 internlm3 internvl_chat
    iquestcoder iquestloopcoder jais llama_bidirec mimo minicpm minicpmv minimax_m1 minimax_text_01 molmo nemotron-nas
    orion phi3_v phi4mm skywork_chat telechat
""")
)
TRUST = "trust_remote_code"
