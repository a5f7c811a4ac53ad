"""Flags, card and model -> the settings that SGLang ends up with, or its refusal (arg_groups/pipeline.py, 0.5.23)."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from oomph.engines.sglang.drafts import draft_refusal, with_drafts
from oomph.engines.sglang.graphs import (
    attention_groups,
    decode_batches,
    decode_graphs_on,
    explicit_backend,
    largest_decode_batch,
    prefill_backend,
    prefill_tokens,
)
from oomph.engines.sglang.resolve.card import smi_mib
from oomph.engines.sglang.resolve.kernels import choose_kernels
from oomph.engines.sglang.resolve.reserve import GraphPlan, static_fraction
from oomph.engines.sglang.resolve.settings import ModelShape, Settings, context_length, shape_of
from oomph.facts.dtypes import TORCH
from oomph.facts.sglang.facts import Facts, at as facts_at
from oomph.facts.sglang.memory import prefill_sizes
from oomph.ir import Deployment, Device, Model

# mem_cache/kv_cache_dtype.py: SGLang's words and the dtypes behind them; the FP4 ones have scales beside them
KV_DTYPES = {
    "fp8_e5m2": "F8_E5M2", "fp8_e4m3": "F8_E4M3", "mxfp8": "F8_E4M3", "bf16": "BF16", "bfloat16": "BF16",
    "fp4_e2m1": "F4", "nvfp4": "F4", "fp4_mx_block16": "F4",
}  # fmt: skip
_TOO_LONG = (
    "ValueError: Warning: {whose} context_length ({asked}) is greater than the derived context_length "
    "({derived}). This may lead to incorrect model outputs or CUDA errors. Note that the derived context_length may "
    "differ from max_position_embeddings in the model's config. To allow overriding this maximum, set the env var "
    "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1"
)


def resolve(model: Model, deployment: Deployment, draft: Model | None = None) -> tuple[Settings, ModelShape]:
    """`draft`: the model that --speculative-draft-model-path names, where it is another one."""
    facts, flags = facts_at(deployment.engine.version), deployment.flags
    shape = shape_of(model, facts, flags)
    card = min(deployment.gpus, key=smi_mib)  # get_nvgpu_memory_capacity: the smallest of all
    settings = _memory(_parallel(deployment, model), model, shape, facts, flags, card)
    settings = with_drafts(settings, model, shape, draft, facts, flags)
    settings = _states(settings, shape, facts, flags)
    settings = _attention(settings, model, shape, facts, flags, deployment.gpus[0])
    settings = _cache_dtype(settings, model, shape, facts, flags, deployment.gpus[0])
    settings = _window_ratio(settings, shape, facts, flags)
    settings = replace(settings, image_cache_mib=_image_cache(shape, facts, deployment, card))
    settings = replace(settings, refusal=settings.refusal or _strategy_refusal(settings, shape, facts, flags))
    settings = replace(settings, refusal=settings.refusal or draft_refusal(settings, shape, flags))
    if shape.is_v4 and settings.kv_cache_dtype not in facts.pools.v4_cache_dtypes:  # deepseek_v4_hook.py
        text = f"AssertionError: {settings.kv_cache_dtype} is not supported for {shape.architecture}"
        settings = replace(settings, refusal=settings.refusal or text)
    return replace(settings, refusal=_refusal(settings, model, draft, deployment)), shape


def _parallel(deployment: Deployment, model: Model) -> Settings:
    flags = deployment.flags
    groups = attention_groups(flags)
    drafts = str(flags.get("speculative_algorithm") or "").upper()
    return Settings(
        tp_size=_int(flags, "tp_size", 1),
        pp_size=_int(flags, "pp_size", 1),
        dp_size=1 if groups > 1 else _int(flags, "dp_size", 1),
        attn_dp_size=groups,
        ep_size=_int(flags, "tp_size", 1) if flags.get("moe_a2a_backend") == "deepep" else _int(flags, "ep_size", 1),
        context_length=_int(flags, "context_length", 0) or context_length(model),
        dtype=_dtype(model, flags),
        max_prefill_tokens=_int(flags, "max_prefill_tokens", 16384),
        max_running_requests=_optional(flags, "max_running_requests"),
        max_total_tokens=_optional(flags, "max_total_tokens"),
        max_mamba_cache_size=_optional(flags, "max_mamba_cache_size"),
        disable_radix_cache=_no_radix(flags),
        disable_overlap_schedule=bool(flags.get("disable_overlap_schedule")),
        speculative_algorithm="EAGLE" if drafts == "NEXTN" else drafts,
        speculative_num_draft_tokens=_int(flags, "speculative_num_draft_tokens", 0),
        disaggregation_mode=str(flags.get("disaggregation_mode") or "null"),
        quantization=str(flags.get("quantization") or (model.quantization.method if model.quantization else "")),
        mamba_ssm_dtype=str(flags.get("mamba_ssm_dtype") or ""),
    )


def _no_radix(flags: Mapping[str, Any]) -> bool:
    """pd_disaggregation_hook.py:122: a decode worker keeps no prefixes, unless it is told to."""
    decode = flags.get("disaggregation_mode") == "decode"
    stays = flags.get("disaggregation_decode_enable_radix_cache")
    return bool(flags.get("disable_radix_cache")) or (decode and not stays)


def _int(flags: Mapping[str, Any], name: str, default: int) -> int:
    value = flags.get(name)
    return default if value is None else int(value)


def _optional(flags: Mapping[str, Any], name: str) -> int | None:
    value = flags.get(name)
    return None if value is None else int(value)


def _dtype(model: Model, flags: Mapping[str, Any]) -> str:
    """configs/model_config.py _get_and_verify_dtype: float32 checkpoints run in half precision."""
    name = str(flags.get("dtype") or "auto")
    if name == "half":
        name = "float16"
    if model.quantization is not None and model.quantization.method == "mxfp4":
        return "BF16"  # model_overrides/gpt_oss.py
    if name != "auto":
        return TORCH.get(name, model.dtype)
    if model.dtype == "F32" or model.param("no_dtype"):  # a config without a dtype is one of float32 to transformers
        return "BF16" if model.model_type.startswith("gemma") else "F16"
    return model.dtype


def _memory(
    settings: Settings, model: Model, shape: ModelShape, facts: Facts, flags: Mapping[str, Any], card: Device
) -> Settings:
    """The card's tier, the graphs, and what they leave for weights and caches."""
    card_mib = smi_mib(card)
    tier = next(t for t in facts.memory.tiers if not t.below or card_mib < t.below)
    chunk = _int(flags, "chunked_prefill_size", tier.chunk)
    largest = largest_decode_batch(facts, flags, card_mib)
    backend = prefill_backend(shape, facts, flags)
    sizes = prefill_tokens(shape, facts, flags, chunk, model.name)
    graphs = GraphPlan(largest, decode_graphs_on(flags), backend, len(sizes), max(sizes, default=0))
    fraction = static_fraction(model, shape, facts, flags, card_mib, chunk, graphs)
    per_group = chunk // settings.attn_dp_size
    if settings.attn_dp_size > 1 and sizes and sizes[-1] > per_group:  # parallel_hook.py:344 (0.5.23)
        sizes = prefill_sizes(facts.memory, per_group)
    # cuda_graph_hook.py apply_cuda_graph_disaggregation_roles: each worker captures its own phase only
    if settings.disaggregation_mode == "decode" and not explicit_backend(flags, "prefill"):
        backend = "disabled"
    decodes = settings.disaggregation_mode != "prefill" or bool(explicit_backend(flags, "decode"))
    return replace(
        settings,
        chunked_prefill_size=per_group,
        cuda_graph_max_bs=largest,
        cuda_graph_bs=decode_batches(facts, flags, largest) if decodes else (),
        prefill_graph=backend,
        prefill_graph_sizes=sizes if backend != "disabled" else (),
        mem_fraction_static=fraction,
    )


