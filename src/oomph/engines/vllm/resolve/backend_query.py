"""What an attention layer asks of a backend, and which FlashAttention and pages a GPU has for it (fa_utils.py)."""

from msgspec import Struct

from oomph.facts.vllm.attention import AttentionFacts, Backend

QUANTIZED = ("fp8", "nvfp4")


def is_quantized(kv_dtype: str) -> bool:
    """torch_utils.is_quantized_kv_cache."""
    return kv_dtype.startswith(QUANTIZED) or kv_dtype.endswith("per_token_head")


class Query(Struct, frozen=True):
    """AttentionSelectorConfig and what the checks read besides it."""

    attention: AttentionFacts
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


def fa_version(query: Query, head_size: int | None, *, block_size: int | None = None) -> int:
    """fa_utils.get_flash_attn_version; 0 = none."""
    if query.sm < 80:
        return 0
    fa = query.fa_version or (3 if query.major == 9 else 4 if query.major == 10 else 2)
    if query.major >= 10 and fa == 3:
        fa = 4 if fa4_supported(query.sm) else 2
    if fa == 3 and head_size is not None and head_size > 256:
        fa = 4
    if fa == 4 and query.major >= 10 and head_size is not None:
        hd256 = query.attention.hd256
        if head_size == 256 and hd256:
            return 2 if _hd256_falls_back(query, block_size) else 4
        if head_size > 128 and (head_size != 192 or hd256):
            return 2
    return fa if fa != 4 or fa4_supported(query.sm) else 0


def _hd256_falls_back(query: Query, block_size: int | None) -> bool:
    """fa_utils._fa4_hd256_fallback_reason (0.29+): the kernel wants 128-token pages and a plain cache."""
    if query.major not in (10, 11):
        return True
    odd_block = block_size is not None and block_size % 128 != 0
    return query.sink or query.softcap or is_quantized(query.kv_dtype) or odd_block or query.mm_prefix or query.dcp > 1


def fa_reads_fp8(query: Query, head_size: int | None) -> bool:
    """flash_attn_supports_kv_cache_dtype (0.27+)."""
    if query.kv_dtype == "fp8_e5m2":
        return False
    version = fa_version(query, head_size, block_size=query.block_size)
    if query.major == 9:
        fa4 = version == 4 and head_size in (None, 512) and query.attention.fp8_hd512
        return version == 3 or fa4
    return version == 4 and query.major == 10


def kernel_blocks(backend: Backend, query: Query) -> tuple[int, ...]:
    """get_supported_kernel_block_sizes, multiples by their base."""
    grouped = (
        query.num_kv_heads and query.num_heads // query.num_kv_heads > 1 and query.num_heads % query.num_kv_heads == 0
    )
    if backend.name == "FLASHINFER" and query.major == 10 and grouped and query.attention.large_pages:
        return (16, 32, 64, 128, 256, 512, 1024)
    if backend.name in ("FLASH_ATTN", "TRITON_FLASH_ATTN"):
        special = _fa_page(query)
        if special:
            return (special,)
    return backend.blocks


def _fa_page(query: Query) -> int:
    """Kernels that read whole pages: 64 tokens for fp8 and heads of 512 on SM90, 128 for heads of 256 on SM100."""
    k = query.attention
    if k.fp8_hd512 and query.major == 9 and query.head_size == 512 and query.kv_dtype in ("fp8", "fp8_e4m3"):
        return 64 if fa_version(query, 512) == 4 else 0
    if k.hd256 and query.major in (10, 11) and query.head_size == 256:
        return 128 if fa_version(query, 256, block_size=query.block_size) == 4 else 0
    return 0


_USUAL_BLOCK = 16


def preferred_block(backend: Backend, query: Query) -> int:
    """get_preferred_block_size: the default where the kernel takes it, else its smallest."""
    sizes = kernel_blocks(backend, query)
    return _USUAL_BLOCK if any(_USUAL_BLOCK % size == 0 for size in sizes) else min(sizes)
