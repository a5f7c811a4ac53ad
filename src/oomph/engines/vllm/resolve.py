"""Flags, GPU and model -> the settings vLLM ends up with, or its refusal (EngineArgs.create_engine_config and after).

Besides the Model's own fields these params are read, where a config.json has them (sources/params.py collects them):
`derived_max_len`, `max_len_key`, `model_max_length`, `rope_type`, `rope_factor`, `rope_original`,
`original_max_position_embeddings` (context length); `is_mm_prefix_lm`, `use_bidirectional_attention`,
`attn_logit_softcapping` (backend choice); `mm_item_tokens` (largest item of a prefix-LM);
`kv_cache_dtype_from` = "config" where only config.json's own quantization_config asks for a KV dtype.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.vllm.backends import fa4_supported
from oomph.engines.vllm.kv_blocks import Setup
from oomph.engines.vllm.kv_check import Refusal
from oomph.engines.vllm.kv_groups import Layers
from oomph.engines.vllm.kv_layers import lay_out
from oomph.engines.vllm.kv_specs import Refused
from oomph.engines.vllm.model_facts import ModelFacts, drafting, facts_of
from oomph.engines.vllm.resolve_build import verify_blocks, verify_build
from oomph.engines.vllm.resolve_graphs import capture_sizes, cudagraph_mode
from oomph.engines.vllm.resolve_limits import (
    batch_limits,
    resolve_dtype,
    resolve_length,
    resolve_quantization,
    verify_batch,
)
from oomph.facts.vllm.defaults import (
    ATTENTION_BACKEND_MM_PREFIX,
    EAGLE_METHODS,
    HMA_CONNECTORS,
    MAMBA_ALL,
    Defaults,
    defaults,
)
from oomph.facts.vllm.kv import rules
from oomph.ir.deployment import Deployment
from oomph.ir.model import Attention, Model, State


class Resolved(Struct, frozen=True):
    version: str
    architecture: str
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    gpu_memory_utilization: float
    auto_fit: bool = False
    kv_cache_memory_bytes: int | None = None
    num_gpu_blocks_override: int | None = None
    enable_chunked_prefill: bool = True
    enable_prefix_caching: bool = True
    async_scheduling: bool = False
    max_in_flight_batches: int = 1
    model_runner: str = "v1"
    dtype: str = "bfloat16"
    kv_cache_dtype: str = "auto"
    quantization: str | None = None
    block_size: int = 16
    mamba_block_size: int | None = None
    mamba_page_size_padded: int | None = None
    mamba_cache_mode: str = ""  # "" = no recurrent layers
    disable_hybrid_kv_cache_manager: bool = False
    hybrid_off_because: str = ""
    cudagraph_mode: str = "NONE"
    cudagraph_capture_sizes: tuple[int, ...] = ()
    enforce_eager: bool = False
    attention: tuple[tuple[str, int], ...] = ()  # backend, layers of the first stage
    kv_cache_layout: str = ""
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    enable_expert_parallel: bool = False
    decode_context_parallel_size: int = 1
    prefill_context_parallel_size: int = 1
    stages: tuple[tuple[int, int], ...] = ()  # layer ranges
    speculative_method: str = ""
    num_speculative_tokens: int = 0
    uses_drafts: bool = False  # the checkpoint's own multi-token-prediction layers are loaded
    reserve_full_isl: bool = True
    encoder_tokens: int = 0
    kv_layers: tuple[Layers, ...] = ()
    refusal: Refusal | None = None
    notes: tuple[str, ...] = ()


class _Speculation(Struct, frozen=True):
    method: str = ""
    tokens: int = 0
    own_drafts: bool = False


def resolve(model: Model, deployment: Deployment, draft: Model | None = None) -> Resolved:
    """Never raises for a bad flag combination: the engine's refusal is in `.refusal`.

    `draft`: the model that --speculative-config names, where it is another one; its layers have caches too.
    """
    d = defaults(deployment.engine.version)
    base = Resolved(deployment.engine.version, model.architecture, model.max_position, 0, 0, d.utilization)
    try:
        settled = _settings(model, deployment, d, base)
    except Refused as e:
        return replace(base, refusal=Refusal("engine_config", e.type, e.message))
    try:
        return _with_caches(model, deployment, d, settled, draft)
    except Refused as e:
        return replace(settled, refusal=Refusal("model_build", e.type, e.message))


def _settings(model: Model, dep: Deployment, d: Defaults, base: Resolved) -> Resolved:
    flags, facts, gpu = dep.flags, facts_of(model), dep.gpus[0]
    unknown = d.unknown.get(model.architecture)
    if unknown is not None and unknown.stage == "engine_config":
        raise Refused(unknown.type, unknown.text.format(model_type=model.model_type))
    tp, pp = int(flags.get("tensor_parallel_size", 1)), int(flags.get("pipeline_parallel_size", 1))
    dtype = resolve_dtype(model, str(flags.get("dtype", "auto")), gpu.sm)
    asked = flags.get("max_model_len")
    length = resolve_length(model, asked, dep.environment, d)
    prefix = flags.get("enable_prefix_caching")
    if prefix is None:
        prefix = not model.pooling and (d.hybrid_prefix_caching if facts.is_hybrid else not facts.has_state)
    # config/vllm.py, scheduler.py: an encoder's output is needed whole, and is no part of a prefix
    encoder_decoder = any(isinstance(m, Attention) and m.kind == "cross" for m in facts.mixers)
    prefix = bool(prefix) and not encoder_decoder
    chunked = flags.get("enable_chunked_prefill", True) and not encoder_decoder
    kv_dtype = _kv_dtype(model, str(flags.get("kv_cache_dtype", "auto")), d, gpu.sm)
    utilization = _utilization(flags, d)
    spec = _speculation(model, flags)
    item = _one_item(model, flags)
    tokens, seqs = batch_limits(flags, d, gpu, dep.usage, length=length, chunked=bool(chunked), one_item=item)
    verify_batch(tokens, seqs, length, bool(chunked))
    _verify_parallel(model, facts, flags, tp)
    quantization = resolve_quantization(model, str(flags.get("quantization") or ""), base.version, d, gpu.sm)
    mode, prefix = _mamba_mode(model, facts, flags, d, bool(prefix), spec)
    runner = _runner(model, facts, dep, d, spec, quantized=quantization is not None)
    asynchronous = _async(model, flags, d, spec, runner, pp, mode)
    graphs = cudagraph_mode(flags, pooling=model.pooling, encoder_decoder=encoder_decoder)
    sizes: tuple[int, ...] = ()
    if graphs != "NONE":
        sizes = capture_sizes(
            flags, d, architecture=model.architecture, sm=gpu.sm, seqs=seqs, tokens=tokens, drafts=spec.tokens
        )
    off, why = _hybrid_off(facts, dep, d, spec)
    return replace(
        base,
        max_model_len=length,
        auto_fit=asked == -1,
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        gpu_memory_utilization=utilization,
        kv_cache_memory_bytes=flags.get("kv_cache_memory_bytes"),
        num_gpu_blocks_override=flags.get("num_gpu_blocks_override"),
        enable_chunked_prefill=bool(chunked),
        enable_prefix_caching=prefix,
        async_scheduling=asynchronous,
        max_in_flight_batches=_in_flight(asynchronous, runner, pp),
        model_runner=runner,
        dtype=dtype,
        kv_cache_dtype=kv_dtype,
        quantization=quantization,
        block_size=int(flags.get("block_size") or 16),
        mamba_cache_mode=mode,
        disable_hybrid_kv_cache_manager=off,
        hybrid_off_because=why,
        cudagraph_mode=graphs,
        cudagraph_capture_sizes=sizes,
        enforce_eager=bool(flags.get("enforce_eager")),
        tensor_parallel_size=tp,
        pipeline_parallel_size=pp,
        data_parallel_size=int(flags.get("data_parallel_size", 1)),
        enable_expert_parallel=bool(flags.get("enable_expert_parallel")),
        decode_context_parallel_size=int(flags.get("decode_context_parallel_size", 1)),
        prefill_context_parallel_size=int(flags.get("prefill_context_parallel_size", 1)),
        stages=pipeline_stages(len(model.layers), pp, dep.environment.get("VLLM_PP_LAYER_PARTITION", "")),
        speculative_method=spec.method,
        num_speculative_tokens=spec.tokens,
        uses_drafts=spec.own_drafts and bool(model.drafts),
        reserve_full_isl=bool(flags.get("scheduler_reserve_full_isl", True)),
        encoder_tokens=tokens,
    )


def _with_caches(model: Model, dep: Deployment, d: Defaults, r: Resolved, draft: Model | None) -> Resolved:
    external = draft is not None and bool(r.num_speculative_tokens)
    if draft is not None and external:
        model = drafting(model, draft, after=r.speculative_method != "draft_model")
    flags, facts, gpu = dep.flags, facts_of(model), dep.gpus[0]
    verify_build(model, d, r.stages)
    mm_prefix = _mm_prefix(model, flags, d)
    backend, fa = _forced_backend(model, facts, flags, gpu.sm, r, d)
    conv = str(flags.get("mamba_cache_dtype", "auto"))
    ssm = str(flags.get("mamba_ssm_cache_dtype", "auto"))
    if ssm == "auto":
        # models/config.py NemotronHForCausalLMConfig: float32 unless the config names one
        own = next((m.dtype for m in facts.mixers if isinstance(m, State)), "")
        ssm = "float32" if model.architecture.startswith("NemotronH") and not own else ""
    setup = Setup(
        version=r.version,
        sm=gpu.sm,
        dtype=r.dtype,
        kv_dtype=_layer_kv_dtype(model, r.kv_cache_dtype, d),
        tp=r.tensor_parallel_size,
        block_size=flags.get("block_size"),
        mamba_block_size=flags.get("mamba_block_size"),
        mamba_mode=r.mamba_cache_mode or "none",
        max_model_len=r.max_model_len,
        drafts=r.num_speculative_tokens,
        num_heads=model.num_heads // r.tensor_parallel_size,
        attention_backend=backend,
        fa_version=fa,
        mm_prefix=mm_prefix,
        softcap=bool(model.param("attn_logit_softcapping", 0)),
        dcp=r.decode_context_parallel_size,
        pcp=r.prefill_context_parallel_size,
        skip_layers=_skip_layers(model, flags, r),
        conv_dtype=r.dtype if conv == "auto" else conv,
        ssm_dtype=ssm,
        uses_drafts=r.uses_drafts or external,
        stages=r.stages,
        mla_rope=_mla_rope(model, d),
        gpu_name=gpu.driver_name or gpu.name,
    )
    made = lay_out(model, facts, setup, d, rules(r.version))
    verify_blocks(facts, d, tp=r.tensor_parallel_size, dp=r.data_parallel_size, ep=r.enable_expert_parallel, sm=gpu.sm)
    return replace(
        r,
        block_size=made.block_size,
        mamba_block_size=made.mamba_block_size,
        mamba_page_size_padded=made.mamba_page_size_padded,
        attention=made.backends,
        kv_cache_layout=made.kv_cache_layout,
        kv_layers=made.layers,
    )


def _mla_rope(model: Model, d: Defaults) -> int:
    """0: as the model says."""
    if d.glm_rope_from_head and model.architecture == "GlmMoeDsaForCausalLM":
        return int(model.param("mla_head_dim", 0))
    return 0


def pipeline_stages(layers: int, pp: int, partition: str = "") -> tuple[tuple[int, int], ...]:
    """distributed/utils.py get_pp_indices: the remainder goes to the stages before the last, backwards."""
    sizes = [layers // pp] * pp
    for i in range(2, layers % pp + 2):
        sizes[-i] += 1
    if partition:
        try:
            given = [int(n) for n in partition.split(",")]
        except ValueError:
            raise Refused("ValueError", f"Invalid partition string: {partition}") from None
        if len(given) != pp:
            raise Refused("ValueError", f"len(partitions)={len(given)} does not match pp_size={pp}.")
        if sum(given) != layers:
            raise Refused("ValueError", f"sum(partitions)={sum(given)} does not match num_hidden_layers={layers}.")
        sizes = given
    ends = [sum(sizes[: i + 1]) for i in range(pp)]
    return tuple((end - size, end) for size, end in zip(sizes, ends, strict=True))


def _utilization(flags: Mapping[str, Any], d: Defaults) -> float:
    value = flags.get("gpu_memory_utilization")
    if value is None:
        return d.utilization
    value = float(value)
    if not value > 0:
        raise Refused("ValidationError", "Input should be greater than 0")
    if value > 1:
        raise Refused("ValidationError", "Input should be less than or equal to 1")
    return value


def _kv_dtype(model: Model, flag: str, d: Defaults, sm: int) -> str:
    if flag not in d.kv_dtypes:
        options = ", ".join(f"'{n}'" for n in d.kv_dtypes[:-1])
        raise Refused("ValidationError", f"Input should be {options} or '{d.kv_dtypes[-1]}'")
    if flag == "bfloat16" and model.architecture == "DeepseekV32ForCausalLM":
        return "auto"
    if flag != "auto":
        return flag
    asked = model.quantization.kv_cache if model.quantization else ""
    modelopt = model.quantization is not None and model.quantization.method.startswith("modelopt")
    if asked and modelopt and d.checkpoint_kv_dtype:
        return {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}.get(asked.lower(), "auto")
    if d.fp8_kv_on_sm100 == model.architecture and sm // 10 == 10:
        return "fp8_e4m3"
    return "auto"


def _layer_kv_dtype(model: Model, resolved: str, d: Defaults) -> str:
    """The dtype the layers end up with: compressed-tensors' kv_cache_scheme acts in the layer (attention.py)."""
    q = model.quantization
    if d.kv_dtype_ignored and model.architecture.startswith(d.kv_dtype_ignored):
        return "auto"
    if q is None or q.method != "compressed-tensors" or not q.kv_cache or not d.kv_scheme:
        return resolved
    return "fp8" if d.kv_scheme == "always" or resolved == "auto" else resolved


