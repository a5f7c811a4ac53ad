"""Defaults that vLLM resolves from the GPU, the usage and the model, release by release.

From engine/arg_utils.py, config/*.py and model_executor/models/config.py. `defaults(version)` gathers the rows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from msgspec import Struct

from oomph.facts.vllm.kv import Row
from oomph.facts.vllm.refusals import ASYNC_DRAFTS_REFUSED, SIZES_ARE_FIELDS
from oomph.facts.vllm.versions import Range, pick, select

HybridBlock = Literal["config", "backend", "lcm"]


class Tier(Range, frozen=True, kw_only=True):
    """get_batch_defaults: by the device's memory; an A100 counts as small whatever it has."""

    min_gib: int
    llm_tokens: int
    serve_tokens: int
    seqs: int
    a100: bool = True  # False: not for a device whose name has "a100"


TIERS = (
    Tier(since="0.28.0", min_gib=160, llm_tokens=16384, serve_tokens=16384, seqs=1024),
    Tier(min_gib=70, llm_tokens=16384, serve_tokens=8192, seqs=1024, a100=False),
    Tier(min_gib=0, llm_tokens=8192, serve_tokens=2048, seqs=256),
)
BATCHED_DP_TOKENS = 256  # SchedulerConfig.DEFAULT_MAX_NUM_BATCHED_TOKENS_FOR_BATCHED_DP
MM_RAISES_TOKENS = (Row(value=0, until="0.22.0"), Row(value=1, since="0.22.0"))  # _get_min_mm_batched_tokens

UTILIZATION = (Row(value=0.9, until="0.20.0"), Row(value=0.92, since="0.20.0"))

# Capture sizes (config/vllm.py _set_cudagraph_sizes).
CAPTURE_STEP_16 = (Row(value=0, until="0.11.1"), Row(value=1, since="0.11.1"))  # above 256
CAPTURE_SPEC = (Row(value=0, until="0.13.0"), Row(value=1, since="0.13.0"))  # max_num_seqs * (1 + drafts) * 2
CAPTURE_TOKENS = (Row(value=0, until="0.20.1"), Row(value=1, since="0.20.1"))  # + max_num_batched_tokens if small
CAPTURE_SM100 = (Row(value=512, until="0.28.0"), Row(value=1024, since="0.28.0"))
CAPTURE_DECODE = (Row(value=0, until="0.29.0"), Row(value=1, since="0.29.0"))  # multiples of the decode query length
CAPTURE_SEQS = (Row(value=0, until="0.31.0"), Row(value=1, since="0.31.0"))
CAPTURE_MAX = 512
# models/config.py GptOssForCausalLMConfig; up to 992 in steps of 16 from 256 on
CAPTURE_GPT_OSS = (Row(value=992, until="0.11.1"), Row(value=1024, since="0.11.1"))

