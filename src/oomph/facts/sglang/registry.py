"""Which classes of SGLang's newest release are planned (`Models.classes` and drafters), and why others are not."""

from collections.abc import Container

from oomph.facts.changes import names

RELEASE = "0.5.23"

# the draft models among every `EntryClass` of srt/models: `Models.classes` has the others
DRAFTERS = names("""
    BailingMoeForCausalLMNextN DeepseekV3ForCausalLMNextN DeepseekV4ForCausalLMDSpark DeepseekV4ForCausalLMNextN
    DFlash2BeamDraftModel DFlash2DraftModel DFlashDraftModel DFlashLagunaForCausalLM Dots3NoteForCausalLMNextN
    DSparkDraftModel DSparkMiniMaxDraftModel Eagle3DeepseekV2ForCausalLM Ernie4_5_MoeForCausalLMMTP
    ExaoneMoEForCausalLMMTP GigaChat35ForCausalLMNextN Glm4MoeForCausalLMNextN Glm4MoeLiteForCausalLMNextN
    Glm5NextForConditionalGenerationNextN GlmMoeDsaForCausalLMNextN GlmOcrForConditionalGenerationNextN
    HYV3ForCausalLMNextN HYV4ForCausalLMNextN InklingForConditionalGenerationMTP IQuestQ1MTP Lfm2DSparkDraftModel
    LiLiCorrDraftModel LingDSparkModel LlamaForCausalLMEagle LlamaForCausalLMEagle3 LongcatFlashForCausalLMNextN
    MiMoMTP MiMoV2MTP MiniMaxDFlash2DraftModel MistralForCausalLMEagle MistralLarge3ForCausalLMEagle
    NemotronHForCausalLMMTP Qwen2ForCausalLMEagle Qwen3_5ForCausalLMMTP Qwen3DSparkModel Qwen3MoeForCausalLMMTP
    Qwen3NextForCausalLMMTP Qwen4ExpForCausalLMMTP Step3p5MTP
""")

# draft layers that come with their target's checkpoint: the target whose family plans them
WITHIN: dict[str, str] = {
    "DeepseekV3ForCausalLMNextN": "DeepseekV3ForCausalLM",
    "DeepseekV4ForCausalLMNextN": "DeepseekV4ForCausalLM",
    "Ernie4_5_MoeForCausalLMMTP": "Ernie4_5_MoeForCausalLM",
    "ExaoneMoEForCausalLMMTP": "ExaoneMoEForCausalLM",
    "Glm4MoeForCausalLMNextN": "Glm4MoeForCausalLM",
    "Glm4MoeLiteForCausalLMNextN": "Glm4MoeLiteForCausalLM",
    "GlmMoeDsaForCausalLMNextN": "GlmMoeDsaForCausalLM",
    "GlmOcrForConditionalGenerationNextN": "GlmOcrForConditionalGeneration",
    "HYV3ForCausalLMNextN": "HYV3ForCausalLM",
    "LongcatFlashForCausalLMNextN": "LongcatFlashForCausalLM",
    "MiMoMTP": "MiMoForCausalLM",
    "MiMoV2MTP": "MiMoV2FlashForCausalLM",
    "NemotronHForCausalLMMTP": "NemotronHForCausalLM",
    "Qwen3NextForCausalLMMTP": "Qwen3NextForCausalLM",
    "Qwen3_5ForCausalLMMTP": "Qwen3_5ForCausalLM",
    "Step3p5MTP": "Step3p5ForCausalLM",
}

_CLASS = "no checkpoint is called so: SGLang puts its own class in the place of the checkpoint's"
_UNREAD = "its class in SGLang has not been read yet"
_ENCODER = "its encoder in SGLang has not been read yet"
_DRAFT = "the draft layer has not been read yet"
_METHOD = "SGLang's DFLASH and DSPARK are not planned: their weights, cache and graphs would be missing"
_SPARSE = "its sparse attention has caches that are not modelled"

