"""What the choice of an attention backend and a layer's cache dtype follow from: flags, checkpoint, modalities."""

from collections.abc import Mapping
from typing import Any

from oomph.engines.vllm.kv.specs import Refused
from oomph.engines.vllm.resolve.backend_query import fa4_supported
from oomph.engines.vllm.resolve.plain_flags import text_only
from oomph.engines.vllm.resolve.verify import invalid, one_of, verify_value
from oomph.engines.vllm.traits import Traits
from oomph.errors import UnknownCache
from oomph.facts.vllm.caches import ATTENTION_BACKEND_MM_PREFIX, BackendChoice
from oomph.facts.vllm.facts import Facts
from oomph.facts.vllm.flag_values import Values
from oomph.facts.vllm.refusals import UNNAMED_ATTENTION, UNNAMED_REFUSAL
from oomph.ir import Model, State


def cache_dtype(model: Model, flag: str, facts: Facts, sm: int) -> str:
    if flag not in facts.cache_dtypes.choices:
        raise invalid("CacheConfig", ("cache_dtype", one_of(facts.cache_dtypes.choices), "literal_error", flag))
    dtype = _checkpoint_dtype(model, facts, sm) if flag == "auto" else flag
    if model.architecture == "DeepseekV32ForCausalLM":  # models/config.py, after the checkpoint was asked
        if (dtype if dtype == "auto" else dtype[:3]) in facts.cache_dtypes.deepseek_v32_fp8:
            return "fp8_ds_mla"
        if dtype == "bfloat16":
            return "auto"
    return dtype


def _checkpoint_dtype(model: Model, facts: Facts, sm: int) -> str:
    scheme = model.quantization.kv_cache if model.quantization else ""
    modelopt = model.quantization is not None and model.quantization.method.startswith("modelopt")
    if scheme and modelopt and facts.cache_dtypes.from_checkpoint:
        return {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}.get(scheme.lower(), "auto")
    if facts.cache_dtypes.fp8_on_sm100 == model.architecture and sm // 10 == 10:
        return "fp8_e4m3"
    return "auto"


def has_kv_method(model: Model, facts: Facts, quantization: str | None) -> bool:
    """Whether get_quant_method gives the attention layers a BaseKVCacheMethod: fp8.py does so on the fly too."""
    stored = model.quantization
    if stored is None:
        scaled = facts.weights.online_scales and model.architecture not in facts.weights.unscaled
        return quantization == "fp8" and scaled
    if stored.method == "compressed-tensors":
        return bool(stored.kv_cache) or not facts.cache_dtypes.e5m2_without_scheme
    if stored.method == "modelopt_mixed":  # modelopt.py:2406 (0.27.0)
        return bool(stored.kv_cache)
    return stored.method.startswith(("fp8", "modelopt", "quark", "deepseek_v4"))


def layer_dtype(model: Model, resolved: str, facts: Facts) -> str:
    """The dtype the layers end up with: compressed-tensors' kv_cache_scheme acts in the layer (attention.py)."""
    quantization = model.quantization
    if model.architecture.startswith(facts.cache_dtypes.ignored_by):
        return "auto"
    if (
        quantization is None
        or quantization.method != "compressed-tensors"
        or not quantization.kv_cache
        or not facts.cache_dtypes.scheme_applies
    ):
        return resolved
    return "fp8" if facts.cache_dtypes.scheme_applies == "always" or resolved == "auto" else resolved


def mm_prefix_lm(model: Model, flags: Mapping[str, Any], choice: BackendChoice) -> bool:
    """is_mm_prefix_lm (model_arch_config_convertor.py)."""
    if not choice.mm_prefix or (choice.mm_prefix_needs_mm and text_only(model, flags)):
        return False
    return _sees_items_whole(model, listed=choice.mm_prefix_nested)


def _sees_items_whole(model: Model, *, listed: bool = True) -> bool:
    """Whether all tokens of an image see each other. `listed`: the list of model types is asked too."""
    if model.model_type.startswith("gemma4"):
        return model.param("use_bidirectional_attention", "") == "vision"
    return listed and (bool(model.param("is_mm_prefix_lm", 0)) or model.model_type in ATTENTION_BACKEND_MM_PREFIX)


