"""What the choice of an attention backend and a layer's cache dtype follow from: flags, checkpoint, modalities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from oomph.engines.vllm.backend_query import fa4_supported
from oomph.engines.vllm.kv_specs import Refused
from oomph.engines.vllm.model_facts import ModelFacts, text_only
from oomph.engines.vllm.resolve_verify import invalid, one_of
from oomph.errors import UnknownCache
from oomph.facts.vllm.caches import ATTENTION_BACKEND_MM_PREFIX
from oomph.facts.vllm.defaults import Defaults, defaults
from oomph.facts.vllm.refusals import ENGINE_BACKENDS
from oomph.ir.model import Model

_ALWAYS = replace(defaults("0.32.0"), mm_prefix=True)


def cache_dtype(model: Model, flag: str, d: Defaults, sm: int) -> str:
    if flag not in d.kv_dtypes:
        raise invalid("CacheConfig", ("cache_dtype", one_of(d.kv_dtypes), "literal_error", flag))
    told = _checkpoint_dtype(model, d, sm) if flag == "auto" else flag
    if model.architecture == "DeepseekV32ForCausalLM":  # models/config.py, after the checkpoint was asked
        if (told if told == "auto" else told[:3]) in d.v32_fp8.split():
            return "fp8_ds_mla"
        if told == "bfloat16":
            return "auto"
    return told


def _checkpoint_dtype(model: Model, d: Defaults, sm: int) -> str:
    asked = model.quantization.kv_cache if model.quantization else ""
    modelopt = model.quantization is not None and model.quantization.method.startswith("modelopt")
    if asked and modelopt and d.checkpoint_kv_dtype:
        return {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}.get(asked.lower(), "auto")
    if d.fp8_kv_on_sm100 == model.architecture and sm // 10 == 10:
        return "fp8_e4m3"
    return "auto"


def has_kv_method(model: Model, d: Defaults) -> bool:
    """Whether get_quant_method gives the attention layers a BaseKVCacheMethod."""
    q = model.quantization
    if q is None:
        return False
    if q.method == "compressed-tensors":
        return bool(q.kv_cache) or not d.e5m2_without_scheme
    return q.method.startswith(("fp8", "modelopt", "quark", "deepseek_v4"))


def layer_dtype(model: Model, resolved: str, d: Defaults) -> str:
    """The dtype the layers end up with: compressed-tensors' kv_cache_scheme acts in the layer (attention.py)."""
    q = model.quantization
    if d.kv_dtype_ignored and model.architecture.startswith(d.kv_dtype_ignored):
        return "auto"
    if q is None or q.method != "compressed-tensors" or not q.kv_cache or not d.kv_scheme:
        return resolved
    return "fp8" if d.kv_scheme == "always" or resolved == "auto" else resolved


def mm_prefix_lm(model: Model, flags: Mapping[str, Any], d: Defaults) -> bool:
    """is_mm_prefix_lm (model_arch_config_convertor.py)."""
    if not d.mm_prefix:
        return False
    if d.mm_prefix_needs_mm and text_only(model, flags):
        return False
    if model.model_type.startswith("gemma4"):
        return model.param("use_bidirectional_attention", "") == "vision"
    if not d.mm_prefix_nested:
        return False
    return bool(model.param("is_mm_prefix_lm", 0)) or model.model_type in ATTENTION_BACKEND_MM_PREFIX


def largest_item(model: Model, flags: Mapping[str, Any]) -> int:
    """Tokens of the largest item a prefix-LM must take whole (arg_utils.py _get_min_mm_batched_tokens)."""
    if not mm_prefix_lm(model, flags, _ALWAYS) or text_only(model, flags):
        return 0
    return max((m.max_tokens for m in model.modalities), default=0)


def _asked_backend(flags: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    config = flags.get("attention_config")
    config = config if isinstance(config, Mapping) else {}
    return config, str(flags.get("attention_backend") or config.get("backend") or "").upper()


def verify_backend(flags: Mapping[str, Any]) -> None:
    config, backend = _asked_backend(flags)
    if config.get("hisparse_config"):  # v1/hisparse/layout.py (0.30+): sparse layers' caches in host memory
        raise UnknownCache("HiSparse (attention_config.hisparse_config) keeps caches on the host: not known how large")
    if backend and backend not in ENGINE_BACKENDS:
        raise Refused("ValueError", f"Unknown attention backend: {backend!r}.")


def forced_backend(
    model: Model, facts: ModelFacts, flags: Mapping[str, Any], sm: int, kv_dtype: str, d: Defaults
) -> tuple[str, int]:
    """(backend, FlashAttention version) that the user or Gemma4Config sets."""
    config, backend = _asked_backend(flags)
    fa = int(config.get("flash_attn_version") or 0)
    if kv_dtype.startswith("turboquant_") and d.turboquant_fa2:
        fa = 2
    if not model.architecture.startswith("Gemma4") or len(facts.head_sizes) < 2:
        return backend, fa
    if d.gemma4 == "triton":
        return backend or ("TRITON_ATTN" if facts.max_head > 256 else ""), fa
    if d.gemma4 == "fa4":
        if not fa4_supported(sm) or facts.max_head > 512:
            return backend or "TRITON_ATTN", fa
        per_layer = d.gemma4_per_layer_fp8 and sm // 10 == 9 and kv_dtype.startswith("fp8")
        if not fa and backend in ("", "FLASH_ATTN") and not per_layer:
            fa = 4
    return backend, fa


def skipped_layers(model: Model, facts: ModelFacts, flags: Mapping[str, Any], kv_dtype: str) -> tuple[str, ...]:
    given = {str(n) for n in flags.get("kv_cache_dtype_skip_layers") or ()}
    if kv_dtype.startswith("turboquant_") and not facts.is_hybrid:
        n = len(model.layers)
        given |= {str(i) for i in (0, 1, n - 2, n - 1)}  # TurboQuantConfig.get_boundary_skip_layers
    return tuple(sorted(given))