def _states(settings: Settings, shape: ModelShape, facts: Facts, flags: Mapping[str, Any]) -> Settings:
    """arg_groups/overrides.py _mamba_radix_cache_resolution: spare slots where the model's class can use them."""
    pipeline = settings.pp_size > 1  # overrides.py _pipeline_parallel_overlap_disable, after the strategy is chosen
    if not shape.states:
        return replace(settings, disable_overlap_schedule=settings.disable_overlap_schedule or pipeline)
    pools, lists = facts.pools, facts.architectures
    ratio = float(flags.get("mamba_full_memory_ratio") or pools.state_ratio)
    no_radix = settings.disable_radix_cache or shape.architecture in lists.no_radix
    strategy = str(flags.get("mamba_radix_cache_strategy") or flags.get("mamba_scheduler_strategy") or "auto")
    overlap = not settings.disable_overlap_schedule
    if strategy == "auto":
        wants = overlap or int(flags.get("page_size") or 1) > 1
        spares = pools.strategy_by_model and wants and shape.architecture in lists.state_spares
        strategy = "extra_buffer" if spares else "no_buffer"
        overlap = overlap and spares
    overlap = overlap and not pipeline
    if no_radix:
        slots, overlap = 1, not settings.disable_overlap_schedule and not pipeline
    else:
        spare = {"extra_buffer": 2 if overlap else 1, "extra_buffer_lazy": 1}.get(strategy, 0)
        slots = pools.states_per_request + (2 if pools.always_spare else spare)
    return replace(
        settings,
        mamba_full_memory_ratio=ratio,
        mamba_radix_cache_strategy="" if no_radix else strategy,
        disable_radix_cache=no_radix,
        disable_overlap_schedule=not overlap,
        states_per_request=slots,
    )


