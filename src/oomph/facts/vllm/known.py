"""Which architectures and quantisation methods a release knows, and its words for those it does not."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from oomph.facts.vllm.kv import Row
from oomph.facts.vllm.versions import Range, select


class Method(Range, frozen=True, kw_only=True):
    """A quantisation as the checkpoint names it -> as vLLM resolves it, with the capability it asks for."""

    checkpoint: str
    name: str
    min_sm: int
    desc_act: bool = True  # False: refused with activation ordering
    fallback: str = ""  # the name below `fallback_below`, where Marlin's kernels do not run
    fallback_below: int = 75
    fallback_min: int = 0
    dtypes: tuple[str, ...] = ("bfloat16", "float16")  # get_supported_act_dtypes, in its order


_DESC_ACT = (
    "GPTQ group activation ordering (desc_act=True) is no longer supported. Use a checkpoint with static activation "
    "ordering or desc_act=False."
)
DESC_ACT_REFUSED = _DESC_ACT
_HALF_FIRST = ("float16", "bfloat16")
_ALL_FLOATS = ("float32", "float16", "bfloat16")
_FP4 = ("bfloat16", "float16", "float8_e4m3fn")
METHODS = (
    Method(checkpoint="awq", name="awq_marlin", min_sm=80, until="0.14.0", fallback="awq", fallback_below=80,
           fallback_min=75, dtypes=_HALF_FIRST),
    Method(checkpoint="awq", name="awq_marlin", min_sm=75, since="0.14.0", until="0.24.0", fallback="awq",
           fallback_min=75, dtypes=_HALF_FIRST),
    Method(checkpoint="awq", name="auto_awq", min_sm=75, since="0.24.0", dtypes=_HALF_FIRST),
    Method(checkpoint="gptq", name="gptq_marlin", min_sm=80, until="0.14.0", fallback="gptq", fallback_below=80,
           fallback_min=60, dtypes=_HALF_FIRST),
    Method(checkpoint="gptq", name="gptq_marlin", min_sm=75, since="0.14.0", until="0.22.0", fallback="gptq",
           fallback_min=60, dtypes=_HALF_FIRST),
    Method(checkpoint="gptq", name="auto_gptq", min_sm=60, since="0.22.0", until="0.30.0", dtypes=_HALF_FIRST),
    Method(checkpoint="gptq", name="auto_gptq", min_sm=60, since="0.30.0", desc_act=False, dtypes=_HALF_FIRST),
    Method(checkpoint="fp8", name="fp8", min_sm=80, until="0.14.0"),
    Method(checkpoint="fp8", name="fp8", min_sm=75, since="0.14.0"),
    Method(checkpoint="compressed-tensors", name="compressed-tensors", min_sm=70, dtypes=_ALL_FLOATS),
    Method(checkpoint="modelopt", name="modelopt", min_sm=89, until="0.27.0"),
    Method(checkpoint="modelopt", name="modelopt", min_sm=80, since="0.27.0"),
    Method(checkpoint="modelopt_fp4", name="modelopt_fp4", min_sm=80, until="0.14.0", dtypes=_FP4),
    Method(checkpoint="modelopt_fp4", name="modelopt_fp4", min_sm=75, since="0.14.0", dtypes=_FP4),
    Method(checkpoint="modelopt_mixed", name="modelopt_mixed", min_sm=89, until="0.24.0"),
    Method(checkpoint="modelopt_mixed", name="modelopt_mixed", min_sm=75, since="0.24.0"),
    Method(checkpoint="mxfp4", name="mxfp4", min_sm=80, dtypes=("bfloat16",)),
    Method(checkpoint="bitsandbytes", name="bitsandbytes", min_sm=70, dtypes=_ALL_FLOATS),
    Method(checkpoint="gguf", name="gguf", min_sm=60, dtypes=("float16", "bfloat16", "float32")),
    Method(checkpoint="quark", name="quark", min_sm=70, dtypes=_HALF_FIRST),
    Method(checkpoint="torchao", name="torchao", min_sm=75, dtypes=_ALL_FLOATS),
    Method(checkpoint="fbgemm_fp8", name="fbgemm_fp8", min_sm=80),
    Method(checkpoint="experts_int8", name="experts_int8", min_sm=80),
)  # fmt: skip
# verify_and_update_model_config of these architectures renames a method, or a compressed-tensors format (0.20+).
RENAMED = {
    ("GptOssForCausalLM", "mxfp4"): "gpt_oss_mxfp4",
    ("DeepseekV4ForCausalLM", "fp8"): "deepseek_v4_fp8",
    ("KimiK3ForConditionalGeneration", "mxfp4-pack-quantized"): "mxfp4",
}
RENAMES = (Row(value=0, until="0.20.0"), Row(value=1, since="0.20.0"))
# Models whose text part is built from a config without architectures: refused with pipeline parallelism.
PP_REFUSED = (
    Row(value="Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration", until="0.30.0"),
    Row(value="", since="0.30.0"),
)
PP_REFUSAL = "No model architectures are specified"
# fp8.py Fp8MoEMethod.create_weights; later the choice of kernels refuses instead.
FP8_BLOCK_MOE = (
    Row(
        value="The output_size of gate's and up's weight = {size} is not divisible by weight quantization block_n = "
        "{block}.",
        until="0.29.0",
    ),
    Row(value="", since="0.29.0"),
)
NO_FP8_MOE = "No FP8 MoE backend supports the deployment configuration."


class Gone(Range, frozen=True, kw_only=True):
    """An architecture that is no longer vLLM's own and that the Transformers fallback refuses."""

    architecture: str
    type: str
    text: str
    stage: Literal["engine_config", "model_build"] = "model_build"


