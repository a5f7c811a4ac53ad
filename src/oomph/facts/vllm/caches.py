"""What decides the shape and the dtype of a layer's cache, release by release.

From model_executor/models/config.py, platforms/*.py and the layers' get_kv_cache_spec.
"""

from typing import Literal

from oomph.facts.changes import Dated, Facts, changes, names, since, until

StateModes = Literal["never", "all_only", "all_or_align", "all_or_align_spec", "align"]

# Architectures whose classes support mode "all" (SupportsMambaPrefixCaching).
MAMBA_ALL = frozenset(
    {
        "MambaForCausalLM", "Mamba2ForCausalLM", "FalconMambaForCausalLM", "JambaForCausalLM", "BambaForCausalLM",
        "JambaForSequenceClassification",
        "FalconH1ForCausalLM", "GraniteMoeHybridForCausalLM", "NemotronHForCausalLM", "NemotronHPuzzleForCausalLM",
        "Zamba2ForCausalLM",
    }
)  # fmt: skip
ALIGN_NEEDS_CHUNKS = "Chunked prefill is required for mamba cache mode 'align'."
ALIGN_NEEDS_MM_CHUNKS = (
    "Chunked MM input is required because we need the flexibility to schedule a multiple of block_size tokens even if "
    "they are in the middle of a mm input"
)


class States(Facts):
    """Recurrent layers: prefix caching, and what their states hold."""

    cached_by_default = since("0.28.0")
    # Prefix caching on hybrids: not at all; only where the model supports mode "all"; both modes; "align" whenever a
    # draft is used; as before; "align" by default; "align" only.
    prefix_modes: Dated[StateModes] = changes(
        "never",
        ("0.11.1", "all_only"),
        ("0.15.0", "all_or_align"),
        ("0.20.0", "all_or_align_spec"),
        ("0.22.0", "all_or_align"),
        ("0.28.0", "align"),
    )
    cache_modes = changes(names("all align none"), ("0.32.0", names("align none")))
    mode_all = until("0.32.0")
    checkpoint_block = since("0.32.0")  # mamba_mixer2.py get_kv_cache_spec
    # whether a convolution's state has room for drafts
    mamba2_drafts = since("0.17.0")
    kda_drafts = since("0.27.0")
    short_conv_drafts = since("0.29.0")
    # Whose class counts the drafts in its state's size, from which a hybrid's block follows
    # (get_mamba_state_shape_from_config); the layers always do. Gated delta nets and KDA did so from the beginning.
    counts_drafts = changes(
        (), ("0.17.0", names("NemotronH")), ("0.32.0", names("NemotronH FalconH1 GraniteMoeHybrid Zamba2"))
    )
    # mamba/abstract.py get_kv_cache_spec: every recurrent model but Qwen3-Next
    drafts_refused = changes("Mamba with speculative decoding is not supported yet.", ("0.17.0", ""))
    # models/config.py NemotronHForCausalLMConfig: the recurrent state where the config names no dtype; before 0.13.0
    # the convolution's, whatever the config says. 0.19.1 allows transformers 5, whose NemotronHConfig says so itself.
    nemotron_dtype = changes("", ("0.13.0", "float16"), ("0.19.1", "float32"))
    # models/config.py MODELS_CONFIG_MAP: the omni classes have no row there, and keep their states in the model's dtype
    nemotron_classes = names("NemotronHForCausalLM NemotronHPuzzleForCausalLM NemotronH_Nano_VL_V2")