HYBRID_PREFIX_CACHING = (Row(value=0, until="0.28.0"), Row(value=1, since="0.28.0"))
# Prefix caching on hybrids: not at all; only where the model supports mode "all"; both modes; "align" whenever a draft
# is used; as before; "align" by default; "align" only.
MAMBA_MODES = (
    Row(value="never", until="0.11.1"),
    Row(value="all_only", since="0.11.1", until="0.15.0"),
    Row(value="all_or_align", since="0.15.0", until="0.20.0"),
    Row(value="all_or_align_spec", since="0.20.0", until="0.22.0"),
    Row(value="all_or_align", since="0.22.0", until="0.28.0"),
    Row(value="align", since="0.28.0"),
)
# Architectures whose classes support mode "all" (SupportsMambaPrefixCaching).
MAMBA_ALL = frozenset(
    {
        "MambaForCausalLM", "Mamba2ForCausalLM", "FalconMambaForCausalLM", "JambaForCausalLM", "BambaForCausalLM",
        "FalconH1ForCausalLM", "GraniteMoeHybridForCausalLM", "NemotronHForCausalLM", "NemotronHPuzzleForCausalLM",
        "Zamba2ForCausalLM",
    }
)  # fmt: skip
# Who chooses a hybrid's attention block: models/config.py from constants, the platform from the backend, or the
# platform from all backends.
HYBRID_BLOCK = (
    Row(value="config", until="0.20.0"),
    Row(value="backend", since="0.20.0", until="0.32.0"),
    Row(value="lcm", since="0.32.0"),
)
HYBRID_MLA_128 = (Row(value=0, until="0.27.0"), Row(value=1, since="0.27.0"))
HYBRID_CONFIG_ALIGNMENT = (  # 32 tokens for heads of 256 on SM100 instead of 16
    Row(value=0, until="0.11.1"),
    Row(value=1, since="0.11.1", until="0.18.0"),
    Row(value=0, since="0.18.0"),
)
# FlashAttention lists {16, 32, 64} for hybrids with fp32 states, so that a block is a multiple of one of them.
BLOCK_FROM_BACKEND = (Row(value=0, until="0.18.0"), Row(value=1, since="0.18.0"))
# platforms/cuda.py before that: dense MLA on SM100 meant CUTLASS_MLA, later FLASHINFER_MLA where it can
MLA_BLOCK_SM100 = (Row(value="cutlass", until="0.15.0"), Row(value="flashinfer", since="0.15.0"))
ALL_BACKENDS_BLOCK = (Row(value=0, until="0.31.0"), Row(value=1, since="0.31.0"))
# attention.py: sliding layers take the block as it is, the kernel's smallest, or the largest that the kernel takes.
SLIDING_BLOCK = (
    Row(value="", until="0.25.0"),
    Row(value="smallest", since="0.25.0", until="0.30.0"),
    Row(value="fitting", since="0.30.0"),
)
# --kv-cache-dtype-skip-layers: `_align_heterogeneous_kv_block_size`, and who packs a token's bytes there.
SKIP_PAGE = (
    Row(value="", until="0.25.0"),
    Row(value="spec", since="0.25.0", until="0.28.0"),
    Row(value="backend", since="0.28.0"),
)
MLA_SKIP = (Row(value=0, until="0.26.0"), Row(value=1, since="0.26.0"))
KV_LAYOUT = (Row(value=0, until="0.29.0"), Row(value=1, since="0.29.0"))
MAMBA2_CHECKPOINT = (Row(value=0, until="0.32.0"), Row(value=1, since="0.32.0"))  # mamba_mixer2.py get_kv_cache_spec
MAMBA2_SPEC_CONV = (Row(value=0, until="0.17.0"), Row(value=1, since="0.17.0"))
KDA_SPEC_CONV = (Row(value=0, until="0.27.0"), Row(value=1, since="0.27.0"))
SHORT_CONV_SPEC = (Row(value=0, until="0.29.0"), Row(value=1, since="0.29.0"))

CHECKPOINT_KV_DTYPE = (Row(value=0, until="0.14.0"), Row(value=1, since="0.14.0"))  # resolve_kv_cache_dtype_string
# models/config.py GlmMoeDsaForCausalLM
FP8_KV_ON_SM100 = (
    Row(value="", until="0.32.0"),
    Row(value="GlmMoeDsaForCausalLM", since="0.32.0"),
)
# DeepSeek-V4: `auto` is refused at first, then read as fp8.
V4_AUTO = (Row(value=0, until="0.30.0"), Row(value=1, since="0.30.0"))
V4_REFUSAL = (
    Row(value="DeepseekV4 only supports fp8 kv-cache format for now, got {dtype}", until="0.23.0"),
    Row(value="DeepseekV4 FlashMLA fp8 layout only supports fp8 kv-cache, got {dtype}", since="0.23.0", until="0.24.0"),
    Row(value="DeepseekV4 fp8_ds_mla layout only supports fp8 kv-cache, got {dtype}", since="0.24.0", until="0.30.0"),
    Row(
        value="DeepseekV4 fp8_ds_mla layout only supports fp8 kv-cache, got {dtype}. Please set `--kv-cache-dtype fp8` "
        "or select a backend that supports bfloat16 KV cache.",
        since="0.30.0",
    ),
)
V4_REFUSAL_TYPE = (Row(value="AssertionError", until="0.30.0"), Row(value="ValueError", since="0.30.0"))
V4_BACKENDS = (  # everywhere, and on SM12x
    Row(value="V4_FLASHMLA_SPARSE V4_FLASHMLA_SPARSE", until="0.22.0"),
    Row(value="FLASHMLA_SPARSE_DSV4 FLASHINFER_MLA_SPARSE_DSV4", since="0.22.0"),
)
# yarn's context: original length times factor, then whatever max_position_embeddings says.
YARN_MULTIPLIES = (Row(value=1, until="0.30.0"), Row(value=0, since="0.30.0"))
LONGROPE_ORIGINAL = (Row(value=0, until="0.11.1"), Row(value=1, since="0.11.1"))

