"""Which architectures and quantisation methods a release knows, and its words for those it does not."""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from oomph.facts.changes import Dated, Facts, changes, members, names, since, table, until
from oomph.facts.vllm.registered import FIRST


class Method(Struct, frozen=True, kw_only=True):
    """A quantisation as the checkpoint names it -> as vLLM resolves it, with the capability it asks for."""

    name: str
    min_sm: int
    desc_act: bool = True  # False: refused with activation ordering
    fallback: str = ""  # the name below `fallback_below`, where Marlin's kernels do not run
    fallback_below: int = 75
    fallback_min: int = 0
    dtypes: tuple[str, ...] = ("bfloat16", "float16")  # get_supported_act_dtypes, in its order
    # override_quantization_method: the words of --quantization that mean this method, and whether any word does
    words: tuple[str, ...] = ("marlin",)
    decides: bool = False


DESC_ACT_REFUSED = (
    "GPTQ group activation ordering (desc_act=True) is no longer supported. Use a checkpoint with static activation "
    "ordering or desc_act=False."
)
_HALF_FIRST = ("float16", "bfloat16")
_ALL_FLOATS = ("float32", "float16", "bfloat16")
_FP4 = ("bfloat16", "float16", "float8_e4m3fn")
_GPTQ = Method(name="auto_gptq", min_sm=60, dtypes=_HALF_FIRST, words=("gptq", "gptq_marlin", "marlin"))
_AWQ = Method(name="auto_awq", min_sm=75, dtypes=_HALF_FIRST, words=("awq", "awq_marlin", "marlin"))
METHODS: dict[str, Dated[Method]] = {
    "awq": changes(
        Method(name="awq_marlin", min_sm=80, fallback="awq", fallback_below=80, fallback_min=75, dtypes=_HALF_FIRST),
        ("0.14.0", Method(name="awq_marlin", min_sm=75, fallback="awq", fallback_min=75, dtypes=_HALF_FIRST)),
        ("0.24.0", _AWQ),
    ),
    "gptq": changes(
        Method(name="gptq_marlin", min_sm=80, fallback="gptq", fallback_below=80, fallback_min=60, dtypes=_HALF_FIRST),
        ("0.14.0", Method(name="gptq_marlin", min_sm=75, fallback="gptq", fallback_min=60, dtypes=_HALF_FIRST)),
        ("0.22.0", _GPTQ),
        ("0.30.0", replace(_GPTQ, desc_act=False)),
    ),
    "fp8": changes(Method(name="fp8", min_sm=80), ("0.14.0", Method(name="fp8", min_sm=75))),
    "compressed-tensors": changes(Method(name="compressed-tensors", min_sm=70, dtypes=_ALL_FLOATS)),
    # modelopt.py:413 (0.21.0): the checkpoint's algorithm decides, whatever the flag says; 0.19.0 does the same
    "modelopt": changes(
        Method(name="modelopt", min_sm=89),
        ("0.19.0", Method(name="modelopt", min_sm=89, decides=True)),
        ("0.27.0", Method(name="modelopt", min_sm=80, decides=True)),
    ),
    "modelopt_fp4": changes(
        Method(name="modelopt_fp4", min_sm=80, dtypes=_FP4),
        ("0.14.0", Method(name="modelopt_fp4", min_sm=75, dtypes=_FP4)),
        ("0.19.0", Method(name="modelopt_fp4", min_sm=75, dtypes=_FP4, decides=True)),
    ),
    "modelopt_mixed": changes(
        Method(name="modelopt_mixed", min_sm=89),
        ("0.19.0", Method(name="modelopt_mixed", min_sm=89, decides=True)),
        ("0.24.0", Method(name="modelopt_mixed", min_sm=75, decides=True)),
    ),
    "mxfp4": changes(Method(name="mxfp4", min_sm=80, dtypes=("bfloat16",))),
    "bitsandbytes": changes(Method(name="bitsandbytes", min_sm=70, dtypes=_ALL_FLOATS)),
    "gguf": changes(Method(name="gguf", min_sm=60, dtypes=("float16", "bfloat16", "float32"))),
    "quark": changes(Method(name="quark", min_sm=70, dtypes=_HALF_FIRST)),
    "torchao": changes(Method(name="torchao", min_sm=75, dtypes=_ALL_FLOATS)),
    "fbgemm_fp8": changes(Method(name="fbgemm_fp8", min_sm=80)),
    "experts_int8": changes(Method(name="experts_int8", min_sm=80)),
    # quantization/online/base.py OnlineQuantizationConfig: whatever is done while loading
    **{
        name: changes(Method(name=name, min_sm=75))
        for name in names(
            "online fp8_per_tensor fp8_per_block fp8_per_channel int8_per_channel_weight_only nvfp4_per_token mxfp8"
        )
    },
}
# verify_and_update_model_config of these architectures renames a method, or a compressed-tensors format (0.20+).
RENAMED = {
    ("GptOssForCausalLM", "mxfp4"): "gpt_oss_mxfp4",
    ("DeepseekV4ForCausalLM", "fp8"): "deepseek_v4_fp8",
    ("KimiK3ForConditionalGeneration", "mxfp4-pack-quantized"): "mxfp4",
}
# mxfp4.py:117 and deepseek_v4.py:184 (0.21.0) override_quantization_method: of these models, whatever the flag says
DECIDING_NAMES = frozenset({"gpt_oss_mxfp4", "deepseek_v4_fp8"})
# gpt_oss.py:133 (0.21.0), hrm_text.py: num_key_value_heads // tp_size, where others have one head at least
NO_REPEATED_HEADS = frozenset({"GptOssForCausalLM", "HrmTextForCausalLM"})
PP_REFUSAL = "No model architectures are specified"
NO_FP8_MOE = "No FP8 MoE backend supports the deployment configuration."
# interfaces.py SupportsPP: classes without it, in all releases
NO_PIPELINE = frozenset({
    "AriaForConditionalGeneration", "CLIPModel", "DiffusionGemmaForBlockDiffusion", "GPT2ForSequenceClassification",
    "HrmTextForCausalLM",
    "BertForSequenceClassification", "BertForTokenClassification", "BertModel", "ModernBertForTokenClassification",
    "RobertaForTokenClassification", "XLMRobertaForTokenClassification", "Gemma3TextModel", "Gemma3nForCausalLM",
    "Gemma3nForConditionalGeneration", "Idefics3ForConditionalGeneration", "Mamba2ForCausalLM",
    "MiniMaxForCausalLM", "MiniMaxM1ForCausalLM", "MiniMaxText01ForCausalLM", "ModernBertForSequenceClassification",
    "ModernBertModel", "NomicBertModel", "PaddleOCRVLForConditionalGeneration",
    "RobertaForSequenceClassification", "RobertaModel", "SmolVLMForConditionalGeneration",
    "WhisperForConditionalGeneration", "XLMRobertaForSequenceClassification", "XLMRobertaModel", "Zamba2ForCausalLM",
    # read off the registry of 0.32.0
    *names("""
    BertForMaskedLM BertSpladeSparseEmbeddingModel BgeM3EmbeddingModel ColBERTJinaRobertaModel
    ColBERTLfm2Model ColBERTModernBertModel ColModernVBertForRetrieval DFlash2DraftModel DFlashDraftModel
    DFlashMuseGlimmerAssistantModel Eagle3DeepseekV2ForCausalLM Eagle3DeepseekV3ForCausalLM
    Eagle3LlamaForCausalLM Eagle3MiniMaxM2ForCausalLM Eagle3Qwen2_5vlForCausalLM Eagle3Qwen3ForCausalLM
    Eagle3Qwen3vlForCausalLM EagleCohereForCausalLM EagleLlamaForCausalLM EagleMiniCPMForCausalLM
    EagleMistralForCausalLM EmbeddingGemma2Model FireRedASR2ForConditionalGeneration
    FunASRForConditionalGeneration GteModel GteNewForSequenceClassification GteNewModel HF_ColBERT
    IQuestLoopCoderForCausalLM JinaForRanking LlamaForCausalLMEagle3 MedusaModel MuseGlimmerAssistantModel
    NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Nano_VL_V2 NemotronH_Omni_Reasoning_V3
    NemotronH_Super_Omni_Reasoning_V3 NemotronParseForConditionalGeneration
    OpenAIPrivacyFilterForTokenClassification PEagleDraftModel PeagleLlamaForCausalLM PeagleQwen3ForCausalLM
    Phi4MMForCausalLM Qwen3DSparkModel Qwen3OmniDSparkModel RobertaForMaskedLM SiglipModel
    VoyageQwen3BidirectionalEmbedModel
    """),
})  # fmt: skip
NO_PIPELINE_REFUSAL = (
    "Pipeline parallelism is not supported for this model. Supported models implement the `SupportsPP` interface."
)
STRICT_WINDOW_REFUSAL = (
    "Validation error for field 'sliding_window':\n    TypeError: Field 'sliding_window' expected int, got NoneType "
    "(value: None)"
)
UNKNOWN_TYPE = (
    "The checkpoint you are trying to load has model type `{model_type}` but Transformers does not recognize this "
    "architecture. This could be because of an issue with the checkpoint, or because your version of Transformers "
    "is out of date.\n\nYou can update Transformers with the command `pip install --upgrade transformers`. If this "
    "does not work, and the checkpoint is very new, then there may not be a release version that supports this "
    "model yet. In this case, you can get the most up-to-date code by installing Transformers from source with the "
    "command `pip install git+https://github.com/huggingface/transformers.git`"
)
# model types that other engines' converters write, and that neither vLLM nor Transformers has a config class for
UNKNOWN_TYPES = frozenset({"deepseek_ref"})


