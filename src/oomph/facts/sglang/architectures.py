"""Which architectures SGLang's own lists name, release by release.

Origins: `configs/model_config.py` (multimodal, sliding window, sparse attention, graphs), `arg_groups/overrides.py` and
`server_args.py` (recurrent states). The lists were read out of every release's source.
"""

from oomph.facts.changes import Dated, Facts, changes, since


def evolving(first: str, *later: tuple[str, str]) -> Dated[frozenset[str]]:
    """Names that a list has in the oldest release, and what each later release adds (+) and drops (-)."""
    names = set(first.split())
    steps = []
    for release, words in later:
        names = names | {word[1:] for word in words.split() if word[0] == "+"}
        names = names - {word[1:] for word in words.split() if word[0] == "-"}
        steps.append((release, frozenset(names)))
    return changes(frozenset(first.split()), *steps)


class Architectures(Facts):
    # configs/model_config.py multimodal_model_archs
    multimodal = evolving(
        "CLIPModel DeepseekOCRForCausalLM DeepseekVL2ForCausalLM DotsOCRForCausalLM DotsVLMForCausalLM "
        "Gemma3ForConditionalGeneration Gemma3nForConditionalGeneration Glm4vForConditionalGeneration "
        "Glm4vMoeForConditionalGeneration GlmAsrForConditionalGeneration Grok1AForCausalLM Grok1VForCausalLM "
        "InternS1ForConditionalGeneration InternVLChatModel JetVLMForConditionalGeneration "
        "KimiVLForConditionalGeneration Llama4ForConditionalGeneration LlavaForConditionalGeneration "
        "LlavaLlamaForCausalLM LlavaMistralForCausalLM LlavaQwenForCausalLM LlavaVidForCausalLM MiDashengLMModel "
        "MiniCPMO MiniCPMV Mistral3ForConditionalGeneration MllamaForConditionalGeneration MultiModalityCausalLM "
        "NVILAForConditionalGeneration NVILALiteForConditionalGeneration NemotronH_Nano_VL_V2 POINTSV15ChatModel "
        "PaddleOCRVLForConditionalGeneration Phi4MMForCausalLM PixtralForConditionalGeneration "
        "Qwen2AudioForConditionalGeneration Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration "
        "Qwen3OmniMoeForConditionalGeneration Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration "
        "Sarashina2VisionForCausalLM Step3VLForConditionalGeneration",
        (
            "0.5.9",
            "+Ernie4_5_VLMoeForConditionalGeneration +GlmOcrForConditionalGeneration "
            "+InternS1ProForConditionalGeneration +KimiK25ForConditionalGeneration "
            "+LightOnOCRForConditionalGeneration +Qwen3_5ForConditionalGeneration "
            "+Qwen3_5MoeForConditionalGeneration +StepVLForConditionalGeneration",
        ),
        ("0.5.10", "+Lfm2VlForConditionalGeneration +WhisperForConditionalGeneration"),
        (
            "0.5.11",
            "+Gemma4ForConditionalGeneration +MiMoV2ForCausalLM +MossVLForConditionalGeneration "
            "+NemotronH_Nano_Omni_Reasoning_V3 +Qwen3ASRForConditionalGeneration "
            "+VoxtralForConditionalGeneration",
        ),
        ("0.5.12", "+InternS2PreviewForConditionalGeneration"),
        (
            "0.5.13",
            "+Cohere2VisionForConditionalGeneration +Gemma4UnifiedForConditionalGeneration "
            "+Step3p7ForConditionalGeneration",
        ),
        ("0.5.14", "+MiMoV2ASRForCausalLM +MiniMaxM3SparseForConditionalGeneration"),
        ("0.5.15", "+LocateAnythingForConditionalGeneration +UnlimitedOCRForCausalLM"),
        ("0.5.16", "+GlmImageForConditionalGeneration"),
        ("0.5.18", "+InternS2MobiusForConditionalGeneration +MuseGlimmerForConditionalGeneration"),
        ("0.5.19", "+Dots3NoteForCausalLM"),
        (
            "0.5.20",
            "+Cosmos3EdgeForConditionalGeneration +Glm5NextForConditionalGeneration "
            "+NemotronH_Omni_Reasoning_V3 +Qwen4ExpForConditionalGeneration",
        ),
        (
            "0.5.21",
            "+BailingMM2NativeForConditionalGeneration +BailingMMNativeForConditionalGeneration "
            "+BailingMoeV3VLForConditionalGeneration +DiffusionGemmaForBlockDiffusion",
        ),
        ("0.5.22", "+EmbeddingGemma2Model"),
        ("0.5.23", "+MuseSparkForConditionalGeneration"),
    )
    nested_text_is_multimodal = since("0.5.10")  # any config with a text_config inside
    # without --enable-multimodal these take no images
    images_asked_for = evolving(
        "Gemma3ForConditionalGeneration Llama4ForConditionalGeneration Step3VLForConditionalGeneration",
        ("0.5.16", "+InklingForConditionalGeneration"),
    )
    # server_args.py LANGUAGE_MODEL_ONLY_ARCHITECTURES: --language-model-only is refused for all others
    text_only = evolving(
        "",
        ("0.5.18", "+MuseGlimmerForConditionalGeneration"),
        ("0.5.20", "+Cosmos3ForConditionalGeneration +Cosmos3EdgeForConditionalGeneration"),
        ("0.5.22", "+DeepseekV4ForCausalLM"),
    )
    # is_hybrid_swa_model: two pools, one of them for the sliding-window layers
    hybrid_window = evolving(
        "MiMoV2FlashForCausalLM MiMoV2MTP",
        ("0.5.8", "+GptOssForCausalLM +Llama4ForConditionalGeneration"),
        ("0.5.9", "+Step3p5ForCausalLM +Step3p5MTP"),
        ("0.5.11", "+Gemma4ForCausalLM +Gemma4ForConditionalGeneration +MiMoV2ForCausalLM"),
        ("0.5.12", "+DeepseekV4ForCausalLM +DeepseekV4ForCausalLMNextN +LagunaForCausalLM"),
        ("0.5.13", "+Gemma4UnifiedForConditionalGeneration +Step3p7ForConditionalGeneration"),
        ("0.5.15", "+UnlimitedOCRForCausalLM"),
        (
            "0.5.16",
            "+DeepseekV4ForCausalLMDSpark +InklingForConditionalGeneration "
            "+InklingForConditionalGenerationMTP +MellumForCausalLM",
        ),
        ("0.5.18", "+MuseGlimmerForCausalLM +MuseGlimmerForConditionalGeneration"),
        ("0.5.19", "+GraniteMoeSWAForCausalLM +GraniteSWAForCausalLM"),
        ("0.5.21", "+DiffusionGemmaForBlockDiffusion +IQuestQ1ForCausalLM +IQuestQ1MTP"),
        ("0.5.22", "+EmbeddingGemma2Model"),
        ("0.5.23", "+BeamForCausalLM"),
    )
    # is_deepseek_dsa, where the config has index_topk
    sparse = evolving(
        "DeepseekV32ForCausalLM DeepseekV3ForCausalLM DeepseekV3ForCausalLMNextN MistralLarge3ForCausalLM "
        "PixtralForConditionalGeneration",
        ("0.5.9", "+GlmMoeDsaForCausalLM"),
        ("0.5.16", "+GlmMoeDsaForCausalLMNextN +LongcatFlashForCausalLM +LongcatFlashForCausalLMNextN"),
        ("0.5.19", "+Dots3NoteForCausalLM +Dots3NoteForCausalLMNextN"),
        (
            "0.5.20",
            "+Glm5NextForConditionalGeneration +Glm5NextForConditionalGenerationNextN +HYV4ForCausalLM "
            "+HYV4ForCausalLMNextN",
        ),
    )
    # piecewise_cuda_graph_disabled_model_archs
    no_piecewise_graphs = evolving(
        "",
        (
            "0.5.10",
            "+BailingMoeV2_5ForCausalLM +DeepseekV32ForCausalLM +GlmMoeDsaForCausalLM +LLaDAModelLM "
            "+Qwen3NextForCausalLM",
        ),
        ("0.5.12", "+DeepseekV4ForCausalLM +DeepseekV4ForCausalLMNextN"),
        ("0.5.13", "-DeepseekV32ForCausalLM -GlmMoeDsaForCausalLM"),
        ("0.5.16", "+DeepseekV4ForCausalLMDSpark"),
        ("0.5.20", "+Glm5NextForConditionalGeneration"),
    )
    # multimodal_piecewise_cuda_graph_supported_model_archs
    multimodal_piecewise = evolving(
        "",
        ("0.5.14", "+Cohere2VisionForConditionalGeneration"),
        (
            "0.5.16",
            "+KimiK25ForConditionalGeneration +MiniMaxM3SparseForCausalLM +MiniMaxM3SparseForConditionalGeneration",
        ),
        ("0.5.19", "-Cohere2VisionForConditionalGeneration"),
    )
    # multimodal_breakable_cuda_graph_supported_model_archs
    multimodal_breakable = evolving(
        "",
        ("0.5.16", "+Qwen3_5ForConditionalGeneration +Qwen3_5MoeForConditionalGeneration"),
        (
            "0.5.18",
            "+InternS2MobiusForConditionalGeneration +KimiK25ForConditionalGeneration "
            "+KimiK3ForConditionalGeneration +MuseGlimmerForConditionalGeneration",
        ),
        ("0.5.19", "+Cohere2VisionForConditionalGeneration +PaddleOCRVLForConditionalGeneration"),
        ("0.5.20", "+Glm5NextForConditionalGeneration"),
        (
            "0.5.22",
            "+MiniMaxM3SparseForCausalLM +MiniMaxM3SparseForConditionalGeneration +Qwen4ExpForConditionalGeneration",
        ),
        ("0.5.23", "+MuseSparkForConditionalGeneration"),
    )

    # models whose class keeps its recurrent states in the radix cache with spare slots (`extra_buffer`); before 0.5.14
    # the strategy was `no_buffer` unless a flag asked for the other
    state_spares = evolving(
        "",
        (
            "0.5.14",
            "+BailingMoeV2_5ForCausalLM +FalconH1ForCausalLM +GraniteMoeHybridForCausalLM "
            "+InternS2PreviewForConditionalGeneration +MiniCPMV4_6ForConditionalGeneration +NemotronHForCausalLM "
            "+NemotronHPuzzleForCausalLM +Qwen3NextForCausalLM +Qwen3_5ForConditionalGeneration "
            "+Qwen3_5MoeForConditionalGeneration",
        ),
        ("0.5.16", "+KimiLinearForCausalLM"),
        ("0.5.17", "+KimiK3ForConditionalGeneration"),
        ("0.5.19", "+BailingMoeV3ForCausalLM +Qwen3_5ForCausalLM +Qwen3_5MoeForCausalLM"),
        (
            "0.5.20",
            "+Glm5NextForConditionalGeneration +NemotronH_Omni_Reasoning_V3 +Qwen4ExpForConditionalGeneration",
        ),
        (
            "0.5.21",
            "+BailingMoeV3VLForConditionalGeneration +InklingForConditionalGeneration "
            "+InklingForConditionalGenerationMTP",
        ),
        ("0.5.23", "+MiniCPMV4_7ForConditionalGeneration"),
    )
    # models with recurrent states that SGLang serves without a radix cache
    no_radix = evolving(
        "",
        ("0.5.9", "+KimiLinearForCausalLM +BailingMoeV2_5ForCausalLM"),
        ("0.5.13", "-BailingMoeV2_5ForCausalLM"),
        ("0.5.14", "-KimiLinearForCausalLM"),
    )