def _speculation(model: Model, flags: Mapping[str, Any]) -> _Speculation:
    config = flags.get("speculative_config")
    if not isinstance(config, Mapping):
        return _Speculation()
    method = str(config.get("method") or "")
    if not method:
        method = "ngram" if config.get("model") in ("ngram", "[ngram]") else "draft_model"
    if method.endswith("_mtp"):
        method = "mtp"
    tokens = config.get("num_speculative_tokens")
    if tokens is None:
        if method == "mtp" and model.drafts:
            tokens = len(model.drafts)
        else:
            raise Refused(
                "ValidationError", "A speculative model was provided, but `num_speculative_tokens` was not provided"
            )
    predicts = len(model.drafts)
    if method == "mtp" and predicts and tokens > predicts and tokens % predicts:
        raise Refused("ValidationError", f"num_speculative_tokens:{tokens} must be divisible by n_predict={predicts!r}")
    return _Speculation(method, int(tokens), method == "mtp" and not config.get("model"))


def _text_only(model: Model, flags: Mapping[str, Any]) -> bool:
    """No multimodal input at all: by flag, or by limits of 0 for every modality the model has."""
    if not model.towers or flags.get("language_model_only"):
        return True
    limits = flags.get("limit_mm_per_prompt")
    if not isinstance(limits, Mapping) or not limits:
        return False
    names = {m.name for m in model.modalities} or {t.modality.replace("vision", "image") for t in model.towers}
    return all(_limit(limits.get(n, 1)) == 0 for n in names)


