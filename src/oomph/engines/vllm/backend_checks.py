"""Why a backend does not take a layer, in the engine's words and order (v1/attention/backend.py)."""

from __future__ import annotations

from oomph.engines.vllm.backend_query import Query, fa4_supported, fa_reads_fp8, fa_version, is_quantized, kernel_blocks
from oomph.facts.vllm.attention import Backend


def reasons(b: Backend, q: Query) -> list[str]:
    """`validate_configuration`: why not, in the engine's words and order."""
    out: list[str] = []
    if not _takes_head(b, q):
        out.append("head_size not supported")
    if q.dtype not in b.dtypes:
        out.append("dtype not supported")
    if not _takes_kv_dtype(b, q):
        out.append("kv_cache_dtype not supported")
    if q.block_size is not None and not any(q.block_size % s == 0 for s in kernel_blocks(b, q)):
        out.append("block_size not supported")
    if q.mm_prefix and not (b.mm_prefix == "always" or (b.mm_prefix == "fa4" and fa4_supported(q.sm))):
        out.append("partial multimodal token full attention not supported")
    if q.mla != b.mla:
        out.append("MLA not supported" if q.mla else "non-MLA not supported")
    if q.sink and not _takes_sinks(b, q):
        out.append(q.attention.sinks_refused)
    if q.sparse != b.sparse:
        out.append("sparse not supported" if q.sparse else "non-sparse not supported")
    if not (b.min_sm <= q.sm <= b.max_sm) or (b.majors and q.major not in b.majors):
        out.append("compute capability not supported")
    if q.attn_type not in b.attn_types:
        kind = q.attn_type if q.attention.types_are_words else f"AttentionType.{q.attn_type.upper()}"
        out.append(f"attention type {kind} not supported")
    if q.sliding and not b.sliding and q.attention.asks_sliding:
        out.append("sliding window not supported")
    if q.pcp > 1 and not b.mla and q.attention.asks_sliding:  # both questions came with 0.26
        out.append("PCP not supported")
    if q.dcp > 1 and not b.dcp and q.attention.asks_dcp:
        out.append("DCP not supported")
    reason = _combination(b, q)
    return [*out, reason] if reason else out


def _takes_head(b: Backend, q: Query) -> bool:
    if b.heads == "32":
        return q.head_size >= 32
    if b.heads == "mla":
        return q.head_size in q.attention.mla_heads
    if b.heads:
        top = 512 if b.heads == "fa" and fa4_supported(q.sm) else 256
        return q.head_size % 8 == 0 and q.head_size <= top
    return not b.head_sizes or q.head_size in b.head_sizes


def _takes_kv_dtype(b: Backend, q: Query) -> bool:
    if q.kv_dtype in ("float16", "bfloat16") and q.kv_dtype not in q.attention.plain:
        return False
    if q.kv_dtype.startswith("nvfp4") and b.nvfp4 != "any" and q.major != 10:
        # flashinfer.py:109 (0.32.0) _nvfp4_kv_on_fa2
        return b.nvfp4 == "fa2" and q.major in (8, 9, 12) and q.kv_dtype == "nvfp4"
    if b.fp8 and is_quantized(q.kv_dtype):
        if b.fp8.startswith("fa3"):
            reads = b.fp8 == "fa3_any" or q.kv_dtype in ("fp8", "fp8_e4m3")
            return reads and q.major == 9 and fa_version(q, None) == 3
        return q.kv_dtype in b.kv_dtypes and fa_reads_fp8(q, None)
    return q.kv_dtype in b.kv_dtypes


def _takes_sinks(b: Backend, q: Query) -> bool:
    match b.sinks:
        case "always":
            return True
        case "fa":
            return fa_version(q, None) in (3, 4)
        case "trtllm":
            return q.major == 10
        case "trtllm_sm12":
            return q.major in (10, 12)
        case "trtllm_or_xqa":
            return q.major in (10, 12) or q.sm == 90
        case _:
            return False