class Blocks(Facts):
    """How many tokens a block of the cache has."""

    # FlashAttention lists {16, 32, 64} for hybrids with fp32 states, so that a block is a multiple of one of them.
    from_backend = since("0.18.0")
    from_all_backends = since("0.31.0")
    # platforms/cuda.py before that: dense MLA on SM100 meant CUTLASS_MLA, later FLASHINFER_MLA where it can
    mla_sm100: Dated[Literal["cutlass", "flashinfer"]] = changes("cutlass", ("0.15.0", "flashinfer"))
    # Who chooses a hybrid's attention block: models/config.py from constants, the platform from the backend, or the
    # platform from all backends.
    hybrid: Dated[Literal["config", "backend", "lcm"]] = changes("config", ("0.20.0", "backend"), ("0.32.0", "lcm"))
    hybrid_mla_128 = since("0.27.0")
    # 32 tokens for heads of 256 on SM100 instead of 16
    hybrid_of_32_on_sm100 = changes(False, ("0.11.1", True), ("0.18.0", False))
    # attention.py: sliding layers take the block as it is, the kernel's smallest, or the largest that the kernel takes.
    sliding: Dated[Literal["", "smallest", "fitting"]] = changes("", ("0.25.0", "smallest"), ("0.30.0", "fitting"))
    # --kv-cache-dtype-skip-layers: `_align_heterogeneous_kv_block_size`, and who packs a token's bytes there.
    skipped_layers: Dated[Literal["", "spec", "backend"]] = changes("", ("0.25.0", "spec"), ("0.28.0", "backend"))


_KV = "auto float16 bfloat16 fp8 fp8_e4m3 fp8_e5m2 fp8_inc fp8_ds_mla"
_MLA4 = f"{_KV} nvfp4_ds_mla"
_TQ = "turboquant_k8v4 turboquant_4bit_nc turboquant_k3v4_nc turboquant_3bit_nc"
_HEAD = "int8_per_token_head fp8_per_token_head nvfp4"
# config/vllm.py validate_nvfp4_kv_cache_with_mla
_NVFP4_MLA = (
    "nvfp4 KV cache is not supported with MLA (Multi-head Latent Attention) backends. Please use a different "
    "--kv-cache-dtype (e.g., {}) for MLA models such as DeepSeek."
)


class CacheDtypes(Facts):
    """--kv-cache-dtype: what there is, what the checkpoint says of it, and who refuses it."""

    choices = changes(
        names(_KV.replace("float16 b", "b")),
        ("0.18.0", names(_KV)),
        ("0.20.0", names(f"{_KV} {_TQ} {_HEAD}")),
        ("0.25.0", names(f"{_KV} {_TQ} int4_per_token_head {_HEAD}")),
        ("0.28.0", names(f"{_KV} {_TQ} int4_per_token_head {_HEAD} nvfp4_4over6")),
        ("0.30.0", names(f"{_MLA4} {_TQ} int4_per_token_head {_HEAD} nvfp4_4over6")),
        ("0.32.0", names(f"{_MLA4} {_TQ} ultraquant_4bit int4_per_token_head {_HEAD} nvfp4_4over6")),
    )
    from_checkpoint = since("0.14.0")  # resolve_kv_cache_dtype_string
    # attention.py: a compressed-tensors kv_cache_scheme makes the layers' caches fp8; since 0.22 only for "auto".
    scheme_applies: Dated[Literal["", "always", "auto"]] = changes("", ("0.15.0", "always"), ("0.22.0", "auto"))
    # A compressed-tensors checkpoint without a kv_cache_scheme takes fp8_e5m2 (attention.py _init_kv_cache_quant).
    e5m2_without_scheme = since("0.24.0")
    # models/config.py: the architecture whose caches are fp8 on SM100 where nobody asks for a dtype
    fp8_on_sm100 = changes("", ("0.32.0", "GlmMoeDsaForCausalLM"))
    # models/config.py DeepseekV32ForCausalLM: which --kv-cache-dtype becomes fp8_ds_mla before the layers are built
    deepseek_v32_fp8 = changes(names("auto fp8"), ("0.11.1", names("fp8")), ("0.18.0", ()))
    # models/falcon.py:173, mimo_v2.py, clip.py, modernbert.py: the layers get no cache_config, so that
    # --kv-cache-dtype does nothing
    ignored_by = changes(
        ("FalconForCausalLM", "RWForCausalLM", "MiMoV2", "CLIPModel", "ModernBert", "ColBERTModern", "ColModern"),
        ("0.32.0", ("FalconForCausalLM", "RWForCausalLM", "CLIPModel", "ModernBert", "ColBERTModern", "ColModern")),
    )
    skips_mla_layers = since("0.26.0")
    nvfp4_mla_refused = changes(
        _NVFP4_MLA.format("'fp8' or 'auto'"),
        ("0.30.0", _NVFP4_MLA.format("'fp8', 'auto', or 'nvfp4_ds_mla' with a sparse MLA backend")),
    )
    # The Triton backend refuses fp8 where the GPU has no fp8 (triton_attn.py); before, it compiled and failed later.
    triton_fp8_refused = changes(
        "",
        (
            "0.24.0",
            "FP8 KV cache is not supported by the Triton attention backend on {gpu} (compute capability "
            "{capability}); native FP8 (fp8e4nv) requires SM89+. Re-run with --kv-cache-dtype {dtype}.",
        ),
    )
    triton_mla_refuses_fp8 = since("0.26.0")