def _attention(
    settings: Settings, model: Model, shape: ModelShape, facts: Facts, flags: Mapping[str, Any], device: Device
) -> Settings:
    # the architecture's rule comes before the strategy is chosen: only one that was asked for counts
    buffered = str(flags.get("mamba_radix_cache_strategy") or "").startswith("extra_buffer")
    spare = buffered or settings.disable_radix_cache or settings.drafts
    kernels = choose_kernels(model, shape, facts, flags, device, spare_states=spare)
    unbroken = facts.prefill_graphs.off_with_trtllm_mla and shape.architecture == "DeepseekV3ForCausalLM"
    if unbroken and kernels.prefill == "trtllm_mla" and not explicit_backend(flags, "prefill"):
        settings = replace(settings, prefill_graph="disabled", prefill_graph_sizes=())
    return replace(
        settings,
        attention_backend=kernels.attention,
        prefill_attention_backend=kernels.prefill,
        decode_attention_backend=kernels.decode,
        page_size=kernels.page,
        refusal=kernels.refusal,
    )


def _cache_dtype(
    settings: Settings, model: Model, shape: ModelShape, facts: Facts, flags: Mapping[str, Any], device: Device
) -> Settings:
    name = str(flags.get("kv_cache_dtype") or "auto")
    blackwell = device.capability[0] >= 10
    if name == "auto" and shape.is_v4:
        name = "fp8_e4m3"
    elif name == "auto" and shape.is_sparse:  # overrides.py:521 _dsa_kv_cache_dtype_default
        name = "fp8_e4m3" if blackwell else "bfloat16"
    elif name == "auto" and _checkpoint_has_fp8_cache(model, facts):
        name = "fp8_e4m3"
    dtype = KV_DTYPES.get(name, settings.dtype)
    with_scales = facts.pools.packed_sparse and not _plain_sparse(shape, flags, device.capability[0])
    packed = shape.is_sparse and dtype == "F8_E4M3" and with_scales
    return replace(settings, kv_cache_dtype=name, kv_dtype=dtype, sparse_layout="packed" if packed else "")


def _plain_sparse(shape: ModelShape, flags: Mapping[str, Any], major: int) -> bool:
    """kv_cache_configurator.py calculate_mla_kv_cache_dim: TensorRT-LLM's kernels read rows without scales."""
    default = "trtllm" if major >= 10 else "flashmla_kv"
    if major == 12 and shape.architecture == "GlmMoeDsaForCausalLM":  # overrides.py:638
        default = "flashinfer_sparse_mla"
    return "trtllm" in (
        str(flags.get("dsa_prefill_backend") or flags.get("nsa_prefill_backend") or default),
        str(flags.get("dsa_decode_backend") or flags.get("nsa_decode_backend") or default),
    )