# Async scheduling without being asked.
ASYNC_DEFAULT = (Row(value=0, until="0.14.0"), Row(value=1, since="0.14.0"))
ASYNC_NEEDS_V2_FOR_PP = (Row(value=0, until="0.31.0"), Row(value=1, since="0.31.0"))
ASYNC_WITH_PP = (Row(value=0, until="0.15.0"), Row(value=1, since="0.15.0"))
ASYNC_WITH_MAMBA = (  # with prefix caching on a hybrid
    Row(value=1, until="0.16.0"),
    Row(value=0, since="0.16.0", until="0.17.0"),
    Row(value=1, since="0.17.0"),
)
ASYNC_DRAFTS = (
    Row(value="eagle", until="0.18.0"),
    Row(value="eagle ngram_gpu", since="0.18.0", until="0.25.0"),
    Row(value="eagle ngram_gpu dspark", since="0.25.0", until="0.28.0"),
    Row(value="eagle ngram_gpu dspark draft_model", since="0.28.0"),
)
EAGLE_METHODS = ("eagle", "eagle3", "mtp", "dflash", "extract_hidden_states")

# A chunked-local model (Llama 4) keeps the hybrid manager unless this environment default is 0.
CHUNKED_LOCAL_HYBRID = (Row(value=0, until="0.14.0"), Row(value=1, since="0.14.0"))
# What turns the hybrid KV cache manager off silently: any connector, or one without HMA support.
CONNECTOR_OFF = (Row(value="any", until="0.22.0"), Row(value="unsupported", since="0.22.0"))
KV_EVENTS_OFF = (Row(value=1, until="0.20.0"), Row(value=0, since="0.20.0"))
HMA_CONNECTORS = frozenset(
    {
        "OffloadingConnector", "SimpleCPUOffloadConnector", "NixlConnector", "MultiConnector", "DecodeBenchConnector",
        "ExampleHiddenStatesConnector", "HiSparseConnector", "MooncakeConnector", "MoRIIOConnector",
    }
)  # fmt: skip


class Runner(Range, frozen=True, kw_only=True):
    """Who gets model runner V2 without VLLM_USE_V2_MODEL_RUNNER (config/vllm.py)."""

    architectures: tuple[str, ...] = ()
    dense_unquantized: bool = False  # of those, only dense unquantised ones
    all_dense: bool = False  # and every dense attention model besides
    everything: bool = False


RUNNERS = (
    Runner(until="0.22.0"),
    Runner(since="0.22.0", until="0.23.0", architectures=("Qwen3ForCausalLM",), dense_unquantized=True),
    Runner(
        since="0.23.0", until="0.24.0", dense_unquantized=True,
        architectures=("LlamaForCausalLM", "MistralForCausalLM", "Qwen3ForCausalLM"),
    ),
    Runner(
        since="0.24.0", until="0.25.0",
        architectures=(
            "Qwen3ForCausalLM", "DeepseekV2ForCausalLM", "Qwen2MoeForCausalLM", "GraniteMoeForCausalLM",
            "LlamaForCausalLM", "MistralForCausalLM",
        ),
    ),
    Runner(
        since="0.25.0", until="0.27.0", all_dense=True,
        architectures=("DeepseekV2ForCausalLM", "Qwen2MoeForCausalLM", "GraniteMoeForCausalLM"),
    ),
    Runner(
        since="0.27.0", until="0.28.0", all_dense=True,
        architectures=(
            "DeepseekV2ForCausalLM", "GraniteMoeForCausalLM", "InklingForCausalLM", "InklingForConditionalGeneration",
            "KimiK3ForConditionalGeneration", "LongcatFlashNgramForCausalLM", "Qwen2MoeForCausalLM",
        ),
    ),
    Runner(
        since="0.28.0", until="0.29.0", all_dense=True,
        architectures=(
            "DeepseekV2ForCausalLM", "DeepseekV4ForCausalLM", "GraniteMoeForCausalLM", "InklingForCausalLM",
            "InklingForConditionalGeneration", "KimiK3ForConditionalGeneration", "LongcatFlashNgramForCausalLM",
            "Qwen2MoeForCausalLM",
        ),
    ),
    Runner(since="0.29.0", everything=True),
)  # fmt: skip
# Speculative methods that keep V1 even then.
V1_METHODS = (
    Row(value="ngram ngram_gpu draft_model suffix medusa mlp_speculator custom_class", until="0.31.0"),
    Row(value="suffix medusa mlp_speculator custom_class", since="0.31.0"),
)