class Absent(Struct, frozen=True):
    """What a release says of an architecture that it does not have."""

    type: str
    text: str
    stage: Literal["engine_config", "model_build"] = "engine_config"
    unlisted: bool = False  # Transformers has the config and the class: --model-impl transformers serves it


_UNKNOWN = Absent("ValidationError", UNKNOWN_TYPE)


def _unsupported(name: str) -> Absent:
    """registry.py goes on to list all that it has."""
    return Absent("ValidationError", f"Model architectures ['{name}'] are not supported for now.", unlisted=True)


def _no_vision(config: str) -> Absent:
    return Absent("AttributeError", f"'{config}' object has no attribute 'vision_config'", "model_build")


def _not_listed(name: str) -> Absent:
    """registry.py goes on to list all that it has."""
    return Absent("ValidationError", f"Model architectures ['{name}'] are not supported for now.")


# model_executor/models/registry.py: architectures that not every release has, until one does
NOT_YET: dict[str, Dated[Absent | None]] = {
    **{name: changes(_not_listed(name), (release, None)) for release, own in FIRST.items() for name in own},
    # two spellings, of which one was gone for a while
    "ExaoneMoEForCausalLM": changes(None, ("0.27.0", _unsupported("ExaoneMoEForCausalLM")), ("0.32.0", None)),
    # interns1_pro.py:579 (0.32.0) reads an attribute that it never sets; 0.31.0 does not
    "InternS1ProForConditionalGeneration": changes(
        _not_listed("InternS1ProForConditionalGeneration"),
        ("0.16.0", None),
        (
            "0.32.0",
            Absent(
                "AttributeError",
                "'InternS1ProForConditionalGeneration' object has no attribute 'model_config'",
                "model_build",
            ),
        ),
    ),
    "MiniMaxM2ForCausalLM": changes(_UNKNOWN, ("0.11.1", None)),
    "MiMoV2FlashForCausalLM": changes(_UNKNOWN, ("0.14.0", None)),
    "KimiK25ForConditionalGeneration": changes(_UNKNOWN, ("0.15.0", None)),
    "GlmMoeDsaForCausalLM": changes(_UNKNOWN, ("0.16.0", None)),
    "Qwen3_5ForConditionalGeneration": changes(_UNKNOWN, ("0.17.0", None)),
    "Qwen3_5MoeForConditionalGeneration": changes(_UNKNOWN, ("0.17.0", None)),
    "Gemma4ForCausalLM": changes(_UNKNOWN, ("0.19.0", None)),
    "Gemma4ForConditionalGeneration": changes(_UNKNOWN, ("0.19.0", None)),
    "DeepseekV4ForCausalLM": changes(_UNKNOWN, ("0.20.0", None)),
    "Exaone4_5_ForConditionalGeneration": changes(_UNKNOWN, ("0.20.0", None)),
    "HYV3ForCausalLM": changes(_UNKNOWN, ("0.20.0", None)),
    "Cohere2MoeForCausalLM": changes(_UNKNOWN, ("0.21.0", None)),
    "LagunaForCausalLM": changes(_UNKNOWN, ("0.21.0", None)),
    "MiMoV2ForCausalLM": changes(_UNKNOWN, ("0.21.0", None)),
    "MiniCPMV4_6ForConditionalGeneration": changes(_UNKNOWN, ("0.22.0", None)),
    "MellumForCausalLM": changes(_UNKNOWN, ("0.23.0", None)),
    "VaultGemmaForCausalLM": changes(_unsupported("VaultGemmaForCausalLM"), ("0.27.0", None)),
    "GraniteSpeechPlusForConditionalGeneration": changes(_UNKNOWN, ("0.23.0", None)),
    "DiffusionGemmaForBlockDiffusion": changes(_UNKNOWN, ("0.24.0", None)),
    "HrmTextForCausalLM": changes(_UNKNOWN, ("0.24.0", None)),
    "Cosmos3EdgeForConditionalGeneration": changes(_UNKNOWN, ("0.26.0", None)),
    "InklingForCausalLM": changes(_UNKNOWN, ("0.26.0", None)),
    "InklingForConditionalGeneration": changes(_UNKNOWN, ("0.26.0", None)),
    "HYV4ForCausalLM": changes(_UNKNOWN, ("0.29.0", None)),
    "MuseGlimmerForCausalLM": changes(_UNKNOWN, ("0.28.0", None)),
    "GraniteMoeSWAForCausalLM": changes(_UNKNOWN, ("0.29.0", None)),
    "GraniteSWAForCausalLM": changes(_UNKNOWN, ("0.29.0", None)),
    "MiniCPMV4_7ForConditionalGeneration": changes(_UNKNOWN, ("0.32.0", None)),
    "Step3p7ForConditionalGeneration": changes(_UNKNOWN, ("0.23.0", None)),
    "Qwen3_5ForCausalLM": changes(_no_vision("Qwen3_5TextConfig"), ("0.27.0", None)),
    "Qwen3_5MoeForCausalLM": changes(_no_vision("Qwen3_5MoeTextConfig"), ("0.27.0", None)),
    "KimiK3ForConditionalGeneration": changes(_UNKNOWN, ("0.27.0", None)),
    "MuseGlimmerForConditionalGeneration": changes(_UNKNOWN, ("0.28.0", None)),
    "MiniMaxM3SparseForConditionalGeneration": changes(_UNKNOWN, ("0.24.0", None)),
    # its model type has a config class since then, but no class of this name (registry.py goes on to list them all)
    "Step3p7FlashForCausalLM": changes(
        _UNKNOWN,
        (
            "0.23.0",
            Absent("ValidationError", "Model architectures ['Step3p7FlashForCausalLM'] are not supported for now."),
        ),
    ),
    "MiniMaxM3ForCausalLM": changes(_UNKNOWN),
}


