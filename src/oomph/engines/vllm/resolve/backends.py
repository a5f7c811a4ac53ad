"""Which attention backend a layer gets on a GPU (platforms/cuda.py get_attn_backend_cls)."""

from oomph.engines.vllm.kv.specs import Refused
from oomph.engines.vllm.resolve.backend_query import (
    Query,
    fa4_supported,
    fa_reads_fp8,
    fa_version,
    is_quantized,
    kernel_blocks,
)
from oomph.facts.vllm.attention import Backend
from oomph.facts.vllm.caches import SINKS_NEED_FA3
from oomph.text.tables import all_that_hold


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


# Why a backend does not take a layer, in the engine's words and order (v1/attention/backend.py).


def reasons(backend: Backend, query: Query) -> list[str]:
    """`validate_configuration`: why not, in the engine's words and order."""
    other_card = not backend.min_sm <= query.sm <= backend.max_sm
    kind = query.attn_type if query.attention.types_are_words else f"AttentionType.{query.attn_type.upper()}"
    asks_sliding = query.attention.asks_sliding  # 0.26 began to ask for windows and for PCP
    combination = _combination(backend, query)
    return all_that_hold(
        (not _takes_head(backend, query), "head_size not supported"),
        (query.dtype not in backend.dtypes, "dtype not supported"),
        (not _takes_kv_dtype(backend, query), "kv_cache_dtype not supported"),
        (not _takes_block(backend, query), "block_size not supported"),
        (not _takes_mm_prefix(backend, query), "partial multimodal token full attention not supported"),
        (query.mla != backend.mla, "MLA not supported" if query.mla else "non-MLA not supported"),
        (query.sink and not _takes_sinks(backend, query), query.attention.sinks_refused),
        (query.sparse != backend.sparse, "sparse not supported" if query.sparse else "non-sparse not supported"),
        (other_card or (backend.majors and query.major not in backend.majors), "compute capability not supported"),
        (query.attn_type not in backend.attn_types, f"attention type {kind} not supported"),
        (query.sliding and not backend.sliding and asks_sliding, "sliding window not supported"),
        (query.pcp > 1 and not backend.mla and asks_sliding, "PCP not supported"),
        (query.dcp > 1 and not backend.dcp and query.attention.asks_dcp, "DCP not supported"),
        (combination, combination),
    )


def _takes_block(backend: Backend, query: Query) -> bool:
    block = query.block_size
    return block is None or any(block % size == 0 for size in kernel_blocks(backend, query))


def _takes_mm_prefix(backend: Backend, query: Query) -> bool:
    always = backend.mm_prefix == "always" or (backend.mm_prefix == "fa4" and fa4_supported(query.sm))
    return always or not query.mm_prefix


def _takes_head(backend: Backend, query: Query) -> bool:
    if backend.heads == "32":
        return query.head_size >= 32
    if backend.heads == "mla":
        return query.head_size in query.attention.mla_heads
    if backend.heads:
        top = 512 if backend.heads == "fa" and fa4_supported(query.sm) else 256
        return query.head_size % 8 == 0 and query.head_size <= top
    return not backend.head_sizes or query.head_size in backend.head_sizes


def _takes_kv_dtype(backend: Backend, query: Query) -> bool:
    if query.kv_dtype in ("float16", "bfloat16") and query.kv_dtype not in query.attention.plain:
        return False
    if query.kv_dtype.startswith("nvfp4") and backend.nvfp4 != "any" and query.major != 10:
        # flashinfer.py:109 (0.32.0) _nvfp4_kv_on_fa2
        return backend.nvfp4 == "fa2" and query.major in (8, 9, 12) and query.kv_dtype == "nvfp4"
    if backend.fp8 and is_quantized(query.kv_dtype):
        if backend.fp8.startswith("fa3"):
            reads = backend.fp8 == "fa3_any" or query.kv_dtype in ("fp8", "fp8_e4m3")
            return reads and query.major == 9 and fa_version(query, None) == 3
        return query.kv_dtype in backend.kv_dtypes and fa_reads_fp8(query, None)
    return query.kv_dtype in backend.kv_dtypes


def _takes_sinks(backend: Backend, query: Query) -> bool:
    match backend.sinks:
        case "always":
            return True
        case "fa":
            return fa_version(query, None) in (3, 4)
        case "trtllm":
            return query.major == 10
        case "trtllm_sm12":
            return query.major in (10, 12)
        case "trtllm_or_xqa":
            return query.major in (10, 12) or query.sm == 90
        case _:
            return False