class Method(Range, frozen=True, kw_only=True):
    """A quantisation as the checkpoint names it -> as vLLM resolves it, with the capability it asks for."""

    checkpoint: str
    name: str
    min_sm: int
    desc_act: bool = True  # False: refused with activation ordering
    fallback: str = ""  # the name below `fallback_below`, where Marlin's kernels do not run
    fallback_below: int = 75
    fallback_min: int = 0


_DESC_ACT = (
    "GPTQ group activation ordering (desc_act=True) is no longer supported. Use a checkpoint with static activation "
    "ordering or desc_act=False."
)
DESC_ACT_REFUSED = _DESC_ACT
METHODS = (
    Method(checkpoint="awq", name="awq_marlin", min_sm=75, until="0.24.0", fallback="awq", fallback_min=75),
    Method(checkpoint="awq", name="auto_awq", min_sm=75, since="0.24.0"),
    Method(checkpoint="gptq", name="gptq_marlin", min_sm=75, until="0.22.0", fallback="gptq", fallback_min=60),
    Method(checkpoint="gptq", name="auto_gptq", min_sm=60, since="0.22.0", until="0.30.0"),
    Method(checkpoint="gptq", name="auto_gptq", min_sm=60, since="0.30.0", desc_act=False),
    Method(checkpoint="fp8", name="fp8", min_sm=75),
    Method(checkpoint="compressed-tensors", name="compressed-tensors", min_sm=70),
    Method(checkpoint="modelopt", name="modelopt", min_sm=89, until="0.28.0"),
    Method(checkpoint="modelopt", name="modelopt", min_sm=80, since="0.28.0"),
    Method(checkpoint="modelopt_fp4", name="modelopt_fp4", min_sm=75),
    Method(checkpoint="modelopt_mixed", name="modelopt_mixed", min_sm=89, until="0.24.0"),
    Method(checkpoint="modelopt_mixed", name="modelopt_mixed", min_sm=75, since="0.24.0"),
    Method(checkpoint="mxfp4", name="mxfp4", min_sm=80),
    Method(checkpoint="bitsandbytes", name="bitsandbytes", min_sm=70),
    Method(checkpoint="gguf", name="gguf", min_sm=60),
    Method(checkpoint="quark", name="quark", min_sm=70),
    Method(checkpoint="torchao", name="torchao", min_sm=75),
    Method(checkpoint="fbgemm_fp8", name="fbgemm_fp8", min_sm=80),
    Method(checkpoint="experts_int8", name="experts_int8", min_sm=80),
)
# verify_and_update_model_config of these architectures renames a method, or a compressed-tensors format (0.20+).
RENAMED = {
    ("GptOssForCausalLM", "mxfp4"): "gpt_oss_mxfp4",
    ("DeepseekV4ForCausalLM", "fp8"): "deepseek_v4_fp8",
    ("KimiK3ForConditionalGeneration", "mxfp4-pack-quantized"): "mxfp4",
}
RENAMES = (Row(value=0, until="0.20.0"), Row(value=1, since="0.20.0"))

