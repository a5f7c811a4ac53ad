"""The architectures that a vLLM release has in its registry (model_executor/models/registry.py): versions.REGISTRY_OF.

A name that sources/arch has no family for is refused with a sentence; `make accuracy` prints how many are planned.
"""

from collections.abc import Container

from oomph.facts.changes import names

# language models
TEXT = names("""
    AfmoeForCausalLM ApertusForCausalLM AXK1ForCausalLM BailingMoeForCausalLM BailingMoeV2_5ForCausalLM
    BailingMoeV2ForCausalLM BailingMoeV3ForCausalLM BloomForCausalLM ChatGLMForConditionalGeneration ChatGLMModel
    Cohere2ForCausalLM Cohere2MoeForCausalLM CohereForCausalLM DbrxForCausalLM DeciLMForCausalLM DeepseekForCausalLM
    DeepseekV2ForCausalLM DeepseekV32ForCausalLM DeepseekV3ForCausalLM DeepseekV4ForCausalLM Ernie4_5_MoeForCausalLM
    Ernie4_5ForCausalLM Exaone4ForCausalLM ExaoneForCausalLM ExaoneMoeForCausalLM ExaoneMoEForCausalLM
    FalconForCausalLM FalconH1ForCausalLM FalconMambaForCausalLM Gemma2ForCausalLM Gemma3ForCausalLM
    Gemma3nForCausalLM Gemma4ForCausalLM GemmaForCausalLM Glm4ForCausalLM Glm4MoeForCausalLM Glm4MoeLiteForCausalLM
    Glm5NextForCausalLM GlmMoeDsaForCausalLM GPT2LMHeadModel GPTJForCausalLM GptOssForCausalLM GraniteForCausalLM
    GraniteMoeForCausalLM GraniteMoeHybridForCausalLM GraniteMoeSharedForCausalLM GraniteMoeSWAForCausalLM
    GraniteSWAForCausalLM HCXVisionV2ForCausalLM HrmTextForCausalLM HyperCLOVAXForCausalLM HYV3ForCausalLM
    HYV4ForCausalLM InklingForCausalLM InklingForConditionalGeneration InternLM2ForCausalLM InternLM3ForCausalLM
    IQuestCoderForCausalLM IQuestLoopCoderForCausalLM JambaForCausalLM K2HorizonForCausalLM KimiLinearForCausalLM
    LagunaForCausalLM Lfm2ForCausalLM Lfm2MoeForCausalLM Llama4ForCausalLM LlamaForCausalLM LLaMAForCausalLM
    LongcatFlashForCausalLM LongcatFlashNgramForCausalLM Mamba2ForCausalLM MambaForCausalLM MiMoForCausalLM
    MiMoV2FlashForCausalLM MiMoV2ForCausalLM MiniCPM3ForCausalLM MiniCPMForCausalLM MiniMaxM2ForCausalLM
    MiniMaxM3SparseForCausalLM Ministral3ForCausalLM MistralForCausalLM MistralLarge3ForCausalLM MixtralForCausalLM
    MuseGlimmerForCausalLM NemotronForCausalLM NemotronHForCausalLM NemotronHPuzzleForCausalLM OlmoeForCausalLM
    OlmoHybridForCausalLM OPTForCausalLM OrionForCausalLM PanguEmbeddedForCausalLM PanguProMoEV2ForCausalLM
    PanguUltraMoEForCausalLM Param2MoEForCausalLM Phi3ForCausalLM PhiMoEForCausalLM Plamo3ForCausalLM
    Qwen2ForCausalLM Qwen2MoeForCausalLM Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM Qwen3ForCausalLM
    Qwen3MoeForCausalLM Qwen3NextForCausalLM Qwen4ExpForCausalLM Rnj1ForCausalLM SarvamMLAForCausalLM
    SarvamMoEForCausalLM SolarForCausalLM StableLmForCausalLM Step1ForCausalLM Step3p5ForCausalLM
    Step3TextForCausalLM TeleChat2ForCausalLM TeleChat3ForCausalLM TeleFLMForCausalLM Zamba2ForCausalLM
""")

