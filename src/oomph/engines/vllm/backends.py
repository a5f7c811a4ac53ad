"""Which attention backend a layer gets on a GPU (platforms/cuda.py get_attn_backend_cls), and its block sizes.

A backend is asked its questions in the engine's order, so that a refusal prints the engine's own reasons.
"""

from __future__ import annotations

from msgspec import Struct

from oomph.engines.vllm.kv_specs import Refused
from oomph.facts.vllm.attention import Backend, backends, kernels, priorities, selector_repr
from oomph.facts.vllm.caches import SINKS_NEED_FA3

QUANTIZED = ("fp8", "nvfp4")


def is_quantized(kv_dtype: str) -> bool:
    """torch_utils.is_quantized_kv_cache."""
    return kv_dtype.startswith(QUANTIZED) or kv_dtype.endswith("per_token_head")


class Query(Struct, frozen=True):
    """AttentionSelectorConfig and what the checks read besides it."""

    version: str
    sm: int
    head_size: int
    dtype: str
    kv_dtype: str
    block_size: int | None = None  # only where the user gave one
    mla: bool = False
    sink: bool = False
    sparse: bool = False
    mm_prefix: bool = False
    sliding: bool = False
    num_heads: int = 0  # a rank's
    num_kv_heads: int = 0
    qk_nope: int = 1
    qk_rope: int = 64
    v_head: int = 0
    kv_lora: int = 512
    topk: int = 0
    dcp: int = 1
    pcp: int = 1
    fa_version: int = 0  # --attention-config.flash_attn_version, or what the model's config class sets
    softcap: bool = False
    attn_type: str = "decoder"
    platform_block: int = 16  # what platforms/cuda.py has set by then (before 0.18)

    @property
    def major(self) -> int:
        return self.sm // 10


def fa4_supported(sm: int) -> bool:
    """flash_attn_interface.py _is_fa4_supported."""
    return sm // 10 in (9, 10, 11)


def fa_version(q: Query, head_size: int | None, *, block_size: int | None = None) -> int:
    """fa_utils.get_flash_attn_version; 0 = none."""
    if q.sm < 80:
        return 0
    version = q.fa_version or (3 if q.major == 9 else 4 if q.major == 10 else 2)
    if q.major >= 10 and version == 3:
        version = 4 if fa4_supported(q.sm) else 2
    if version == 3 and head_size is not None and head_size > 256:
        version = 4
    if version == 4 and q.major >= 10 and head_size is not None:
        hd256 = kernels(q.version).hd256
        if head_size == 256 and hd256:
            return 2 if _hd256_falls_back(q, block_size) else 4
        if head_size > 128 and (head_size != 192 or hd256):
            return 2
    return version if version != 4 or fa4_supported(q.sm) else 0


def _hd256_falls_back(q: Query, block_size: int | None) -> bool:
    """fa_utils._fa4_hd256_fallback_reason (0.29+): the kernel wants 128-token pages and a plain cache."""
    if q.major not in (10, 11):
        return True
    odd_block = block_size is not None and block_size % 128 != 0
    return q.sink or q.softcap or is_quantized(q.kv_dtype) or odd_block or q.mm_prefix or q.dcp > 1


def fa_reads_fp8(q: Query, head_size: int | None) -> bool:
    """flash_attn_supports_kv_cache_dtype (0.27+)."""
    if q.kv_dtype == "fp8_e5m2":
        return False
    version = fa_version(q, head_size, block_size=q.block_size)
    if q.major == 9:
        fa4 = version == 4 and head_size in (None, 512) and kernels(q.version).fp8_hd512
        return version == 3 or fa4
    return version == 4 and q.major == 10


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
        out.append(kernels(q.version).sinks_text)
    if q.sparse != b.sparse:
        out.append("sparse not supported" if q.sparse else "non-sparse not supported")
    if not (b.min_sm <= q.sm <= b.max_sm) or (b.majors and q.major not in b.majors):
        out.append("compute capability not supported")
    if q.attn_type not in b.attn_types:
        enum = selector_repr(q.version).attn_type != "decoder"
        out.append(f"attention type {f'AttentionType.{q.attn_type.upper()}' if enum else q.attn_type} not supported")
    if q.sliding and not b.sliding and kernels(q.version).asks_sliding:
        out.append("sliding window not supported")
    if q.dcp > 1 and not b.dcp and kernels(q.version).asks_dcp:
        out.append("DCP not supported")
    reason = _combination(b, q)
    return [*out, reason] if reason else out


def _takes_head(b: Backend, q: Query) -> bool:
    if b.heads == "32":
        return q.head_size >= 32
    if b.heads == "mla":
        return q.head_size in kernels(q.version).mla_heads
    if b.heads:
        top = 512 if b.heads == "fa" and fa4_supported(q.sm) else 256
        return q.head_size % 8 == 0 and q.head_size <= top
    return not b.head_sizes or q.head_size in b.head_sizes


