"""Which attention backend a layer gets on a GPU (platforms/cuda.py get_attn_backend_cls)."""

from __future__ import annotations

from oomph.engines.vllm.backend_checks import reasons
from oomph.engines.vllm.backend_query import Query, fa_version, is_quantized
from oomph.engines.vllm.kv_specs import Refused
from oomph.facts.vllm.attention import Backend
from oomph.facts.vllm.caches import SINKS_NEED_FA3


def order(q: Query) -> tuple[str, ...]:
    """`_get_backend_priorities`."""
    out: list[str] = []
    for name in q.attention.order(mla=q.mla, major=q.major):
        match name:
            case "*sparse10":
                pair = ["FLASHMLA_SPARSE", "FLASHINFER_MLA_SPARSE"]
                fp8_first = is_quantized(q.kv_dtype) and q.attention.fp8_sparse_first
                out += pair[::-1] if fp8_first or 0 < q.num_heads <= 16 else pair
            case "*sparse9":
                tail = ["FLASH_ATTN_MLA_SPARSE", "FLASHMLA_SPARSE"]
                sm90 = ["FLASHINFER_MLA_SPARSE_SM90"]
                out += sm90 + tail if q.head_size == 512 else tail + sm90
            case "*mm9":
                out += ["TRITON_FLASH_ATTN"] if q.mm_prefix and q.major == 9 else []
            case "*mm10":
                out += ["TRITON_FLASHINFER"] if q.mm_prefix else []
            case _:
                out.append(name)
    return tuple(out)


def choose(q: Query, selected: str = "") -> Backend:
    """The first backend that has nothing against the query; raises the engine's refusal where there is none."""
    table = q.attention.backends
    if not q.attention.asks:
        return table[selected if selected in table else _by_platform(q)]
    if selected:
        forced = table.get(selected)
        against = reasons(forced, q) if forced else []
        if forced is None or against:
            raise Refused(
                "ValueError",
                f"Selected backend AttentionBackendEnum.{selected} is not valid for this configuration. "
                f"Reason: {against}",
            )
        return forced
    tried: list[tuple[str, list[str]]] = []
    for name in order(q):
        b = table[name]
        against = reasons(b, q)
        if not against:
            return b
        tried.append((name, against))
    why = ", ".join(f"{name}: [{', '.join(against)}]" for name, against in tried)
    raise Refused("ValueError", f"No valid attention backend found for cuda with {_selector(q)}. Reasons: {{{why}}}.")


def _by_platform(q: Query) -> str:
    """platforms/cuda.py:240 get_attn_backend_cls (0.11.0)."""
    if q.mla:
        if q.sparse:
            return "FLASHMLA_SPARSE"
        if q.sm == 100:
            return "CUTLASS_MLA" if q.platform_block == 128 else "FLASHINFER_MLA"
        if q.major != 9:
            return "TRITON_MLA"
        return "FLASHMLA" if q.platform_block == 64 else "FLASH_ATTN_MLA"
    half = q.dtype in ("float16", "bfloat16")
    if q.sm == 100 and half and q.head_size in (64, 128, 256):
        return "FLASHINFER"
    if q.sm < 80:
        return "FLEX_ATTENTION"
    if (q.sink or q.kv_dtype.startswith("fp8")) and q.sm != 90:
        return "TRITON_ATTN"
    return "FLASH_ATTN" if half and q.head_size % 32 == 0 and q.head_size <= 256 else "FLEX_ATTENTION"


def choose_diff_kv(q: Query, rule: str) -> Backend:
    """models/mimo_v2.py: FlashAttention where version 3 or 4 resolves, else (or not at all) Triton."""
    usable = fa_version(q, q.head_size) in (3, 4)
    if rule == "flash" and q.sink and not usable:
        raise Refused("AssertionError", SINKS_NEED_FA3)
    return q.attention.backends["FLASH_ATTN_DIFFKV" if usable or rule == "flash" else "TRITON_ATTN_DIFFKV"]


def _selector(q: Query) -> str:
    values: dict[str, object] = {
        "head_size": q.head_size, "dtype": f"torch.{q.dtype}", "kv_cache_dtype": q.kv_dtype, "block_size": q.block_size,
        "use_mla": q.mla, "has_sink": q.sink, "use_sparse": q.sparse, "use_mm_prefix": q.mm_prefix,
        "attn_type": "decoder" if q.attention.types_are_words else "AttentionType.DECODER",
        "has_sliding_window": q.sliding, "use_pcp": q.pcp > 1, "use_dcp": q.dcp > 1,
    }  # fmt: skip
    if q.attention.selector_is_bare:
        values["block_size"] = q.platform_block
        return ", ".join(f"{f}: {values[f]}" for f in q.attention.selector)
    return f"AttentionSelectorConfig({', '.join(f'{f}={values.get(f, False)}' for f in q.attention.selector)})"
