"""The model classes that SGLang brings, release by release (`EntryClass` of every file in `models/`)."""

from oomph.facts.changes import Facts
from oomph.facts.sglang.architectures import evolving


class Models(Facts):
    classes = evolving(
        "ApertusForCausalLM ArceeForCausalLM BaichuanForCausalLM BailingMoEForCausalLM BailingMoeForCausalLM "
        "BailingMoeV2ForCausalLM BertForSequenceClassification BertModel CLIPModel ChatGLMModel "
        "Cohere2ForCausalLM CohereForCausalLM Contriever DbrxForCausalLM DeciLMForCausalLM DeepseekForCausalLM "
        "DeepseekOCRForCausalLM DeepseekV2ForCausalLM DeepseekV32ForCausalLM DeepseekV3ForCausalLM "
        "DeepseekVL2ForCausalLM DotsOCRForCausalLM DotsVLMForCausalLM Ernie4_5_ForCausalLM "
        "Ernie4_5_MoeForCausalLM ExaoneForCausalLM FalconH1ForCausalLM GPT2LMHeadModel GPTBigCodeForCausalLM "
        "Gemma2ForCausalLM Gemma2ForSequenceClassification Gemma3ForCausalLM Gemma3ForConditionalGeneration "
        "Gemma3nForCausalLM Gemma3nForConditionalGeneration GemmaForCausalLM Glm4ForCausalLM Glm4MoeForCausalLM "
        "Glm4vForConditionalGeneration Glm4vMoeForConditionalGeneration GlmAsrForConditionalGeneration "
        "GptOssForCausalLM GraniteForCausalLM GraniteMoeForCausalLM Grok1ForCausalLM Grok1ModelForCausalLM "
        "HunYuanDenseV1ForCausalLM HunYuanMoEV1ForCausalLM InternLM2ForCausalLM InternLM2ForRewardModel "
        "InternLM3ForCausalLM InternS1ForConditionalGeneration InternVLChatModel JetNemotronForCausalLM "
        "JetVLMForConditionalGeneration KimiLinearForCausalLM KimiVLForConditionalGeneration LLaDA2MoeModelLM "
        "Llama4ForCausalLM Llama4ForConditionalGeneration LlamaEmbeddingModel LlamaForCausalLM "
        "LlamaForClassification LlamaForSequenceClassification LlamaForSequenceClassificationWithNormal_Weights "
        "LlavaForConditionalGeneration LlavaLlamaForCausalLM LlavaMistralForCausalLM LlavaQwenForCausalLM "
        "LlavaVidForCausalLM LongcatFlashForCausalLM MiDashengLMModel MiMoForCausalLM MiMoV2FlashForCausalLM "
        "MindSporeForCausalLM MiniCPM3ForCausalLM MiniCPMForCausalLM MiniCPMO MiniCPMV MiniMaxM2ForCausalLM "
        "Ministral3ForCausalLM Mistral3ForConditionalGeneration MistralForCausalLM MistralLarge3ForCausalLM "
        "MistralModel MixtralForCausalLM MllamaForConditionalGeneration MultiModalityCausalLM "
        "NVILAForConditionalGeneration NVILALiteForConditionalGeneration NemotronHForCausalLM "
        "NemotronH_Nano_VL_V2 OPTForCausalLM Olmo2ForCausalLM OlmoForCausalLM OlmoeForCausalLM OrionForCausalLM "
        "POINTSV15ChatModel PaddleOCRVLForConditionalGeneration PersimmonForCausalLM Phi3ForCausalLM "
        "Phi3SmallForCausalLM Phi4MMForCausalLM PhiForCausalLM PhiMoEForCausalLM PixtralForConditionalGeneration "
        "PixtralVisionModel QWenLMHeadModel QuantMixtralForCausalLM Qwen2AudioForConditionalGeneration "
        "Qwen2ForCausalLM Qwen2ForRewardModel Qwen2MoeForCausalLM Qwen2VLForConditionalGeneration "
        "Qwen2_5_VLForConditionalGeneration Qwen3ForCausalLM Qwen3ForSequenceClassification Qwen3MoeForCausalLM "
        "Qwen3NextForCausalLM Qwen3OmniMoeForConditionalGeneration Qwen3VLForConditionalGeneration "
        "Qwen3VLMoeForConditionalGeneration Sarashina2VisionForCausalLM SolarForCausalLM StableLmForCausalLM "
        "Starcoder2ForCausalLM Step3VLForConditionalGeneration TeleFLMForCausalLM TorchNativeLlamaForCausalLM "
        "TorchNativePhi3ForCausalLM TransformersForCausalLM XLMRobertaForSequenceClassification XLMRobertaModel "
        "XverseForCausalLM XverseMoeForCausalLM YiVLForCausalLM",
        (
            "0.5.8",
            "+AfmoeForCausalLM +Glm4MoeLiteForCausalLM +IQuestCoderForCausalLM +IQuestLoopCoderForCausalLM",
        ),
        (
            "0.5.9",
            "+BailingMoeV2_5ForCausalLM +Ernie4_5_VLMoeForConditionalGeneration +Exaone4ForCausalLM "
            "+ExaoneMoEForCausalLM +GPTJForCausalLM +GlmMoeDsaForCausalLM +GlmOcrForConditionalGeneration "
            "+GraniteMoeHybridForCausalLM +InternS1ProForConditionalGeneration +KimiK25ForConditionalGeneration "
            "+Lfm2ForCausalLM +Lfm2MoeForCausalLM +LightOnOCRForConditionalGeneration +Qwen3ForRewardModel "
            "+Qwen3_5ForConditionalGeneration +Qwen3_5MoeForConditionalGeneration +SDARForCausalLM "
            "+SDARMoeForCausalLM +Step3p5ForCausalLM +StepVLForConditionalGeneration",
        ),
        (
            "0.5.10",
            "+Lfm2VlForConditionalGeneration +SarvamMLAForCausalLM +SarvamMoEForCausalLM "
            "+TransformersEmbeddingModel +TransformersForSequenceClassification +TransformersMoEEmbeddingModel "
            "+TransformersMoEForCausalLM +TransformersMoEForSequenceClassification "
            "+TransformersMultiModalEmbeddingModel +TransformersMultiModalForCausalLM "
            "+TransformersMultiModalForSequenceClassification +TransformersMultiModalMoEEmbeddingModel "
            "+TransformersMultiModalMoEForCausalLM +TransformersMultiModalMoEForSequenceClassification "
            "+WhisperForConditionalGeneration",
        ),
        (
            "0.5.11",
            "+Gemma4ForCausalLM +Gemma4ForConditionalGeneration +HYV3ForCausalLM +MiMoV2ForCausalLM "
            "+MossVLForConditionalGeneration +NemotronH_Nano_Omni_Reasoning_V3 +Qwen3ASRForConditionalGeneration "
            "+VoxtralForConditionalGeneration",
        ),
        (
            "0.5.12",
            "+DeepseekV4ForCausalLM +Gemma4AssistantForCausalLM +InternS2PreviewForConditionalGeneration "
            "+LagunaForCausalLM +MiniCPMV4_6ForConditionalGeneration",
        ),
        (
            "0.5.13",
            "+Cohere2MoeForCausalLM +Cohere2VisionForConditionalGeneration +Gemma4UnifiedAssistantForCausalLM "
            "+Gemma4UnifiedForConditionalGeneration +NemotronHPuzzleForCausalLM +Step3p7ForConditionalGeneration",
        ),
        ("0.5.14", "+MiMoV2ASRForCausalLM +ZayaForCausalLM"),
        ("0.5.15", "+HrmTextForCausalLM +LocateAnythingForConditionalGeneration +UnlimitedOCRForCausalLM"),
        (
            "0.5.16",
            "+GlmImageForConditionalGeneration +InklingForConditionalGeneration +MellumForCausalLM "
            "+MiniMaxM3SparseForCausalLM +MiniMaxM3SparseForConditionalGeneration",
        ),
        (
            "0.5.17",
            "+EmbeddingGemmaModel +KimiK3ForConditionalGeneration +Lfm2BidirectionalModel +Qwen3Model "
            "+Qwen3_5ForCausalLM +Qwen3_5MoeForCausalLM",
        ),
        (
            "0.5.18",
            "+InternS2MobiusForConditionalGeneration +MuseGlimmerAssistantModel +MuseGlimmerForCausalLM "
            "+MuseGlimmerForConditionalGeneration",
        ),
        (
            "0.5.19",
            "+BailingMoeV3ForCausalLM +Dots3NoteForCausalLM +GraniteMoeSWAForCausalLM "
            "+GraniteMoeSharedForCausalLM +GraniteSWAForCausalLM +KimiK3LinearForCausalLM +MiniCPMSALAForCausalLM "
            "+Spark2_5ForCausalLM",
        ),
        (
            "0.5.20",
            "+Cosmos3EdgeForConditionalGeneration +Cosmos3ForConditionalGeneration +FalconMambaForCausalLM "
            "+Glm5NextForConditionalGeneration +HYV4ForCausalLM +K2HorizonForCausalLM +Mamba2ForCausalLM "
            "+MambaForCausalLM +NanbeigeForCausalLM +NanbeigeForSequenceClassification "
            "+NemotronH_Omni_Reasoning_V3 +Qwen2ForSequenceClassification +Qwen4ExpForConditionalGeneration "
            "+XllmForCausalLM",
        ),
        (
            "0.5.21",
            "+BailingMM2NativeForConditionalGeneration +BailingMMNativeForConditionalGeneration "
            "+BailingMoeV3VLForConditionalGeneration +DiffusionGemmaForBlockDiffusion +GigaChat35ForCausalLM "
            "+IQuestQ1ForCausalLM",
        ),
        ("0.5.22", "+EmbeddingGemma2Model +ExaoneMoeForCausalLM"),
        (
            "0.5.23",
            "+BeamForCausalLM +MiniCPMV4_7ForConditionalGeneration +MuseSparkForConditionalGeneration",
        ),
    )