def _supported_until(last: str, architecture: str) -> Absent:
    """registry.py _PREVIOUSLY_SUPPORTED_MODELS, of which Transformers has no class either."""
    return Absent(
        "ValidationError",
        f"Model architecture {architecture} was supported in vLLM until v{last}, and is not supported anymore. Please "
        "use an older version of vLLM if you want to use this model architecture.",
    )


def _gone(last: str, release: str, architectures: str) -> dict[str, Dated[Absent | None]]:
    return {name: changes(None, (release, _supported_until(last, name))) for name in architectures.split()}


_NOT_DISPATCHED = Absent(
    "ValueError",
    "Layer 0 (linear_attention) does not dispatch through the Transformers attention interface and vLLM has no other "
    "way to handle it.",
    "model_build",
)
# architectures that are no longer vLLM's own and that the Transformers fallback refuses
GONE: dict[str, Dated[Absent | None]] = {
    "BambaForCausalLM": changes(
        None, ("0.24.0", _supported_until("0.23.0", "BambaForCausalLM")), ("0.30.0", _NOT_DISPATCHED)
    ),
    "MiniMaxForCausalLM": changes(None, ("0.24.0", _NOT_DISPATCHED)),
    **_gone("0.22.0", "0.23.0", "JAISLMHeadModel"),
    **_gone("0.23.0", "0.24.0", "InternLMForCausalLM MiniMaxM1ForCausalLM MiniMaxText01ForCausalLM"),
    **_gone("0.23.0", "0.24.0", "MiniMaxVL01ForConditionalGeneration QWenLMHeadModel XverseForCausalLM"),
    **_gone("0.23.0", "0.25.0", "BaiChuanForCausalLM BaichuanForCausalLM"),
    **_gone("0.24.0", "0.25.0", "AquilaForCausalLM AquilaModel Grok1ForCausalLM Grok1ModelForCausalLM"),
    **_gone("0.25.0", "0.26.0", "TeleChatForCausalLM"),
    **_gone("0.26.0", "0.27.0", "OuroForCausalLM Plamo2ForCausalLM"),
    **_gone("0.28.0", "0.29.0", "ArcticForCausalLM GritLM MPTForCausalLM RWForCausalLM"),
}