def _until(last: str, since: str, *architectures: str) -> tuple[Gone, ...]:
    """registry.py _PREVIOUSLY_SUPPORTED_MODELS, of which Transformers has no class either."""
    return tuple(
        Gone(
            since=since,
            architecture=name,
            type="ValidationError",
            text=f"Model architecture {name} was supported in vLLM until v{last}, and is not supported anymore. Please "
            "use an older version of vLLM if you want to use this model architecture.",
            stage="engine_config",
        )
        for name in architectures
    )


GONE = (
    Gone(
        since="0.24.0",
        until="0.30.0",
        architecture="BambaForCausalLM",
        type="ValidationError",
        text="Model architecture BambaForCausalLM was supported in vLLM until v0.23.0, and is not supported anymore. "
        "Please use an older version of vLLM if you want to use this model architecture.",
        stage="engine_config",
    ),
    Gone(
        since="0.30.0",
        architecture="BambaForCausalLM",
        type="ValueError",
        text="Layer 0 (linear_attention) does not dispatch through the Transformers attention interface and vLLM has "
        "no other way to handle it.",
    ),
    Gone(
        since="0.24.0",
        architecture="MiniMaxForCausalLM",
        type="ValueError",
        text="Layer 0 (linear_attention) does not dispatch through the Transformers attention interface and vLLM has "
        "no other way to handle it.",
    ),
    *_until("0.22.0", "0.23.0", "JAISLMHeadModel"),
    *_until(
        "0.23.0", "0.24.0", "InternLMForCausalLM", "MiniMaxM1ForCausalLM", "MiniMaxText01ForCausalLM",
        "MiniMaxVL01ForConditionalGeneration", "QWenLMHeadModel", "XverseForCausalLM",
    ),
    *_until("0.23.0", "0.25.0", "BaiChuanForCausalLM", "BaichuanForCausalLM"),
    *_until("0.24.0", "0.25.0", "AquilaForCausalLM", "AquilaModel", "Grok1ForCausalLM", "Grok1ModelForCausalLM"),
    *_until("0.25.0", "0.26.0", "TeleChatForCausalLM"),
    *_until("0.26.0", "0.27.0", "OuroForCausalLM", "Plamo2ForCausalLM"),
    *_until("0.28.0", "0.29.0", "ArcticForCausalLM", "GritLM", "MPTForCausalLM", "RWForCausalLM"),
)  # fmt: skip
# interfaces.py SupportsPP: classes without it, in all releases
NO_PIPELINE = frozenset({
    "BertForSequenceClassification", "BertModel", "Gemma3TextModel", "Gemma3nForCausalLM",
    "Gemma3nForConditionalGeneration", "Idefics3ForConditionalGeneration", "Mamba2ForCausalLM",
    "MiniMaxForCausalLM", "MiniMaxM1ForCausalLM", "MiniMaxText01ForCausalLM", "ModernBertForSequenceClassification",
    "ModernBertModel", "NomicBertModel", "PaddleOCRVLForConditionalGeneration",
    "RobertaForSequenceClassification", "RobertaModel", "SmolVLMForConditionalGeneration",
    "WhisperForConditionalGeneration", "XLMRobertaForSequenceClassification", "XLMRobertaModel", "Zamba2ForCausalLM",
})  # fmt: skip
NO_PIPELINE_REFUSAL = (
    "Pipeline parallelism is not supported for this model. Supported models implement the `SupportsPP` interface."
)
# quantization/__init__.py: bitsandbytes left vLLM with 0.28.0; the methods of that release and later, in their order
_METHOD_NAMES = (
    "awq", "auto_awq", "fp8", "fbgemm_fp8", "fp_quant", "modelopt", "modelopt_fp4", "modelopt_mxfp8", "modelopt_mixed",
    "auto_gptq", "gptq", "gptq_marlin", "awq_marlin", "humming", "compressed-tensors", "experts_int8", "quark",
    "moe_wna16", "torchao", "inc", "mxfp4", "gpt_oss_mxfp4", "deepseek_v4_fp8", "online", "fp8_per_tensor",
    "fp8_per_block", "fp8_per_channel", "int8_per_channel_weight_only", "nvfp4_per_token", "mxfp8",
)  # fmt: skip
UNKNOWN_METHOD = (
    Row(value="", until="0.28.0"),
    Row(value=f"Unknown quantization method: bitsandbytes. Must be one of {list(_METHOD_NAMES)}.", since="0.28.0"),
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


class Known(Range, frozen=True, kw_only=True):
    """The first release that has an architecture (model_executor/models/registry.py); `text` is the refusal before."""

    architecture: str
    stage: Literal["engine_config", "model_build"] = "engine_config"
    type: str = "ValidationError"
    text: str = UNKNOWN_TYPE


# configuration_utils.py of Transformers 5.8: what `layer_types` may hold. Before 5.0 nothing was checked; 5.10
# (vLLM 0.29) knows the types of all models here.
_LAYER_TYPES = (
    "full_attention", "sliding_attention", "chunked_attention", "compressed_sparse_attention",
    "heavily_compressed_attention", "linear_attention", "conv", "mamba", "attention", "sparse", "dense", "hybrid",
    "moe",
)  # fmt: skip
LAYER_TYPES = (
    Row(value="", until="0.20.0"),
    Row(value=" ".join(_LAYER_TYPES), since="0.20.0", until="0.29.0"),
    Row(value="", since="0.29.0"),
)
LAYER_TYPES_REFUSAL = (
    "Class validation error for validator 'validate_layer_type':\n    ValueError: The `layer_types` entries must be in "
    "{allowed} but got {given}"
)
# deepseek_v4.py:1011 (0.21.0) config.quantization_config["scale_fmt"]
SCALE_FORMAT = (Row(value=1, until="0.23.0"), Row(value=0, since="0.23.0"))
# mamba_mixer2.py:283 (0.11.2)
MAMBA_GROUPS = (
    Row(
        value="Tensor parallel currently supported for quantized models only if tensor parallel world size divides num "
        "groups.",
        until="0.16.0",
    ),
    Row(value="", since="0.16.0"),
)
# compressed_tensors_moe_wna16_marlin.py:67 (0.21.0)
WNA16_MOE_ZEROS = (
    Row(value="Only symmetric quantization is supported for MoE", until="0.24.0"),
    Row(value="", since="0.24.0"),
)
# compressed_tensors_moe_wna16.py (0.29.0)
WNA16_MOE = (
    Row(value="", until="0.29.0"),
    Row(
        value="CompressedTensors WNA16 MoE with static group scales requires the MoE intermediate size per "
        "tensor-parallel partition ({size}) to be divisible by group_size ({group}). Scale groups would otherwise "
        "cross TP shard boundaries; use a compatible TP size or enable expert parallelism.",
        since="0.29.0",
    ),
)
_NO_VISION = "'{config}' object has no attribute 'vision_config'"
_NEVER = "99.0.0"  # no release has it
KNOWN = (
    Known(architecture="MiniMaxM2ForCausalLM", since="0.11.1"),
    Known(architecture="MiMoV2FlashForCausalLM", since="0.14.0"),
    Known(architecture="KimiK25ForConditionalGeneration", since="0.15.0"),
    Known(architecture="GlmMoeDsaForCausalLM", since="0.16.0"),
    Known(architecture="Qwen3_5ForConditionalGeneration", since="0.17.0"),
    Known(architecture="Qwen3_5MoeForConditionalGeneration", since="0.17.0"),
    Known(architecture="Gemma4ForCausalLM", since="0.19.0"),
    Known(architecture="Gemma4ForConditionalGeneration", since="0.19.0"),
    Known(architecture="DeepseekV4ForCausalLM", since="0.20.0"),
    Known(architecture="LagunaForCausalLM", since="0.21.0"),
    Known(architecture="Step3p7ForConditionalGeneration", since="0.23.0"),
    Known(
        architecture="Qwen3_5ForCausalLM", since="0.27.0", stage="model_build", type="AttributeError",
        text=_NO_VISION.format(config="Qwen3_5TextConfig"),
    ),
    Known(
        architecture="Qwen3_5MoeForCausalLM", since="0.27.0", stage="model_build", type="AttributeError",
        text=_NO_VISION.format(config="Qwen3_5MoeTextConfig"),
    ),
    Known(architecture="KimiK3ForConditionalGeneration", since="0.27.0"),
    Known(architecture="MuseGlimmerForConditionalGeneration", since="0.28.0"),
    Known(architecture="MiniMaxM3SparseForConditionalGeneration", since="0.24.0"),
    Known(architecture="Step3p7FlashForCausalLM", since=_NEVER),
    # its model type has a config class since then, but no class of this name (registry.py goes on to list them all)
    Known(
        architecture="Step3p7FlashForCausalLM", until="0.23.0",
        text="Model architectures ['Step3p7FlashForCausalLM'] are not supported for now.",
    ),
    Known(architecture="MiniMaxM3ForCausalLM", since=_NEVER),
)  # fmt: skip


@lru_cache(maxsize=512)
def method(version: str, checkpoint: str) -> Method | None:
    return next((m for m in select(METHODS, version) if m.checkpoint == checkpoint), None)