# models that take images, video or sound
MULTIMODAL = names("""
    AriaForConditionalGeneration AudioFlamingo3ForConditionalGeneration BagelForConditionalGeneration
    BailingMoeV3VLForConditionalGeneration BeeForConditionalGeneration Blip2ForConditionalGeneration
    Cohere2VisionForConditionalGeneration CohereAsrForConditionalGeneration CohereCompassForConditionalGeneration
    Cosmos3EdgeForConditionalGeneration Cosmos3ForConditionalGeneration DeepseekOCR2ForCausalLM
    DeepseekOCRForCausalLM DeepseekV41ForCausalLM DeepseekV4ForConditionalGeneration DeepseekVLV2ForCausalLM
    DiffusionGemmaForBlockDiffusion Dots3NoteForCausalLM DotsOCRForCausalLM Eagle2_5_VLForConditionalGeneration
    Ernie4_5_VLMoeForConditionalGeneration Exaone4_5_ForConditionalGeneration FireRedASR2ForConditionalGeneration
    FunASRForConditionalGeneration FunAudioChatForConditionalGeneration Gemma3ForConditionalGeneration
    Gemma3nForConditionalGeneration Gemma4ForConditionalGeneration Gemma4UnifiedForConditionalGeneration
    GLM4VForCausalLM Glm4vForConditionalGeneration Glm4vMoeForConditionalGeneration Glm5NextForConditionalGeneration
    GlmAsrForConditionalGeneration GlmOcrForConditionalGeneration Granite4VisionForConditionalGeneration
    GraniteSpeechForConditionalGeneration GraniteSpeechPlusForConditionalGeneration H2OVLChatModel HfMoondream
    Idefics3ForConditionalGeneration InternS1ForConditionalGeneration InternS1ProForConditionalGeneration
    InternS2MobiusForConditionalGeneration InternS2PreviewForConditionalGeneration InternVLChatModel
    InternVLForConditionalGeneration IsaacForConditionalGeneration KananaVForConditionalGeneration
    KeyeForConditionalGeneration KeyeVL1_5ForConditionalGeneration KimiK25ForConditionalGeneration
    KimiK3ForConditionalGeneration KimiVLForConditionalGeneration Lfm2VlForConditionalGeneration
    LightOnOCRForConditionalGeneration Llama4ForConditionalGeneration Llama_Nemotron_Nano_VL
    LlavaForConditionalGeneration LlavaNextForConditionalGeneration LlavaNextVideoForConditionalGeneration
    LlavaOnevision2ForConditionalGeneration LlavaOnevisionForConditionalGeneration MiDashengLMModel
    MiMoV2OmniForCausalLM MiniCPMO MiniCPMV MiniCPMV4_6ForConditionalGeneration MiniCPMV4_7ForConditionalGeneration
    MiniMaxM3SparseForConditionalGeneration Mistral3ForConditionalGeneration Molmo2ForConditionalGeneration
    MolmoForCausalLM Moondream3ForCausalLM MoonshotKimiaForCausalLM MossAudioModel
    MossTranscribeDiarizeForConditionalGeneration MuseGlimmerForConditionalGeneration
    NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Nano_VL_V2 NemotronH_Omni_Reasoning_V3
    NemotronH_Super_Omni_Reasoning_V3 NemotronParseForConditionalGeneration NVLM_D OpenCUAForConditionalGeneration
    OpenPanguVLForConditionalGeneration OpenVLAForActionPrediction Ovis Ovis2_5 Ovis2_6_MoeForCausalLM
    Ovis2_6ForCausalLM PaddleOCRVLForConditionalGeneration PaliGemmaForConditionalGeneration Phi3VForCausalLM
    Phi4ForCausalLMV Phi4MMForCausalLM PixtralForConditionalGeneration QianfanOCRForConditionalGeneration
    Qwen2_5_VLForConditionalGeneration Qwen2_5OmniForConditionalGeneration Qwen2_5OmniModel
    Qwen2AudioForConditionalGeneration Qwen2VLForConditionalGeneration Qwen3_5ForConditionalGeneration
    Qwen3_5MoeForConditionalGeneration Qwen3ASRForConditionalGeneration Qwen3ASRRealtimeGeneration
    Qwen3OmniMoeForConditionalGeneration Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration
    Qwen4ExpForConditionalGeneration RForConditionalGeneration SkyworkR1VChatModel SmolVLMForConditionalGeneration
    Step3p7ForConditionalGeneration Step3VLForConditionalGeneration StepVLForConditionalGeneration UltravoxModel
    UnlimitedOCRForCausalLM VoxtralForConditionalGeneration VoxtralRealtimeGeneration
    WhisperForConditionalGeneration
""")