_KV = "auto float16 bfloat16 fp8 fp8_e4m3 fp8_e5m2 fp8_inc fp8_ds_mla"
_MLA4 = f"{_KV} nvfp4_ds_mla"
_TQ = "turboquant_k8v4 turboquant_4bit_nc turboquant_k3v4_nc turboquant_3bit_nc"
_HEAD = "int8_per_token_head fp8_per_token_head nvfp4"
KV_DTYPES = (
    Row(value=_KV.replace("float16 b", "b"), until="0.18.0"),
    Row(value=_KV, since="0.18.0", until="0.20.0"),
    Row(value=f"{_KV} {_TQ} {_HEAD}", since="0.20.0", until="0.25.0"),
    Row(value=f"{_KV} {_TQ} int4_per_token_head {_HEAD}", since="0.25.0", until="0.28.0"),
    Row(value=f"{_KV} {_TQ} int4_per_token_head {_HEAD} nvfp4_4over6", since="0.28.0", until="0.30.0"),
    Row(value=f"{_MLA4} {_TQ} int4_per_token_head {_HEAD} nvfp4_4over6", since="0.30.0", until="0.32.0"),
    Row(value=f"{_MLA4} {_TQ} ultraquant_4bit int4_per_token_head {_HEAD} nvfp4_4over6", since="0.32.0"),
)
# The Triton backend refuses fp8 where the GPU has no fp8 (triton_attn.py); before, it compiled and failed later.
TRITON_FP8_TEXT = (
    Row(value="", until="0.24.0"),
    Row(
        value="FP8 KV cache is not supported by the Triton attention backend on {gpu} (compute capability "
        "{capability}); native FP8 (fp8e4nv) requires SM89+. Re-run with --kv-cache-dtype {dtype}.",
        since="0.24.0",
    ),
)
# Attention.use_mm_prefix; 0.25 asks whether the model takes multimodal input at all.
MM_PREFIX = (Row(value=0, until="0.13.0"), Row(value=1, since="0.13.0"))
MM_PREFIX_NEEDS_MM = (Row(value=0, until="0.25.0"), Row(value=1, since="0.25.0"))
# models/config.py Gemma4Config: one backend for all head sizes.
GEMMA4 = (
    Row(value="", until="0.19.0"),
    Row(value="triton", since="0.19.0", until="0.24.0"),
    Row(value="fa4", since="0.24.0"),
)
GEMMA4_PER_LAYER_FP8 = (Row(value=0, until="0.31.0"), Row(value=1, since="0.31.0"))
# hf_config.model_type of the inner text model is asked afresh in between, and is not in the list (with_hf_config).
MM_PREFIX_NESTED = (
    Row(value=1, until="0.20.0"),
    Row(value=0, since="0.20.0", until="0.25.0"),
    Row(value=1, since="0.25.0"),
)
# attention.py: a compressed-tensors kv_cache_scheme makes the layers' caches fp8; since 0.22 only for "auto".
KV_SCHEME = (
    Row(value="", until="0.15.0"),
    Row(value="always", since="0.15.0", until="0.22.0"),
    Row(value="auto", since="0.22.0"),
)
# Models whose text part is built from a config without architectures: refused with pipeline parallelism.
PP_REFUSED = (
    Row(value="Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration", until="0.31.0"),
    Row(value="", since="0.31.0"),
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


GONE = (
    Gone(
        since="0.30.0",
        architecture="BambaForCausalLM",
        type="ValueError",
        text="Layer 0 (linear_attention) does not dispatch through the Transformers attention interface and vLLM has "
        "no other way to handle it.",
    ),
)
# The engine reads qk_rope_head_dim of GLM's sparse models from head_dim (an attribute_map of Transformers 5.4).
GLM_ROPE_FROM_HEAD = (
    Row(value=0, until="0.20.0"),
    Row(value=1, since="0.20.0", until="0.24.0"),
    Row(value=0, since="0.24.0"),
)
# _get_and_verify_max_len multiplies by a rope factor of 1.0, so that the refusal prints 4096.0.
LENGTH_IS_FLOAT = (Row(value=0, until="0.12.0"), Row(value=1, since="0.12.0"))


class Known(Range, frozen=True, kw_only=True):
    """The first release that has an architecture (model_executor/models/registry.py); `text` is the refusal before."""

    architecture: str
    stage: Literal["engine_config", "model_build"] = "engine_config"
    type: str = "ValidationError"
    text: str = (
        "The checkpoint you are trying to load has model type `{model_type}` but Transformers does not recognize this "
        "architecture. This could be because of an issue with the checkpoint, or because your version of Transformers "
        "is out of date.\n\nYou can update Transformers with the command `pip install --upgrade transformers`. If this "
        "does not work, and the checkpoint is very new, then there may not be a release version that supports this "
        "model yet. In this case, you can get the most up-to-date code by installing Transformers from source with the "
        "command `pip install git+https://github.com/huggingface/transformers.git`"
    )


_NO_VISION = "'{config}' object has no attribute 'vision_config'"
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
    Known(architecture="Step3p7FlashForCausalLM", since="99.0.0"),
    Known(architecture="MiniMaxM3ForCausalLM", since="99.0.0"),
)  # fmt: skip
# models/mimo_v2.py: K and V of different widths have backends of their own; and the layers got no cache_config, so that
# --kv-cache-dtype did nothing.
DIFF_KV = (
    Row(value="", until="0.20.0"),
    Row(value="flash", since="0.20.0", until="0.24.0"),
    Row(value="flash or triton", since="0.24.0"),
)
KV_DTYPE_IGNORED = (Row(value="MiMoV2", until="0.32.0"), Row(value="", since="0.32.0"))
# models/config.py DeepseekV32ForCausalLM: which --kv-cache-dtype becomes fp8_ds_mla before the layers are built
V32_FP8 = (
    Row(value="auto fp8", until="0.11.1"),
    Row(value="fp8", since="0.11.1", until="0.18.0"),
    Row(value="", since="0.18.0"),
)
SINKS_NEED_FA3 = "Sinks are only supported in FlashAttention 3"
# models/config.py NemotronHForCausalLMConfig: the recurrent state where the config names no dtype; before 0.13.0 the
# convolution's, whatever the config says
NEMOTRON_STATE = (
    Row(value="", until="0.13.0"),
    Row(value="float16", since="0.13.0", until="0.19.1"),
    Row(value="float32", since="0.19.1"),  # 0.19.1 allows transformers 5, whose NemotronHConfig says so itself
)
MAMBA_ALL_MODE = (Row(value=1, until="0.32.0"), Row(value=0, since="0.32.0"))
ATTENTION_BACKEND_MM_PREFIX = ("bagel", "gemma3", "molmo2", "moondream3", "paligemma", "umm")