def _limit(value: Any) -> int:
    return int(value.get("count", 1)) if isinstance(value, Mapping) else int(value)


def _mm_prefix(model: Model, flags: Mapping[str, Any], d: Defaults) -> bool:
    """is_mm_prefix_lm (model_arch_config_convertor.py)."""
    if not d.mm_prefix:
        return False
    if d.mm_prefix_needs_mm and _text_only(model, flags):
        return False
    if model.model_type.startswith("gemma4"):
        return model.param("use_bidirectional_attention", "") == "vision"
    if not d.mm_prefix_nested:
        return False
    return bool(model.param("is_mm_prefix_lm", 0)) or model.model_type in ATTENTION_BACKEND_MM_PREFIX


def _one_item(model: Model, flags: Mapping[str, Any]) -> int:
    """Tokens of the largest item a prefix-LM must take whole (arg_utils.py _get_min_mm_batched_tokens)."""
    if not _mm_prefix(model, flags, _ALWAYS) or _text_only(model, flags):
        return 0
    return max((m.max_tokens for m in model.modalities), default=0)


def _forced_backend(
    model: Model, facts: ModelFacts, flags: Mapping[str, Any], sm: int, r: Resolved, d: Defaults
) -> tuple[str, int]:
    """(backend, FlashAttention version) that the user or Gemma4Config sets."""
    config = flags.get("attention_config")
    config = config if isinstance(config, Mapping) else {}
    backend = str(flags.get("attention_backend") or config.get("backend") or "").upper()
    fa = int(config.get("flash_attn_version") or 0)
    if not model.architecture.startswith("Gemma4") or len(facts.head_sizes) < 2:
        return backend, fa
    if d.gemma4 == "triton":
        return backend or ("TRITON_ATTN" if facts.max_head > 256 else ""), fa
    if d.gemma4 == "fa4":
        if not fa4_supported(sm) or facts.max_head > 512:
            return backend or "TRITON_ATTN", fa
        per_layer = d.gemma4_per_layer_fp8 and sm // 10 == 9 and r.kv_cache_dtype.startswith("fp8")
        if not fa and backend in ("", "FLASH_ATTN") and not per_layer:
            fa = 4
    return backend, fa


