"""Which attention backend a layer gets on a GPU (platforms/cuda.py get_attn_backend_cls)."""

from __future__ import annotations

from oomph.engines.vllm.backend_checks import reasons
from oomph.engines.vllm.backend_query import Query, fa_version, is_quantized
from oomph.engines.vllm.kv_specs import Refused
from oomph.facts.vllm.attention import Backend
from oomph.facts.vllm.caches import SINKS_NEED_FA3


def order(query: Query) -> tuple[str, ...]:
    """`_get_backend_priorities`."""
    out: list[str] = []
    for name in query.attention.order(mla=query.mla, major=query.major):
        match name:
            case "*sparse10":
                pair = ["FLASHMLA_SPARSE", "FLASHINFER_MLA_SPARSE"]
                fp8_first = is_quantized(query.kv_dtype) and query.attention.fp8_sparse_first
                out += pair[::-1] if fp8_first or 0 < query.num_heads <= 16 else pair
            case "*sparse9":
                tail = ["FLASH_ATTN_MLA_SPARSE", "FLASHMLA_SPARSE"]
                sm90 = ["FLASHINFER_MLA_SPARSE_SM90"]
                out += sm90 + tail if query.head_size == 512 else tail + sm90
            case "*mm9":
                out += ["TRITON_FLASH_ATTN"] if query.mm_prefix and query.major == 9 else []
            case "*mm10":
                out += ["TRITON_FLASHINFER"] if query.mm_prefix else []
            case _:
                out.append(name)
    return tuple(out)


def choose(query: Query, selected: str = "") -> Backend:
    """The first backend that has nothing against the query; raises the engine's refusal where there is none."""
    table = query.attention.backends
    if not query.attention.asks:
        return table[selected if selected in table else _by_platform(query)]
    if selected:
        forced = table.get(selected)
        against = reasons(forced, query) if forced else []
        if forced is None or against:
            raise Refused(
                "ValueError",
                f"Selected backend AttentionBackendEnum.{selected} is not valid for this configuration. "
                f"Reason: {against}",
            )
        return forced
    tried: list[tuple[str, list[str]]] = []
    for name in order(query):
        backend = table[name]
        against = reasons(backend, query)
        if not against:
            return backend
        tried.append((name, against))
    why = ", ".join(f"{name}: [{', '.join(against)}]" for name, against in tried)
    raise Refused(
        "ValueError", f"No valid attention backend found for cuda with {_selector(query)}. Reasons: {{{why}}}."
    )


def _by_platform(query: Query) -> str:
    """platforms/cuda.py:240 get_attn_backend_cls (0.11.0)."""
    if query.mla:
        if query.sparse:
            return "FLASHMLA_SPARSE"
        if query.sm == 100:
            return "CUTLASS_MLA" if query.platform_block == 128 else "FLASHINFER_MLA"
        if query.major != 9:
            return "TRITON_MLA"
        return "FLASHMLA" if query.platform_block == 64 else "FLASH_ATTN_MLA"
    half = query.dtype in ("float16", "bfloat16")
    if query.sm == 100 and half and query.head_size in (64, 128, 256):
        return "FLASHINFER"
    if query.sm < 80:
        return "FLEX_ATTENTION"
    if (query.sink or query.kv_dtype.startswith("fp8")) and query.sm != 90:
        return "TRITON_ATTN"
    return "FLASH_ATTN" if half and query.head_size % 32 == 0 and query.head_size <= 256 else "FLEX_ATTENTION"


def choose_diff_kv(query: Query, rule: str) -> Backend:
    """models/mimo_v2.py: FlashAttention where version 3 or 4 resolves, else (or not at all) Triton."""
    usable = fa_version(query, query.head_size) in (3, 4)
    if rule == "flash" and query.sink and not usable:
        raise Refused("AssertionError", SINKS_NEED_FA3)
    return query.attention.backends["FLASH_ATTN_DIFFKV" if usable or rule == "flash" else "TRITON_ATTN_DIFFKV"]


def _selector(query: Query) -> str:
    values: dict[str, object] = {
        "head_size": query.head_size, "dtype": f"torch.{query.dtype}", "kv_cache_dtype": query.kv_dtype,
        "block_size": query.block_size,
        "use_mla": query.mla, "has_sink": query.sink, "use_sparse": query.sparse, "use_mm_prefix": query.mm_prefix,
        "attn_type": "decoder" if query.attention.types_are_words else "AttentionType.DECODER",
        "has_sliding_window": query.sliding, "use_pcp": query.pcp > 1, "use_dcp": query.dcp > 1,
    }  # fmt: skip
    if query.attention.selector_is_bare:
        values["block_size"] = query.platform_block
        return ", ".join(f"{f}: {values[f]}" for f in query.attention.selector)
    return f"AttentionSelectorConfig({', '.join(f'{f}={values.get(f, False)}' for f in query.attention.selector)})"