def _combination(backend: Backend, query: Query) -> str:
    match backend.combination:
        case "sink_sm90" | "fa_mm_prefix" | "triton_fa":
            return _flash_attn_combination(backend, query)
        case "fi_nvfp4" if query.kv_dtype.startswith("nvfp4") and query.major in (8, 9, 12):
            if query.head_size == 64:
                return "fa2 prefill misreads an NVFP4 KV cache at head_size 64"
            return "the sink prefill wrapper cannot read an NVFP4 KV cache" if query.sink else ""
        case "nope_sm10" if query.kv_dtype == "fp8_ds_mla":
            return "FLASHINFER_MLA_SPARSE SM10 does not support fp8_ds_mla kv-cache dtype"
        case "nope" | "nope_sm10" if query.qk_nope not in backend.nope and (
            query.qk_rope or backend.combination == "nope"
        ):
            return _nope_text(backend, query.qk_nope)
        case "nope" | "nope_sm10" if backend.sparse and not query.topk:
            return "FlashInfer MLA Sparse requires model with index_topk config"
        case "tokenspeed" if (query.qk_nope, query.qk_rope, query.v_head) != (128, 64, 128):
            return (
                "tokenspeed_mla requires DeepSeek R1 MLA dimensions (qk_nope_head_dim=128, qk_rope_head_dim=64, "
                f"v_head_dim=128), got {(query.qk_nope, query.qk_rope, query.v_head)}"
            )
        case "topk_2048" if not _takes_kv_dtype(backend, query):
            return "kv_cache_dtype not supported"
        case "topk_2048" if not query.topk:
            return "FLASHINFER_MLA_SPARSE_SM120 requires a model with index_topk config"
        case "topk_2048" if query.topk != 2048:
            return f"FLASHINFER_MLA_SPARSE_SM120 requires index_topk=2048; got {query.topk}"
        case "fa_mla_sparse" if query.kv_dtype not in ("auto", "float16", "bfloat16"):
            return "FlashAttention MLA Sparse currently supports only FP16/BF16 KV cache"
        case "fa_mla_sparse" if query.major != 9:
            return "FlashAttention MLA not supported on this device"
        case "fa_mla_sparse" if query.dcp > 1:
            return "FlashAttention MLA Sparse does not support DCP for now"
        case "lora_512" if not query.sparse:
            return "FLASHINFER_MLA_SPARSE_SM90 requires sparse MLA"
        case "lora_512" if query.kv_lora != 512:
            return "FLASHINFER_MLA_SPARSE_SM90 requires kv_lora_rank=512"
        case "flashmla_sparse" if (
            query.head_size == 512 and 512 in backend.head_sizes and (query.major != 9 or query.qk_rope)
        ):
            return "FLASHMLA_SPARSE supports head_size 512 only for rope-free (NoPE) models"
        case "flashmla_sparse" if query.kv_dtype == "nvfp4_ds_mla" and query.major != 10:
            return "FLASHMLA_SPARSE only supports the nvfp4_ds_mla kv-cache dtype on SM100 (Blackwell)"
        case "fa_mla" if query.major != 9:
            return "FlashAttention MLA not supported on this device"
        case "flashmla" if not query.sparse and query.major != 9:
            return "FlashMLA Dense is only supported on Hopper devices."
        case "flashmla" if query.sparse and query.major not in (9, 10):
            return f"FlashMLA Sparse is only supported on {query.attention.flashmla_devices} devices."
        case _:
            return ""


def _nope_text(backend: Backend, got: int) -> str:
    kernel = "FlashInfer MLA Sparse" if backend.sparse else "FlashInfer MLA"
    wanted = f"in {list(backend.nope)}" if len(backend.nope) > 1 else f"== {backend.nope[0]}"
    return f"{kernel} kernel requires qk_nope_head_dim {wanted}, but got {got}"


def _fp8_text(query: Query) -> str:
    if query.attention.fp8_hd512:
        return "FP8 KV cache requires FA3 on SM90, FA4 with head_size=512 on SM90, or FA4 on SM100"
    return "FP8 KV cache requires FA3 on SM90 or FA4 on SM100"


def _flash_attn_combination(backend: Backend, query: Query) -> str:
    mm_prefix = query.mm_prefix and backend.combination == "fa_mm_prefix"
    if query.sink and query.sm < 90:
        return "sink not supported on compute capability < 9.0"
    if mm_prefix and is_quantized(query.kv_dtype) and query.sm == 90 and query.attention.fp8_hd512:
        return "SM90 FP8 KV with mm_prefix requires Triton"
    if backend.fp8 == "fa" and is_quantized(query.kv_dtype) and not fa_reads_fp8(query, query.head_size):
        return _fp8_text(query)
    version = fa_version(query, query.head_size, block_size=query.block_size)
    if mm_prefix and version != 4:
        return (
            "mm_prefix (PrefixLM bidirectional attention) requires FlashAttention v4, which does not resolve for "
            "this head_size"
        )
    if backend.combination == "triton_fa":
        if is_quantized(query.kv_dtype) and not fa_reads_fp8(query, query.head_size):
            return _fp8_text(query)
        if version not in (3, 4):
            return "causal route requires FlashAttention v3 or v4"
    return ""