def _combination(b: Backend, q: Query) -> str:
    match b.combination:
        case "sink_sm90" | "fa_mm_prefix" | "triton_fa":
            return _flash_attn_combination(b, q)
        case "fi_nvfp4" if q.kv_dtype.startswith("nvfp4") and q.major in (8, 9, 12):
            if q.head_size == 64:
                return "fa2 prefill misreads an NVFP4 KV cache at head_size 64"
            return "the sink prefill wrapper cannot read an NVFP4 KV cache" if q.sink else ""
        case "nope_sm10" if q.kv_dtype == "fp8_ds_mla":
            return "FLASHINFER_MLA_SPARSE SM10 does not support fp8_ds_mla kv-cache dtype"
        case "nope" | "nope_sm10" if q.qk_nope not in b.nope and (q.qk_rope or b.combination == "nope"):
            return _nope_text(b, q.qk_nope)
        case "nope" | "nope_sm10" if b.sparse and not q.topk:
            return "FlashInfer MLA Sparse requires model with index_topk config"
        case "tokenspeed" if (q.qk_nope, q.qk_rope, q.v_head) != (128, 64, 128):
            return (
                "tokenspeed_mla requires DeepSeek R1 MLA dimensions (qk_nope_head_dim=128, qk_rope_head_dim=64, "
                f"v_head_dim=128), got {(q.qk_nope, q.qk_rope, q.v_head)}"
            )
        case "topk_2048" if not _takes_kv_dtype(b, q):
            return "kv_cache_dtype not supported"
        case "topk_2048" if not q.topk:
            return "FLASHINFER_MLA_SPARSE_SM120 requires a model with index_topk config"
        case "topk_2048" if q.topk != 2048:
            return f"FLASHINFER_MLA_SPARSE_SM120 requires index_topk=2048; got {q.topk}"
        case "fa_mla_sparse" if q.kv_dtype not in ("auto", "float16", "bfloat16"):
            return "FlashAttention MLA Sparse currently supports only FP16/BF16 KV cache"
        case "fa_mla_sparse" if q.major != 9:
            return "FlashAttention MLA not supported on this device"
        case "fa_mla_sparse" if q.dcp > 1:
            return "FlashAttention MLA Sparse does not support DCP for now"
        case "lora_512" if not q.sparse:
            return "FLASHINFER_MLA_SPARSE_SM90 requires sparse MLA"
        case "lora_512" if q.kv_lora != 512:
            return "FLASHINFER_MLA_SPARSE_SM90 requires kv_lora_rank=512"
        case "flashmla_sparse" if q.head_size == 512 and 512 in b.head_sizes and (q.major != 9 or q.qk_rope):
            return "FLASHMLA_SPARSE supports head_size 512 only for rope-free (NoPE) models"
        case "flashmla_sparse" if q.kv_dtype == "nvfp4_ds_mla" and q.major != 10:
            return "FLASHMLA_SPARSE only supports the nvfp4_ds_mla kv-cache dtype on SM100 (Blackwell)"
        case "fa_mla" if q.major != 9:
            return "FlashAttention MLA not supported on this device"
        case "flashmla" if not q.sparse and q.major != 9:
            return "FlashMLA Dense is only supported on Hopper devices."
        case "flashmla" if q.sparse and q.major not in (9, 10):
            return f"FlashMLA Sparse is only supported on {q.attention.flashmla_devices} devices."
        case _:
            return ""


def _nope_text(b: Backend, got: int) -> str:
    kernel = "FlashInfer MLA Sparse" if b.sparse else "FlashInfer MLA"
    wanted = f"in {list(b.nope)}" if len(b.nope) > 1 else f"== {b.nope[0]}"
    return f"{kernel} kernel requires qk_nope_head_dim {wanted}, but got {got}"


def _fp8_text(q: Query) -> str:
    if q.attention.fp8_hd512:
        return "FP8 KV cache requires FA3 on SM90, FA4 with head_size=512 on SM90, or FA4 on SM100"
    return "FP8 KV cache requires FA3 on SM90 or FA4 on SM100"


def _flash_attn_combination(b: Backend, q: Query) -> str:
    mm_prefix = q.mm_prefix and b.combination == "fa_mm_prefix"
    if q.sink and q.sm < 90:
        return "sink not supported on compute capability < 9.0"
    if mm_prefix and is_quantized(q.kv_dtype) and q.sm == 90 and q.attention.fp8_hd512:
        return "SM90 FP8 KV with mm_prefix requires Triton"
    if b.fp8 == "fa" and is_quantized(q.kv_dtype) and not fa_reads_fp8(q, q.head_size):
        return _fp8_text(q)
    version = fa_version(q, q.head_size, block_size=q.block_size)
    if mm_prefix and version != 4:
        return (
            "mm_prefix (PrefixLM bidirectional attention) requires FlashAttention v4, which does not resolve for "
            "this head_size"
        )
    if b.combination == "triton_fa":
        if is_quantized(q.kv_dtype) and not fa_reads_fp8(q, q.head_size):
            return _fp8_text(q)
        if version not in (3, 4):
            return "causal route requires FlashAttention v3 or v4"
    return ""