class Defaults(Struct, frozen=True):
    utilization: float
    mm_raises_tokens: bool
    capture_step_16: bool
    capture_spec: bool
    capture_tokens: bool
    capture_sm100: int
    capture_decode: bool
    capture_gpt_oss: int
    v32_fp8: str
    capture_seqs: bool
    hybrid_prefix_caching: bool
    mamba_modes: str
    hybrid_block: HybridBlock
    hybrid_mla_128: bool
    hybrid_config_alignment: bool
    block_from_backend: bool
    all_backends_block: bool
    sliding_block: str
    skip_page: str
    mla_skip: bool
    kv_layout: bool
    mamba2_checkpoint: bool
    mamba2_spec_conv: bool
    kda_spec_conv: bool
    short_conv_spec: bool
    checkpoint_kv_dtype: bool
    fp8_kv_on_sm100: str
    v4_auto: bool
    v4_refusal: str
    v4_refusal_type: str
    v4_backends: tuple[str, ...]
    yarn_multiplies: bool
    longrope_original: bool
    async_default: bool
    async_needs_v2_for_pp: bool
    async_with_pp: bool
    async_with_mamba: bool
    mla_block_sm100: str
    async_drafts: tuple[str, ...]
    async_refused: str
    sizes_are_fields: bool
    chunked_local_hybrid: bool
    connector_off: str
    kv_events_off: bool
    v1_methods: tuple[str, ...]
    renames: bool
    kv_dtypes: tuple[str, ...]
    triton_fp8_text: str
    mm_prefix: bool
    mm_prefix_needs_mm: bool
    gemma4: str
    gemma4_per_layer_fp8: bool
    mm_prefix_nested: bool
    kv_scheme: str
    pp_refused: tuple[str, ...]
    fp8_block_moe: str
    gone: tuple[Gone, ...]
    glm_rope_from_head: bool
    length_is_float: bool
    unknown: dict[str, Known]
    diff_kv: str
    kv_dtype_ignored: str
    nemotron_state: str
    mamba_all: bool
    runner: Runner
    tiers: tuple[Tier, ...]