# configuration_utils.py of Transformers 5.8: what `layer_types` may hold. Before 5.0 nothing was checked; 5.10
# (vLLM 0.29) knows the types of all models here.
_LAYER_TYPES = (
    "full_attention", "sliding_attention", "chunked_attention", "compressed_sparse_attention",
    "heavily_compressed_attention", "linear_attention", "conv", "mamba", "attention", "sparse", "dense", "hybrid",
    "moe",
)  # fmt: skip
LAYER_TYPES_REFUSAL = (
    "Class validation error for validator 'validate_layer_type':\n    ValueError: The `layer_types` entries must be in "
    "{allowed} but got {given}"
)
# fp8.py Fp8MoEMethod.create_weights
FP8_BLOCKS_CUT = (
    "The output_size of gate's and up's weight = {size} is not divisible by weight quantization block_n = {block}."
)
# glm4_moe.py:509, hy_v3.py, afmoe.py, qwen3_moe.py, qwen3_next.py, lfm2_moe.py (0.32.0; in 0.21.0 too): each pipeline
# stage looks for a layer with experts among its own
STAGE_WITHOUT_EXPERTS = {
    "AfmoeForCausalLM": "No AfmoeMoE layer found in model.layers.",
    "Glm4MoeForCausalLM": "No Glm4MoE layer found in model.layers.",
    "Glm4vMoeForConditionalGeneration": "No Glm4MoE layer found in model.layers.",
    "HYV3ForCausalLM": "No MoE layer found in model.layers.",
    "Lfm2MoeForCausalLM": "No Lfm2MoeSparseMoeBlock layer found in the model.layers.",
    "Qwen3MoeForCausalLM": "No Qwen3MoE layer found in the model.layers.",
    "Qwen3NextForCausalLM": "No Qwen3Next layer found in the model.layers.",
}
# qwen3_vl.py:2057 (0.32.0)
DEEPSTACK_CUT = "start_layer should be greater than or equal to len(deepstack_visual_indexes)"
# config/speculative.py create_draft_parallel_config: drafts are asked for the target's pipeline parallelism, which few
# of their classes support.
DRAFTS_WITH_PIPELINE = ("NemotronH", "Glm4MoeLite", "GlmOcr")