def _skip_layers(model: Model, flags: Mapping[str, Any], r: Resolved) -> tuple[str, ...]:
    given = {str(n) for n in flags.get("kv_cache_dtype_skip_layers") or ()}
    if r.kv_cache_dtype.startswith("turboquant_") and not facts_of(model).is_hybrid:
        n = len(model.layers)
        given |= {str(i) for i in (0, 1, n - 2, n - 1)}  # TurboQuantConfig.get_boundary_skip_layers
    return tuple(sorted(given))


def _verify_parallel(model: Model, facts: ModelFacts, flags: Mapping[str, Any], tp: int) -> None:
    """ModelConfig.verify_with_parallel_config."""
    if tp < 1 or (model.num_heads and model.num_heads % tp):
        raise Refused(
            "ValidationError",
            f"Total number of attention heads ({model.num_heads}) must be divisible by tensor parallel size ({tp}).",
        )
    if flags.get("enable_expert_parallel") and not facts.is_moe:
        raise Refused(
            "ValidationError",
            "Number of experts in the model must be greater than 0 when expert parallelism is enabled.",
        )


def _mamba_mode(
    model: Model, facts: ModelFacts, flags: Mapping[str, Any], d: Defaults, prefix: bool, spec: _Speculation
) -> tuple[str, bool]:
    """(mamba_cache_mode, prefix caching): MambaModelConfig.verify_and_update_config."""
    if not facts.has_state:
        return "", prefix
    supports_all = model.architecture in MAMBA_ALL
    asked = str(flags.get("mamba_cache_mode") or "none")
    match d.mamba_modes:
        case "never":
            return "none", False
        case "all_only":
            return ("all", True) if prefix and supports_all else ("none", False)
    if not prefix:
        return "none", False
    if asked == "none":
        if d.mamba_modes == "align" or not supports_all:
            return "align", True
        return ("align" if d.mamba_modes == "all_or_align_spec" and spec.method else "all"), True
    return ("align" if asked == "all" and (not supports_all or not d.mamba_all) else asked), True


