"""The release that registered an architecture first, for those that not every release has.

Read off model_executor/models/registry.py of every release from 0.8.5 to 0.32.0. Left out are names that an older
release may serve by transformers' own code, and those of facts/vllm/known.py, which say more.
"""

from oomph.facts.changes import names

FIRST: dict[str, tuple[str, ...]] = {
    "0.9.0": names("""
        FalconH1ForCausalLM GraniteMoeHybridForCausalLM GteNewModel Ovis
    """),
    "0.9.1": names("""
        EagleMiniCPMForCausalLM NemotronHForCausalLM
    """),
    "0.9.2": names("""
        Ernie4_5_MoeForCausalLM Gemma3nForConditionalGeneration Glm4vForConditionalGeneration
        HunYuanMoEV1ForCausalLM KeyeForConditionalGeneration
    """),
    "0.10.0": names("""
        BailingMoeForCausalLM Glm4MoeForCausalLM JinaVLForRanking VoxtralForConditionalGeneration
    """),
    "0.10.1": names("""
        Glm4vMoeForConditionalGeneration GptOssForCausalLM InternS1ForConditionalGeneration
        Step3TextForCausalLM Step3VLForConditionalGeneration
    """),
    "0.10.2": names("""
        Ernie4_5_VLMoeForConditionalGeneration GteNewForSequenceClassification
        KeyeVL1_5ForConditionalGeneration Lfm2ForCausalLM MiDashengLMModel Ovis2_5 Qwen3NextForCausalLM
        RForConditionalGeneration
    """),
    "0.11.0": names("""
        BailingMoeV2ForCausalLM DeepseekV32ForCausalLM DotsOCRForCausalLM LongcatFlashForCausalLM
        NemotronH_Nano_VL_V2 Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration
    """),
    "0.11.1": names("""
        AfmoeForCausalLM BeeForConditionalGeneration BertSpladeSparseEmbeddingModel DeepseekOCRForCausalLM
        KimiLinearForCausalLM Lfm2MoeForCausalLM LightOnOCRForConditionalGeneration
        PaddleOCRVLForConditionalGeneration PanguEmbeddedForCausalLM PanguUltraMoEForCausalLM
        Qwen3OmniMoeForConditionalGeneration
    """),
    "0.12.0": names("""
        MistralLarge3ForCausalLM OpenCUAForConditionalGeneration
    """),
    "0.13.0": names("""
        AudioFlamingo3ForConditionalGeneration BagelForConditionalGeneration
    """),
    "0.14.0": names("""
        GlmAsrForConditionalGeneration IQuestLoopCoderForCausalLM IsaacForConditionalGeneration
        KananaVForConditionalGeneration Lfm2VlForConditionalGeneration NemotronParseForConditionalGeneration
        PanguProMoEV2ForCausalLM
    """),
    "0.15.0": names("""
        BgeM3EmbeddingModel Eagle2_5_VLForConditionalGeneration Glm4MoeLiteForCausalLM Step1ForCausalLM
        StepVLForConditionalGeneration
    """),
    "0.16.0": names("""
        DeepseekOCR2ForCausalLM FunAudioChatForConditionalGeneration GlmOcrForConditionalGeneration
        HF_ColBERT InternS1ProForConditionalGeneration NemotronHPuzzleForCausalLM
        OpenPanguVLForConditionalGeneration Qwen3ASRForConditionalGeneration Step3p5ForCausalLM
        VoyageQwen3BidirectionalEmbedModel
    """),
    "0.17.0": names("""
        AXK1ForCausalLM BailingMoeV2_5ForCausalLM ColBERTJinaRobertaModel ColBERTModernBertModel
        ColModernVBertForRetrieval ColQwen3 FireRedASR2ForConditionalGeneration
        FunASRForConditionalGeneration LlamaNemotronVLForSequenceClassification LlamaNemotronVLModel
        OpsColQwen3Model Ovis2_6ForCausalLM Ovis2_6_MoeForCausalLM Qwen3ASRRealtimeGeneration
        Qwen3VLNemotronEmbedModel
    """),
    "0.18.0": names("""
        Eagle3DeepseekV2ForCausalLM Eagle3DeepseekV3ForCausalLM HCXVisionV2ForCausalLM
        MoonshotKimiaForCausalLM SarvamMLAForCausalLM SarvamMoEForCausalLM
    """),
    "0.19.0": names("""
        ColBERTLfm2Model ColQwen3_5 Qwen3ASRForcedAlignerForTokenClassification
    """),
    "0.20.0": names("""
        Granite4VisionForConditionalGeneration JinaEmbeddingsV5Model JinaForRanking
        NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Super_Omni_Reasoning_V3 Param2MoEForCausalLM
        Phi4ForCausalLMV Rnj1ForCausalLM
    """),
    "0.21.0": names("""
        EagleCohereForCausalLM EagleMistralForCausalLM HfMoondream Moondream3ForCausalLM
        QianfanOCRForConditionalGeneration
    """),
    "0.22.0": names("""
        InternS2PreviewForConditionalGeneration OpenVLAForActionPrediction PEagleDraftModel
        PeagleLlamaForCausalLM
    """),
    "0.23.0": names("""
        Cosmos3ForConditionalGeneration Gemma4UnifiedForConditionalGeneration
    """),
    "0.24.0": names("""
        Eagle3Qwen3ForCausalLM MiniMaxM3SparseForCausalLM MossAudioModel PeagleQwen3ForCausalLM
    """),
    "0.25.0": names("""
        LlavaOnevision2ForConditionalGeneration MossTranscribeDiarizeForConditionalGeneration
        OpenAIPrivacyFilterForTokenClassification Qwen3DSparkModel UnlimitedOCRForCausalLM
    """),
    "0.26.0": names("""
        LongcatFlashNgramForCausalLM
    """),
    "0.28.0": names("""
        DFlash2DraftModel DFlashMuseGlimmerAssistantModel InternS2MobiusForConditionalGeneration
        MuseGlimmerAssistantModel
    """),
    "0.29.0": names("""
        DeepseekV3BidirectionalModel NemotronH_Omni_Reasoning_V3 Qwen3OmniDSparkModel Qwen4ExpForCausalLM
        Qwen4ExpForConditionalGeneration
    """),
    "0.32.0": names("""
        EmbeddingGemma2Model
    """),
}
