"""What decides the shape and the dtype of a layer's cache, release by release.

From model_executor/models/config.py, platforms/*.py and the layers' get_kv_cache_spec.
"""

from __future__ import annotations

from oomph.facts.vllm.kv import Row

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
# gpu_model_runner.py get_kv_cache_spec asks the attention layers first; later the layers answer as they are registered.
ATTENTION_FIRST = (Row(value=1, until="0.11.1"), Row(value=0, since="0.11.1"))
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

# Whose class counts the drafts in its state's size, from which a hybrid's block follows
# (get_mamba_state_shape_from_config); the layers always do. Gated delta nets and KDA did so from the beginning.
SPEC_STATE = (
    Row(value="", until="0.17.0"),
    Row(value="NemotronH", since="0.17.0", until="0.32.0"),
    Row(value="NemotronH FalconH1 GraniteMoeHybrid Zamba2", since="0.32.0"),
)
# mamba/abstract.py get_kv_cache_spec: every recurrent model but Qwen3-Next
MAMBA_SPEC_REFUSED = (
    Row(value="Mamba with speculative decoding is not supported yet.", until="0.17.0"),
    Row(value="", since="0.17.0"),
)
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
# config/vllm.py validate_nvfp4_kv_cache_with_mla
_NVFP4_MLA = (
    "nvfp4 KV cache is not supported with MLA (Multi-head Latent Attention) backends. Please use a different "
    "--kv-cache-dtype (e.g., {}) for MLA models such as DeepSeek."
)
NVFP4_MLA = (
    Row(value=_NVFP4_MLA.format("'fp8' or 'auto'"), until="0.30.0"),
    Row(value=_NVFP4_MLA.format("'fp8', 'auto', or 'nvfp4_ds_mla' with a sparse MLA backend"), since="0.30.0"),
)
ALIGN_NEEDS_CHUNKS = "Chunked prefill is required for mamba cache mode 'align'."
ALIGN_NEEDS_MM_CHUNKS = (
    "Chunked MM input is required because we need the flexibility to schedule a multiple of block_size tokens even if "
    "they are in the middle of a mm input"
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
# The engine reads qk_rope_head_dim of GLM's sparse models from head_dim (an attribute_map of Transformers 5.4).
GLM_ROPE_FROM_HEAD = (
    Row(value=0, until="0.20.0"),
    Row(value=1, since="0.20.0", until="0.24.0"),
    Row(value=0, since="0.24.0"),
)
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
# A compressed-tensors checkpoint without a kv_cache_scheme takes fp8_e5m2 (attention.py _init_kv_cache_quant).
E5M2_WITHOUT_SCHEME = (Row(value=0, until="0.24.0"), Row(value=1, since="0.24.0"))
# engine/arg_utils.py: the layers beside TurboQuant's run on FlashAttention 2
TURBOQUANT_FA2 = (Row(value=1, until="0.32.0"), Row(value=0, since="0.32.0"))
TRITON_MLA_FP8_TEXT = (Row(value=0, until="0.26.0"), Row(value=1, since="0.26.0"))
MAMBA_CACHE_MODES = (Row(value="all align none", until="0.32.0"), Row(value="align none", since="0.32.0"))
ATTENTION_BACKEND_MM_PREFIX = ("bagel", "gemma3", "molmo2", "moondream3", "paligemma", "umm")