# why the rest is not planned
NOT_PLANNED: dict[str, str] = {
    "BailingMM2NativeForConditionalGeneration": _ENCODER,
    "BailingMMNativeForConditionalGeneration": _ENCODER,
    "BailingMoEForCausalLM": _UNREAD,
    "BailingMoeForCausalLMNextN": _DRAFT,
    "BailingMoeV3ForCausalLM": _UNREAD,
    "BailingMoeV3VLForConditionalGeneration": _ENCODER,
    "BeamForCausalLM": _UNREAD,
    "Contriever": _UNREAD,
    "DeepseekV4ForCausalLMDSpark": _SPARSE,
    "DeepseekVL2ForCausalLM": _UNREAD,
    "DFlash2BeamDraftModel": _DRAFT,
    "DFlash2DraftModel": _METHOD,
    "DFlashDraftModel": _METHOD,
    "DFlashLagunaForCausalLM": _DRAFT,
    "Dots3NoteForCausalLM": _ENCODER,
    "Dots3NoteForCausalLMNextN": _DRAFT,
    "DotsVLMForCausalLM": _ENCODER,
    "DSparkDraftModel": _SPARSE,
    "DSparkMiniMaxDraftModel": _DRAFT,
    "EmbeddingGemmaModel": _UNREAD,
    "Ernie4_5_ForCausalLM": _UNREAD,
    "Gemma2ForSequenceClassification": _UNREAD,
    "GigaChat35ForCausalLM": _UNREAD,
    "GigaChat35ForCausalLMNextN": _DRAFT,
    "Glm5NextForConditionalGeneration": _SPARSE,
    "Glm5NextForConditionalGenerationNextN": _SPARSE,
    "GlmImageForConditionalGeneration": _ENCODER,
    "HYV4ForCausalLMNextN": _DRAFT,
    "InklingForConditionalGenerationMTP": _DRAFT,
    "IQuestQ1ForCausalLM": _UNREAD,
    "IQuestQ1MTP": _DRAFT,
    "JetNemotronForCausalLM": _UNREAD,
    "JetVLMForConditionalGeneration": _ENCODER,
    "K2HorizonForCausalLM": _UNREAD,
    "KimiK3LinearForCausalLM": _UNREAD,
    "Lfm2BidirectionalModel": _UNREAD,
    "Lfm2DSparkDraftModel": _DRAFT,
    "LiLiCorrDraftModel": _DRAFT,
    "LingDSparkModel": _DRAFT,
    "LLaDA2MoeModelLM": _UNREAD,
    "LlamaEmbeddingModel": _UNREAD,
    "LlamaForCausalLMEagle": _DRAFT,
    "LlamaForClassification": _UNREAD,
    "LlamaForSequenceClassificationWithNormal_Weights": _UNREAD,
    "LlavaLlamaForCausalLM": _ENCODER,
    "LlavaMistralForCausalLM": _ENCODER,
    "LlavaQwenForCausalLM": _ENCODER,
    "LlavaVidForCausalLM": _ENCODER,
    "LocateAnythingForConditionalGeneration": _ENCODER,
    "MiMoV2ASRForCausalLM": _ENCODER,
    "MindSporeForCausalLM": _CLASS,
    "MiniCPMSALAForCausalLM": _UNREAD,
    "MiniMaxDFlash2DraftModel": _DRAFT,
    "MistralForCausalLMEagle": _DRAFT,
    "MistralLarge3ForCausalLMEagle": _DRAFT,
    "MllamaForConditionalGeneration": _ENCODER,
    "MossVLForConditionalGeneration": _ENCODER,
    "MultiModalityCausalLM": _ENCODER,
    "MuseSparkForConditionalGeneration": _ENCODER,
    "NanbeigeForSequenceClassification": _UNREAD,
    "NVILAForConditionalGeneration": _ENCODER,
    "NVILALiteForConditionalGeneration": _ENCODER,
    "PersimmonForCausalLM": _UNREAD,
    "Phi3SmallForCausalLM": _UNREAD,
    "PixtralVisionModel": _ENCODER,
    "POINTSV15ChatModel": _ENCODER,
    "QuantMixtralForCausalLM": _CLASS,
    "Qwen2ForCausalLMEagle": _DRAFT,
    "Qwen3DSparkModel": _METHOD,
    "Qwen3ForRewardModel": _UNREAD,
    "Qwen3MoeForCausalLMMTP": _DRAFT,
    "Qwen4ExpForCausalLMMTP": _DRAFT,
    "QWenLMHeadModel": _UNREAD,
    "Sarashina2VisionForCausalLM": _ENCODER,
    "SDARForCausalLM": _UNREAD,
    "SDARMoeForCausalLM": _UNREAD,
    "Spark2_5ForCausalLM": _UNREAD,
    "TorchNativeLlamaForCausalLM": _CLASS,
    "TorchNativePhi3ForCausalLM": _CLASS,
    "TransformersEmbeddingModel": _CLASS,
    "TransformersForCausalLM": _CLASS,
    "TransformersForSequenceClassification": _CLASS,
    "TransformersMoEEmbeddingModel": _CLASS,
    "TransformersMoEForCausalLM": _CLASS,
    "TransformersMoEForSequenceClassification": _CLASS,
    "TransformersMultiModalEmbeddingModel": _CLASS,
    "TransformersMultiModalForCausalLM": _CLASS,
    "TransformersMultiModalForSequenceClassification": _CLASS,
    "TransformersMultiModalMoEEmbeddingModel": _CLASS,
    "TransformersMultiModalMoEForCausalLM": _CLASS,
    "TransformersMultiModalMoEForSequenceClassification": _CLASS,
    "XllmForCausalLM": _UNREAD,
    "XverseMoeForCausalLM": _UNREAD,
    "YiVLForCausalLM": _ENCODER,
    "ZayaForCausalLM": _UNREAD,
}


def is_planned(architecture: str, families: Container[str]) -> bool:
    """Whether a plan of it has layers and caches: by a family of its own, or with its target."""
    return architecture not in NOT_PLANNED and (architecture in families or WITHIN.get(architecture) in families)