GGUF = "gguf"  # the quantisation method of a GGUF file
# transformers_utils/config.py:849 (0.32.0): a file is neither a repository nor a folder with a config
GGUF_REFUSAL = (
    "Invalid repository ID or local directory specified: '{model}'. Please verify the following requirements: 1. "
    "Provide a valid Hugging Face repository ID. 2. Specify a local directory that contains a recognized configuration "
    "file."
)
GGUF_NOTE = (
    "GGUF left vLLM's tree with 0.24.0: the plugin vllm-gguf-plugin reads it since, and what that keeps in memory is "
    "not known here; --engine vllm==0.23.0 plans the last release with it, llama-server -m FILE plans llama.cpp"
)


class Support(Facts):
    """What a release can build."""

    # interfaces.py supports_encoder_tp_data: other classes fall back to --mm-encoder-tp-mode weights. Read off the
    # registries of 0.21.0, 0.27.0 and 0.32.0.
    whole_encoders = members(
        "ColQwen3 ColQwen3_5 DotsOCRForCausalLM Eagle2_5_VLForConditionalGeneration Glm4vForConditionalGeneration "
        "Glm4vMoeForConditionalGeneration GlmOcrForConditionalGeneration H2OVLChatModel "
        "InternS1ProForConditionalGeneration InternVLChatModel IsaacForConditionalGeneration JinaVLForRanking "
        "KimiK25ForConditionalGeneration KimiVLForConditionalGeneration Llama4ForConditionalGeneration MiniCPMO "
        "MiniCPMV NVLM_D OpenCUAForConditionalGeneration OpsColQwen3Model QianfanOCRForConditionalGeneration "
        "Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration Qwen3VLForConditionalGeneration "
        "Qwen3VLMoeForConditionalGeneration Qwen3VLNemotronEmbedModel Qwen3_5ForConditionalGeneration "
        "Qwen3_5MoeForConditionalGeneration Step3VLForConditionalGeneration StepVLForConditionalGeneration",
        since={
            "0.27.0": "Cosmos3EdgeForConditionalGeneration Cosmos3ForConditionalGeneration "
            "Exaone4_5_ForConditionalGeneration InternS2PreviewForConditionalGeneration "
            "KimiK3ForConditionalGeneration MiniCPMV4_6ForConditionalGeneration "
            "MiniMaxM3SparseForConditionalGeneration Step3p7ForConditionalGeneration",
            "0.32.0": "CohereCompassForConditionalGeneration DeepseekV41ForCausalLM Dots3NoteForCausalLM "
            "Glm5NextForConditionalGeneration InternS2MobiusForConditionalGeneration "
            "MiniCPMV4_7ForConditionalGeneration Qwen4ExpForConditionalGeneration",
        },
        until={"0.32.0": "HunYuanVLForConditionalGeneration", "0.27.0": "Tarsier2ForConditionalGeneration"},
    )

    # interfaces.py _mark_tower_model: encoders that no prompt may use are built all the same, on the meta device, and
    # what their constructors refuse is refused. In 0.19.0 already, the oldest that was read.
    unused_towers_built = since("0.19.0")
    convert_pools = since("0.22.0")  # config/model.py _get_runner_type: --convert alone means --runner pooling
    # config/model.py:904 sets sliding_window to None, which these classes of transformers 5.16 do not take
    strict_windows = changes(
        (),
        (
            "0.21.0",
            names(
                "Gemma4ForCausalLM Gemma4ForConditionalGeneration Gemma4UnifiedForConditionalGeneration CwmForCausalLM "
                "Gemma3nForCausalLM Gemma3nForConditionalGeneration ExaoneMoEForCausalLM ExaoneMoeForCausalLM "
                "MiMoV2FlashForCausalLM"
            ),
        ),
        (
            "0.22.0",  # Laguna's class was vLLM's own until then
            names(
                "Gemma4ForCausalLM Gemma4ForConditionalGeneration Gemma4UnifiedForConditionalGeneration CwmForCausalLM "
                "Gemma3nForCausalLM Gemma3nForConditionalGeneration ExaoneMoEForCausalLM ExaoneMoeForCausalLM "
                "LagunaForCausalLM MiMoV2FlashForCausalLM"
            ),
        ),
    )
    gguf_in_tree = until("0.24.0")  # layers/quantization/gguf.py and model_loader/gguf_loader.py are in 0.23.0

    methods = table(METHODS)
    not_yet = table(NOT_YET)
    gone = table(GONE)
    renames_methods = since("0.20.0")
    # modelopt.py _extract_modelopt_quant_algo: before, not where hf_quant_config.json alone made it modelopt_fp4
    files_decide = since("0.22.0")
    layer_types = changes((), ("0.20.0", _LAYER_TYPES), ("0.29.0", ()))
    # Models whose text part is built from a config without architectures: refused with pipeline parallelism.
    pipeline_refused = changes(
        names("Cosmos3EdgeForConditionalGeneration Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration"),
        ("0.30.0", ()),
    )
    # registry.py _normalize_arch: a class that is not there is looked for under the other endings
    other_endings = changes(
        {
            "Qwen3_5ForCausalLM": "Qwen3_5ForConditionalGeneration",
            "Qwen3_5MoeForCausalLM": "Qwen3_5MoeForConditionalGeneration",
        },
        ("0.27.0", {}),
    )
    drafts_need_pipeline = until("0.30.0")
    # config/speculative.py:554 (0.28.0) hf_config_override: before, only the multimodal Qwen3.5 had its drafts
    no_own_drafts = changes(names("qwen3_5_text qwen3_5_moe_text"), ("0.28.0", ()))
    # fp8.py Fp8MoEMethod.create_weights; later the choice of kernels refuses instead
    fp8_experts_in_whole_blocks = until("0.29.0")
    scale_format = until("0.23.0")  # deepseek_v4.py:1011 (0.21.0) config.quantization_config["scale_fmt"]
    # mamba_mixer2.py:283 (0.11.2)
    mamba_groups_refused = changes(
        "Tensor parallel currently supported for quantized models only if tensor parallel world size divides num "
        "groups.",
        ("0.16.0", ""),
    )
    # compressed_tensors_moe_wna16_marlin.py:67 (0.21.0)
    wna16_zeros_refused = changes("Only symmetric quantization is supported for MoE", ("0.24.0", ""))
    # compressed_tensors_moe_wna16.py (0.29.0)
    wna16_cut_refused = changes(
        "",
        (
            "0.29.0",
            "CompressedTensors WNA16 MoE with static group scales requires the MoE intermediate size per "
            "tensor-parallel partition ({size}) to be divisible by group_size ({group}). Scale groups would otherwise "
            "cross TP shard boundaries; use a compatible TP size or enable expert parallelism.",
        ),
    )