# embeddings, rerankers, classifiers
POOLING = names("""
    BertForMaskedLM BertForSequenceClassification BertForTokenClassification BertModel
    BertSpladeSparseEmbeddingModel BgeM3EmbeddingModel ClefOmniForJointSchema CLIPModel ColBERTJinaRobertaModel
    ColBERTLfm2Model ColBERTModernBertModel ColModernVBertForRetrieval ColPaliForRetrieval ColQwen3 ColQwen3_5
    DeepseekV3BidirectionalModel EmbeddingGemma2Model Gemma2Model Gemma3TextModel GPT2ForSequenceClassification
    GteModel GteNewForSequenceClassification GteNewModel HF_ColBERT InternLM2ForRewardModel
    JambaForSequenceClassification JinaEmbeddingsV5Model JinaForRanking JinaVLForRanking
    LlamaBidirectionalForSequenceClassification LlamaBidirectionalModel LlamaModel
    LlamaNemotronVLForSequenceClassification LlamaNemotronVLModel MistralModel ModernBertForSequenceClassification
    ModernBertForTokenClassification ModernBertModel NomicBertModel OpenAIPrivacyFilterForTokenClassification
    OpsColQwen3Model Qwen2ForProcessRewardModel Qwen2ForRewardModel Qwen2Model
    Qwen3ASRForcedAlignerForTokenClassification Qwen3VLNemotronEmbedModel RobertaForMaskedLM
    RobertaForSequenceClassification RobertaForTokenClassification RobertaModel SiglipModel Terratorch
    VoyageQwen3BidirectionalEmbedModel XLMRobertaForSequenceClassification XLMRobertaForTokenClassification
    XLMRobertaModel
""")

# served by transformers' own code
BY_TRANSFORMERS = names("""
    ArceeForCausalLM CwmForCausalLM Emu3ForConditionalGeneration FlexOlmoForCausalLM GlmForCausalLM
    GPTBigCodeForCausalLM GPTNeoXForCausalLM HunYuanDenseV1ForCausalLM HunYuanMoEV1ForCausalLM
    HunYuanVLForConditionalGeneration Jais2ForCausalLM MellumForCausalLM NanbeigeForCausalLM Olmo2ForCausalLM
    Olmo3ForCausalLM OlmoForCausalLM PhiForCausalLM SeedOssForCausalLM SmolLM3ForCausalLM Starcoder2ForCausalLM
    TransformersEmbeddingModel TransformersForCausalLM TransformersForSequenceClassification
    TransformersMoEEmbeddingModel TransformersMoEForCausalLM TransformersMoEForSequenceClassification
    TransformersMultiModalEmbeddingModel TransformersMultiModalForCausalLM
    TransformersMultiModalForSequenceClassification TransformersMultiModalMoEForCausalLM VaultGemmaForCausalLM
    VibeVoiceAsrForConditionalGeneration
""")

# drafters: those of a checkpoint itself are planned with their model
DRAFTERS = names("""
    BailingMoeV25MTPModel BailingMoeV3MTPModel DeepSeekMTPModel DeepseekV32MTPModel DeepSeekV4MTPModel
    DFlash2DraftModel DFlashDraftModel DFlashLagunaForCausalLM DFlashMuseGlimmerAssistantModel Dots3NoteMTPModel
    DSparkDraftModel DSparkV41DraftModel Eagle3DeepseekV2ForCausalLM Eagle3DeepseekV3ForCausalLM
    Eagle3LlamaForCausalLM Eagle3MiniMaxM2ForCausalLM Eagle3Qwen2_5vlForCausalLM Eagle3Qwen3ForCausalLM
    Eagle3Qwen3vlForCausalLM EagleCohereForCausalLM EagleDeepSeekMTPModel EagleLlama4ForCausalLM
    EagleLlamaForCausalLM EagleMiniCPMForCausalLM EagleMistralForCausalLM EagleMistralLarge3ForCausalLM
    ErnieMTPModel Exaone4_5_MTP ExaoneMoeMTP ExtractHiddenStatesModel Gemma4DSparkModel Gemma4MTPModel
    Glm4MoeLiteMTPModel Glm4MoeMTPModel Glm5NextMTPModel GlmOcrMTPModel HYV3MTPModel HYV4MTPModel InklingMTPModel
    InternS2MobiusMTP K3DSparkModel KimiK3MTPModel LiLiCorrDraftModel LlamaForCausalLMEagle3 LongCatFlashMTPModel
    MedusaModel MiMoMTPModel MiMoV2MTPModel MiMoV2OmniMTPModel MiniMaxM3MTP MuseGlimmerAssistantModel
    NemotronHMTPModel OpenPanguMTPModel PEagleDraftModel PeagleLlamaForCausalLM PeagleQwen3ForCausalLM Qwen3_5MoeMTP
    Qwen3_5MTP Qwen3DSparkModel Qwen3NextMTP Qwen3OmniDSparkModel Qwen4ExpMTP Step3p5MTP
""")