def _runner(
    model: Model, facts: ModelFacts, dep: Deployment, d: Defaults, spec: _Speculation, *, quantized: bool
) -> str:
    forced = dep.environment.get("VLLM_USE_V2_MODEL_RUNNER", "")
    if forced in ("0", "1"):
        return "v2" if forced == "1" else "v1"
    row = d.runner
    if spec.method in d.v1_methods:
        return "v1"
    if row.everything:
        return "v2"
    if model.pooling:
        return "v1"
    named = model.architecture in row.architectures
    if row.dense_unquantized:
        return "v2" if named and not facts.is_moe and not quantized else "v1"
    if row.all_dense:
        if (facts.has_state and not named) or model.attention_free:
            return "v1"
        return "v2" if named or not facts.is_moe else "v1"
    return "v2" if named else "v1"


def _async(
    model: Model, flags: Mapping[str, Any], d: Defaults, spec: _Speculation, runner: str, pp: int, mamba_mode: str
) -> bool:
    given = flags.get("async_scheduling")
    if given is not None:
        return bool(given)
    if not d.async_default or model.pooling:
        return False
    eagle = "eagle" in d.async_drafts and spec.method in EAGLE_METHODS
    if spec.method and not (eagle or spec.method in d.async_drafts):
        return False
    if mamba_mode not in ("", "none") and not d.async_with_mamba:
        return False
    return pp <= 1 or (d.async_with_pp and not (d.async_needs_v2_for_pp and runner == "v1"))