def largest_item(model: Model, flags: Mapping[str, Any]) -> int:
    """Tokens of the largest item a prefix-LM must take whole (arg_utils.py _get_min_mm_batched_tokens)."""
    if text_only(model, flags) or not _sees_items_whole(model):
        return 0
    return max((m.max_tokens for m in model.modalities), default=0)


def _asked_backend(flags: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    config = flags.get("attention_config")
    config = config if isinstance(config, Mapping) else {}
    backend = str(flags.get("attention_backend") or config.get("backend") or "").upper()
    return config, "" if backend == "AUTO" else backend


def verify_backend(flags: Mapping[str, Any], values: Values) -> None:
    config, backend = _asked_backend(flags)
    if config.get("hisparse_config"):  # v1/hisparse/layout.py (0.30+): sparse layers' caches in host memory
        raise UnknownCache("HiSparse (attention_config.hisparse_config) keeps caches on the host: not known how large")
    verify_value("attention_backend", backend, values.attention_backend)


def forced_backend(
    model: Model, traits: Traits, flags: Mapping[str, Any], sm: int, kv_dtype: str, facts: Facts
) -> tuple[str, int]:
    """(backend, FlashAttention version) that the user or Gemma4Config sets."""
    config, backend = _asked_backend(flags)
    fa = int(config.get("flash_attn_version") or 0)
    if kv_dtype.startswith("turboquant_") and facts.backend_choice.turboquant_fa2:
        fa = 2
    if not model.architecture.startswith(("Gemma4", "DiffusionGemma")) or len(traits.head_sizes) < 2:
        return backend, fa
    if facts.backend_choice.gemma4 == "triton":
        return backend or ("TRITON_ATTN" if traits.max_head > 256 else ""), fa
    if facts.backend_choice.gemma4 == "fa4":
        if not fa4_supported(sm) or traits.max_head > 512:
            return backend or "TRITON_ATTN", fa
        per_layer = facts.backend_choice.gemma4_fp8_by_layer and sm // 10 == 9 and kv_dtype.startswith("fp8")
        if not fa and backend in ("", "FLASH_ATTN") and not per_layer:
            fa = 4
    return backend, fa


def skipped_layers(model: Model, traits: Traits, flags: Mapping[str, Any], kv_dtype: str) -> tuple[str, ...]:
    names = {str(n) for n in flags.get("kv_cache_dtype_skip_layers") or ()}
    if kv_dtype.startswith("turboquant_") and model.architecture in UNNAMED_ATTENTION:
        raise Refused("NotImplementedError", UNNAMED_REFUSAL)
    if kv_dtype.startswith("turboquant_") and not traits.is_hybrid:
        n = len(model.layers)
        names |= {str(i) for i in (0, 1, n - 2, n - 1)}  # TurboQuantConfig.get_boundary_skip_layers
    return tuple(sorted(names))


def state_dtypes(model: Model, traits: Traits, flags: Mapping[str, Any], facts: Facts, dtype: str) -> tuple[str, str]:
    """Of a recurrent layer's convolution state and of its scan's; "" = the layer's own."""
    conv = str(flags.get("mamba_cache_dtype", "auto"))
    conv = dtype if conv == "auto" else conv
    ssm = str(flags.get("mamba_ssm_cache_dtype", "auto"))
    if ssm != "auto":
        return conv, ssm
    own = next((m.dtype for m in traits.mixers if isinstance(m, State)), "")
    if model.architecture in facts.states.nemotron_classes and not (own and facts.states.nemotron_dtype):
        return conv, facts.states.nemotron_dtype or conv
    return conv, ""


def cache_layout(own: str, flags: Mapping[str, Any], *, mla: bool) -> str:
    """get_required_kvcache_layout of the connectors (0.32.0)."""
    transfer = flags.get("kv_transfer_config")
    connector = str(transfer.get("kv_connector", "")) if isinstance(transfer, Mapping) else ""
    head_first = connector in ("OffloadingConnector", "NixlConnector") or (flags.get("kv_offloading_size") and not mla)
    return "LBHNC" if own == "LBNHC" and head_first else own


def mla_rope(model: Model, facts: Facts) -> int:
    """0: as the model says."""
    if facts.layer_caches.glm_rope_from_head and model.architecture == "GlmMoeDsaForCausalLM":
        return int(model.param("mla_head_dim", 0))
    return 0