# of earlier releases: the newest refuses them and says since when
GONE = names("""
    AquilaForCausalLM AquilaModel ArcticForCausalLM AyaVisionForConditionalGeneration BaiChuanForCausalLM
    BaichuanForCausalLM BambaForCausalLM ChameleonForConditionalGeneration Cheers CheersForConditionalGeneration
    DonutForConditionalGeneration Dots1ForCausalLM ErnieForSequenceClassification ErnieForTokenClassification
    ErnieModel Fairseq2LlamaForCausalLM FireRedLIDForConditionalGeneration FuyuForCausalLM GritLM Grok1ForCausalLM
    Grok1ModelForCausalLM HCXVisionForCausalLM InternLM2VEForCausalLM InternLMForCausalLM JAISLMHeadModel
    MantisForConditionalGeneration MiniMaxForCausalLM MiniMaxM1ForCausalLM MiniMaxText01ForCausalLM
    MiniMaxVL01ForConditionalGeneration MllamaForConditionalGeneration MotifForCausalLM MPTForCausalLM
    MptForCausalLM MusicFlamingoForConditionalGeneration OuroForCausalLM PersimmonForCausalLM Phi3SmallForCausalLM
    Phi4FlashForCausalLM Phi4MultimodalForCausalLM Plamo2ForCausalLM PrithviGeoSpatialMAE QWenLMHeadModel
    QwenVLForConditionalGeneration RWForCausalLM StableLMEpochForCausalLM Tarsier2ForConditionalGeneration
    TarsierForConditionalGeneration TeleChatForCausalLM XverseForCausalLM
""")

REGISTRY: dict[str, tuple[str, ...]] = {
    "text": TEXT,
    "multimodal": MULTIMODAL,
    "pooling": POOLING,
    "by transformers": BY_TRANSFORMERS,
    "drafters": DRAFTERS,
    "gone": GONE,
}

# drafters that come with their target's checkpoint (`"method": "mtp"`): the target whose family plans them
WITHIN: dict[str, str] = {
    "BailingMoeV25MTPModel": "BailingMoeV2_5ForCausalLM",
    "DeepSeekMTPModel": "DeepseekV3ForCausalLM",
    "DeepSeekV4MTPModel": "DeepseekV4ForCausalLM",
    "DeepseekV32MTPModel": "DeepseekV32ForCausalLM",
    "ErnieMTPModel": "Ernie4_5_MoeForCausalLM",
    "Exaone4_5_MTP": "Exaone4_5_ForConditionalGeneration",
    "ExaoneMoeMTP": "ExaoneMoEForCausalLM",
    "Glm4MoeLiteMTPModel": "Glm4MoeLiteForCausalLM",
    "Glm4MoeMTPModel": "Glm4MoeForCausalLM",
    "GlmOcrMTPModel": "GlmOcrForConditionalGeneration",
    "HYV3MTPModel": "HYV3ForCausalLM",
    "InternS2MobiusMTP": "InternS2MobiusForConditionalGeneration",
    "LongCatFlashMTPModel": "LongcatFlashForCausalLM",
    "MiMoMTPModel": "MiMoForCausalLM",
    "MiMoV2MTPModel": "MiMoV2FlashForCausalLM",
    "MiniMaxM3MTP": "MiniMaxM3SparseForCausalLM",
    "NemotronHMTPModel": "NemotronHForCausalLM",
    "OpenPanguMTPModel": "PanguUltraMoEForCausalLM",
    "Qwen3NextMTP": "Qwen3NextForCausalLM",
    "Qwen3_5MTP": "Qwen3_5ForCausalLM",
    "Qwen3_5MoeMTP": "Qwen3_5MoeForConditionalGeneration",
    "Step3p5MTP": "Step3p5ForCausalLM",
}
# drafters that are built from a checkpoint that calls itself otherwise
# the draft layers that a target's checkpoint brings and no family plans, by the type of its config
UNPLANNED_DRAFTS: dict[str, str] = {
    "dots3_note": "Dots3NoteMTPModel",
    "glm5_next": "Glm5NextMTPModel",
    "hy_v4": "HYV4MTPModel",
    "inkling_mm_model": "InklingMTPModel",
    "inkling_model": "InklingMTPModel",
    "kimi_k3": "KimiK3MTPModel",
    "qwen4_exp": "Qwen4ExpMTP",
    "qwen4_exp_text": "Qwen4ExpMTP",
}