def _checkpoint_has_fp8_cache(model: Model, facts: Facts) -> bool:
    """mem_cache/kv_cache_dtype.py: ModelOpt checkpoints say so (kv_cache_quant_algo)."""
    quantization = model.quantization
    if quantization is None or not quantization.method.startswith("modelopt"):
        return False
    beside = facts.pools.kv_dtype_beside and quantization.method == "modelopt_mixed"
    return "fp8" in (quantization.kv_cache, quantization.kv_cache_beside if beside else "")


def _window_ratio(settings: Settings, shape: ModelShape, facts: Facts, flags: Mapping[str, Any]) -> Settings:
    stated = flags.get("swa_full_tokens_ratio")
    default = facts.pools.v4_ratio if shape.is_v4 else facts.pools.window_ratio
    ratio = default if stated is None else float(stated)
    return replace(settings, swa_full_tokens_ratio=ratio)


def _image_cache(shape: ModelShape, facts: Facts, deployment: Deployment, card: Device) -> int:
    """kv_cache_configurator.py:202 mm_runtime_reservation_gb: what images leave behind, out of the KV budget."""
    memory = facts.memory
    if not shape.is_multimodal:
        return 0
    environment = deployment.environment
    large_hopper = _is_large_hopper(shape, facts, card, deployment.flags)
    embeddings = _mib(environment, "SGLANG_VLM_CACHE_SIZE_MB", 0 if large_hopper else memory.embedding_cache)
    transport = str(deployment.flags.get("mm_feature_transport") or ("cuda_ipc" if large_hopper else ""))
    if transport not in ("cuda_ipc", "cuda_vmm"):
        return embeddings
    many = large_hopper and int(deployment.flags.get("max_running_requests") or 0) >= 400
    return embeddings + _mib(environment, "SGLANG_MM_FEATURE_CACHE_MB", 3072 if many else memory.feature_cache)


def _is_large_hopper(shape: ModelShape, facts: Facts, card: Device, flags: Mapping[str, Any]) -> bool:
    """model_overrides/qwen3_vl.py _qwen3vl_hopper_serving_overrides."""
    names = ("Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration")
    if shape.architecture not in names or not facts.kernels.vision_decode or flags.get("nnodes", 1) != 1:
        return False
    return card.capability[0] == 9 and smi_mib(card) >= 60 * 1024


def _mib(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else default


def _refusal(settings: Settings, model: Model, draft: Model | None, deployment: Deployment) -> str:
    context, derived = deployment.flags.get("context_length"), context_length(model)
    allowed = deployment.environment.get("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", "").lower() in ("1", "true")
    if context is not None and int(context) > derived and not allowed:
        return _TOO_LONG.format(whose="User-specified", asked=context, derived=derived)
    if context is not None and draft is not None and int(context) > context_length(draft) and not allowed:
        return _TOO_LONG.format(whose="Target model's", asked=context, derived=context_length(draft))
    return settings.refusal


def _strategy_refusal(settings: Settings, shape: ModelShape, facts: Facts, flags: Mapping[str, Any]) -> str:
    """arg_groups/mamba_hook.py validate_mamba_no_buffer and validate_mamba_extra_buffer (0.5.23)."""
    strategy = settings.mamba_radix_cache_strategy
    is_known = shape.architecture in facts.models.classes  # another class is refused when it is built
    if not shape.states or not strategy or not is_known or not facts.pools.strategy_by_model:
        return ""
    if strategy.startswith("extra_buffer") and shape.architecture not in facts.architectures.state_spares:
        return f"AssertionError: extra_buffer is not supported for {shape.architecture}; use no_buffer."
    if strategy != "no_buffer":
        return ""
    if int(flags.get("page_size") or 1) > 1:
        return "AssertionError: no_buffer only supports page_size=1."
    if flags.get("mamba_radix_cache_strategy") == strategy and not flags.get("disable_overlap_schedule"):
        return "AssertionError: no_buffer do not support overlap schedule. Try to set disable_overlap_schedule=True."
    return ""