class LayerCaches(Facts):
    """The layers' caches: their order, their layout, their widths."""

    # gpu_model_runner.py get_kv_cache_spec asks the attention layers first; later the layers answer as they are
    # registered.
    attention_first = until("0.11.1")
    has_layouts = since("0.29.0")
    # The engine reads qk_rope_head_dim of GLM's sparse models from head_dim (an attribute_map of Transformers 5.4).
    glm_rope_from_head = changes(False, ("0.20.0", True), ("0.24.0", False))
    # models/mimo_v2.py: K and V of different widths have backends of their own
    unequal_widths: Dated[Literal["", "flash", "flash or triton"]] = changes(
        "", ("0.20.0", "flash"), ("0.24.0", "flash or triton")
    )


class DeepseekV4(Facts):
    auto_is_fp8 = since("0.30.0")  # refused before
    refusal = changes(
        "DeepseekV4 only supports fp8 kv-cache format for now, got {dtype}",
        ("0.23.0", "DeepseekV4 FlashMLA fp8 layout only supports fp8 kv-cache, got {dtype}"),
        ("0.24.0", "DeepseekV4 fp8_ds_mla layout only supports fp8 kv-cache, got {dtype}"),
        (
            "0.30.0",
            "DeepseekV4 fp8_ds_mla layout only supports fp8 kv-cache, got {dtype}. Please set `--kv-cache-dtype fp8` "
            "or select a backend that supports bfloat16 KV cache.",
        ),
    )
    refusal_type = changes("AssertionError", ("0.30.0", "ValueError"))
    backend = changes("V4_FLASHMLA_SPARSE", ("0.22.0", "FLASHMLA_SPARSE_DSV4"))
    backend_sm12 = changes("V4_FLASHMLA_SPARSE", ("0.22.0", "FLASHINFER_MLA_SPARSE_DSV4"))


ATTENTION_BACKEND_MM_PREFIX = ("bagel", "gemma3", "molmo2", "moondream3", "paligemma", "umm")
SINKS_NEED_FA3 = "Sinks are only supported in FlashAttention 3"


class BackendChoice(Facts):
    """What a model or a cache dtype says about the attention backend."""

    # Attention.use_mm_prefix; 0.25 asks whether the model takes multimodal input at all.
    mm_prefix = since("0.13.0")
    mm_prefix_needs_mm = since("0.25.0")
    # hf_config.model_type of the inner text model is asked afresh in between, and is not in the list (with_hf_config).
    mm_prefix_nested = changes(True, ("0.20.0", False), ("0.25.0", True))
    # models/config.py Gemma4Config: one backend for all head sizes.
    gemma4: Dated[Literal["", "triton", "fa4"]] = changes("", ("0.19.0", "triton"), ("0.24.0", "fa4"))
    gemma4_fp8_by_layer = since("0.31.0")
    # engine/arg_utils.py: the layers beside TurboQuant's run on FlashAttention 2
    turboquant_fa2 = until("0.32.0")