@lru_cache(maxsize=64)
def defaults(version: str) -> Defaults:
    def of(rows: tuple[Row, ...]) -> str | int | float:
        return pick(rows, version).value

    def yes(rows: tuple[Row, ...]) -> bool:
        return bool(of(rows))

    def words(rows: tuple[Row, ...]) -> tuple[str, ...]:
        return tuple(str(of(rows)).split())

    return Defaults(
        utilization=float(of(UTILIZATION)),
        mm_raises_tokens=yes(MM_RAISES_TOKENS),
        capture_step_16=yes(CAPTURE_STEP_16),
        capture_spec=yes(CAPTURE_SPEC),
        capture_tokens=yes(CAPTURE_TOKENS),
        capture_sm100=int(of(CAPTURE_SM100)),
        capture_decode=yes(CAPTURE_DECODE),
        capture_gpt_oss=int(of(CAPTURE_GPT_OSS)),
        v32_fp8=str(of(V32_FP8)),
        capture_seqs=yes(CAPTURE_SEQS),
        hybrid_prefix_caching=yes(HYBRID_PREFIX_CACHING),
        mamba_modes=str(of(MAMBA_MODES)),
        hybrid_block=of(HYBRID_BLOCK),  # type: ignore[arg-type]
        hybrid_mla_128=yes(HYBRID_MLA_128),
        hybrid_config_alignment=yes(HYBRID_CONFIG_ALIGNMENT),
        block_from_backend=yes(BLOCK_FROM_BACKEND),
        all_backends_block=yes(ALL_BACKENDS_BLOCK),
        sliding_block=str(of(SLIDING_BLOCK)),
        skip_page=str(of(SKIP_PAGE)),
        mla_skip=yes(MLA_SKIP),
        kv_layout=yes(KV_LAYOUT),
        mamba2_checkpoint=yes(MAMBA2_CHECKPOINT),
        mamba2_spec_conv=yes(MAMBA2_SPEC_CONV),
        kda_spec_conv=yes(KDA_SPEC_CONV),
        short_conv_spec=yes(SHORT_CONV_SPEC),
        checkpoint_kv_dtype=yes(CHECKPOINT_KV_DTYPE),
        fp8_kv_on_sm100=str(of(FP8_KV_ON_SM100)),
        v4_auto=yes(V4_AUTO),
        v4_refusal=str(of(V4_REFUSAL)),
        v4_refusal_type=str(of(V4_REFUSAL_TYPE)),
        v4_backends=words(V4_BACKENDS),
        yarn_multiplies=yes(YARN_MULTIPLIES),
        longrope_original=yes(LONGROPE_ORIGINAL),
        async_default=yes(ASYNC_DEFAULT),
        async_needs_v2_for_pp=yes(ASYNC_NEEDS_V2_FOR_PP),
        async_with_pp=yes(ASYNC_WITH_PP),
        async_with_mamba=yes(ASYNC_WITH_MAMBA),
        mla_block_sm100=str(of(MLA_BLOCK_SM100)),
        async_drafts=words(ASYNC_DRAFTS),
        async_refused=str(of(ASYNC_DRAFTS_REFUSED)),
        sizes_are_fields=yes(SIZES_ARE_FIELDS),
        chunked_local_hybrid=yes(CHUNKED_LOCAL_HYBRID),
        connector_off=str(of(CONNECTOR_OFF)),
        kv_events_off=yes(KV_EVENTS_OFF),
        v1_methods=words(V1_METHODS),
        renames=yes(RENAMES),
        kv_dtypes=words(KV_DTYPES),
        triton_fp8_text=str(of(TRITON_FP8_TEXT)),
        mm_prefix=yes(MM_PREFIX),
        mm_prefix_needs_mm=yes(MM_PREFIX_NEEDS_MM),
        gemma4=str(of(GEMMA4)),
        gemma4_per_layer_fp8=yes(GEMMA4_PER_LAYER_FP8),
        mm_prefix_nested=yes(MM_PREFIX_NESTED),
        kv_scheme=str(of(KV_SCHEME)),
        pp_refused=words(PP_REFUSED),
        fp8_block_moe=str(of(FP8_BLOCK_MOE)),
        gone=select(GONE, version),
        glm_rope_from_head=yes(GLM_ROPE_FROM_HEAD),
        length_is_float=yes(LENGTH_IS_FLOAT),
        unknown={k.architecture: k for k in KNOWN if not k.holds(version)},
        diff_kv=str(of(DIFF_KV)),
        kv_dtype_ignored=str(of(KV_DTYPE_IGNORED)),
        nemotron_state=str(of(NEMOTRON_STATE)),
        mamba_all=yes(MAMBA_ALL_MODE),
        runner=pick(RUNNERS, version),
        tiers=select(TIERS, version),
    )


@lru_cache(maxsize=512)
def method(version: str, checkpoint: str) -> Method | None:
    return next((m for m in select(METHODS, version) if m.checkpoint == checkpoint), None)