UNDER_ANOTHER_NAME: dict[str, str] = {"Gemma4MTPModel": "Gemma4AssistantForCausalLM"}

_REMOTE = "its encoder is code of the checkpoint's repository, which is not executed"
_SPARSE = "its sparse attention has caches that are not modelled"
_UNREAD = "its class has not been read yet"

# why the rest is not planned
NOT_PLANNED: dict[str, str] = {
    "BailingMoeV3ForCausalLM": _UNREAD,
    "BailingMoeV3MTPModel": _UNREAD,
    "BailingMoeV3VLForConditionalGeneration": _UNREAD,
    "ClefOmniForJointSchema": "its heads follow a schema that a request brings",
    "CohereAsrForConditionalGeneration": _UNREAD,
    "CohereCompassForConditionalGeneration": _UNREAD,
    "DFlashLagunaForCausalLM": "its layers are Laguna's, with a window for the drafter of their own",
    "DSparkDraftModel": _SPARSE,
    "DSparkV41DraftModel": _SPARSE,
    "DeepseekV41ForCausalLM": _SPARSE,
    "DeepseekV4ForConditionalGeneration": "the encoder before DeepSeek V4 has not been read yet",
    "Dots3NoteForCausalLM": _UNREAD,
    "Dots3NoteMTPModel": _UNREAD,
    "EagleDeepSeekMTPModel": "its config nests the layers' own in a form that no public head has",
    "EagleLlama4ForCausalLM": "its layers are Llama 4's with rotary tables for complex numbers",
    "EagleMistralLarge3ForCausalLM": "only Mistral's own parameter files describe it",
    "Emu3ForConditionalGeneration": "vLLM 0.32.0 itself fails while building it ('_pre_trained_model_classes')",
    "ExtractHiddenStatesModel": "no draft model: a cache of hidden states for training drafters",
    "Gemma4DSparkModel": "sizes differ by layer in a form that no public head has",
    "Glm5NextForCausalLM": _SPARSE,
    "Glm5NextForConditionalGeneration": _SPARSE,
    "Glm5NextMTPModel": _SPARSE,
    "HYV4MTPModel": "the draft layer of Hunyuan 4 has not been read yet",
    "InklingMTPModel": "the draft layer of Inkling has not been read yet",
    "K2HorizonForCausalLM": _UNREAD,
    "K3DSparkModel": _SPARSE,
    "KimiK3MTPModel": "the draft layer of Kimi K3 has not been read yet",
    "LiLiCorrDraftModel": "its lattice head has not been read yet",
    "Llama_Nemotron_Nano_VL": _REMOTE,
    "MiMoV2OmniForCausalLM": _UNREAD,
    "MiMoV2OmniMTPModel": _UNREAD,
    "Molmo2ForConditionalGeneration": _UNREAD,
    "Qwen4ExpMTP": "the draft layer of Qwen4-Exp has not been read yet",
    "Terratorch": "no language model: whatever TerraTorch builds from the config",
    "VibeVoiceAsrForConditionalGeneration": "transformers' own tokenizers of sound before it are not modelled",
    "VoxtralRealtimeGeneration": "its encoder keeps a cache of its own, pooled over blocks",
}


def is_planned(architecture: str, families: Container[str]) -> bool:
    """Whether a plan of it has layers and caches: by a family of its own, by its target's, or under another name."""
    other = WITHIN.get(architecture) or UNDER_ANOTHER_NAME.get(architecture)
    return architecture in families or (other is not None and other in families)