def _in_flight(asynchronous: bool, runner: str, pp: int) -> int:
    """VllmConfig.max_concurrent_batches."""
    if not asynchronous:
        return pp
    if runner == "v2":
        return pp + 1
    return 2 if pp <= 1 else pp


def _hybrid_off(facts: ModelFacts, dep: Deployment, d: Defaults, spec: _Speculation) -> tuple[bool, str]:
    """(disable_hybrid_kv_cache_manager, what turned it off without being asked)."""
    flags = dep.flags
    given = flags.get("disable_hybrid_kv_cache_manager")
    why = ""
    if facts.chunk:
        default = "1" if d.chunked_local_hybrid else "0"
        if spec.method in EAGLE_METHODS:
            why = "chunked local attention with a draft model"
        elif dep.environment.get("VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE", default) == "0":
            why = "chunked local attention"
    if d.kv_events_off and flags.get("kv_events_config"):
        why = "--kv-events-config"
    transfer = flags.get("kv_transfer_config")
    if given is None and isinstance(transfer, Mapping) and transfer:
        connector = str(transfer.get("kv_connector", ""))
        if d.connector_off == "any" or connector not in HMA_CONNECTORS:
            why = "--kv-transfer-config"
    if given is not None:
        if given is False and why and why != "--kv-transfer-config":
            raise Refused(
                "ValidationError",
                "Hybrid KV cache manager was explicitly enabled but is not supported in this configuration. Consider "
                "omitting the --no-disable-hybrid-kv-cache-manager flag to let vLLM decide automatically.",
            )
        return bool(given), ""
    return bool(why), why


_ALWAYS = replace(defaults("0.32.0"), mm_prefix=True)