def _takes_kv_dtype(b: Backend, q: Query) -> bool:
    if q.kv_dtype in ("float16", "bfloat16") and q.kv_dtype not in kernels(q.version).plain:
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
            return f"FlashMLA Sparse is only supported on {kernels(q.version).flashmla_devices} devices."
        case _:
            return ""


def _nope_text(b: Backend, got: int) -> str:
    kernel = "FlashInfer MLA Sparse" if b.sparse else "FlashInfer MLA"
    wanted = f"in {list(b.nope)}" if len(b.nope) > 1 else f"== {b.nope[0]}"
    return f"{kernel} kernel requires qk_nope_head_dim {wanted}, but got {got}"


def _fp8_text(q: Query) -> str:
    if kernels(q.version).fp8_hd512:
        return "FP8 KV cache requires FA3 on SM90, FA4 with head_size=512 on SM90, or FA4 on SM100"
    return "FP8 KV cache requires FA3 on SM90 or FA4 on SM100"


def _flash_attn_combination(b: Backend, q: Query) -> str:
    mm_prefix = q.mm_prefix and b.combination == "fa_mm_prefix"
    if q.sink and q.sm < 90:
        return "sink not supported on compute capability < 9.0"
    if mm_prefix and is_quantized(q.kv_dtype) and q.sm == 90 and kernels(q.version).fp8_hd512:
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


def order(q: Query) -> tuple[str, ...]:
    """`_get_backend_priorities`."""
    out: list[str] = []
    for name in priorities(q.version, q.mla, q.major):
        match name:
            case "*sparse10":
                pair = ["FLASHMLA_SPARSE", "FLASHINFER_MLA_SPARSE"]
                fp8_first = is_quantized(q.kv_dtype) and kernels(q.version).fp8_sparse_first
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
    table = backends(q.version)
    if not kernels(q.version).asks:
        return table[selected if selected in table else _by_platform(q)]
    if selected:
        found = table.get(selected)
        against = reasons(found, q) if found else []
        if found is None or against:
            raise Refused(
                "ValueError",
                f"Selected backend AttentionBackendEnum.{selected} is not valid for this configuration. "
                f"Reason: {against}",
            )
        return found
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
    return backends(q.version)["FLASH_ATTN_DIFFKV" if usable or rule == "flash" else "TRITON_ATTN_DIFFKV"]


def _selector(q: Query) -> str:
    shown = selector_repr(q.version)
    values: dict[str, object] = {
        "head_size": q.head_size, "dtype": f"torch.{q.dtype}", "kv_cache_dtype": q.kv_dtype, "block_size": q.block_size,
        "use_mla": q.mla, "has_sink": q.sink, "use_sparse": q.sparse, "use_mm_prefix": q.mm_prefix,
        "attn_type": shown.attn_type, "has_sliding_window": q.sliding, "use_pcp": q.pcp > 1, "use_dcp": q.dcp > 1,
    }  # fmt: skip
    if shown.bare:
        values["block_size"] = q.platform_block
        return ", ".join(f"{f}: {values[f]}" for f in shown.fields)
    return f"AttentionSelectorConfig({', '.join(f'{f}={values.get(f, False)}' for f in shown.fields)})"


def kernel_blocks(b: Backend, q: Query) -> tuple[int, ...]:
    """get_supported_kernel_block_sizes, multiples by their base."""
    grouped = q.num_kv_heads and q.num_heads // q.num_kv_heads > 1 and q.num_heads % q.num_kv_heads == 0
    if b.name == "FLASHINFER" and q.major == 10 and grouped and kernels(q.version).large_pages:
        return (16, 32, 64, 128, 256, 512, 1024)
    if b.name in ("FLASH_ATTN", "TRITON_FLASH_ATTN"):
        special = _fa_page(q)
        if special:
            return (special,)
    return b.blocks


def _fa_page(q: Query) -> int:
    """Kernels that read whole pages: 64 tokens for fp8 and heads of 512 on SM90, 128 for heads of 256 on SM100."""
    k = kernels(q.version)
    if k.fp8_hd512 and q.major == 9 and q.head_size == 512 and q.kv_dtype in ("fp8", "fp8_e4m3"):
        return 64 if fa_version(q, 512) == 4 else 0
    if k.hd256 and q.major in (10, 11) and q.head_size == 256:
        return 128 if fa_version(q, 256, block_size=q.block_size) == 4 else 0
    return 0


def preferred_block(b: Backend, q: Query, default: int = 16) -> int:
    """get_preferred_block_size: the default where the kernel takes it, else its smallest."""
    sizes = kernel_blocks(b, q)
    return default if any(default % s == 0 for s in sizes) else min(sizes)
