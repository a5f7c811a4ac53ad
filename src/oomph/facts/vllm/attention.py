"""Attention backends: what each accepts, in which order the CUDA platform asks them, their kernels' block sizes.

From v1/attention/backends/*.py and platforms/cuda.py `_get_backend_priorities`. Before 0.18 the block size came from
platforms/cuda.py alone, whatever backend was chosen later.
"""

from typing import Any, Literal

from msgspec import Struct

from oomph.facts.changes import Dated, Facts, changes, evolving, since, table, until

_PLAIN = ("auto", "float16", "bfloat16")
_FP8 = ("fp8", "fp8_e4m3")
_HALF = ("float16", "bfloat16")


class Backend(Struct, frozen=True, kw_only=True):
    name: str
    majors: tuple[int, ...] = ()  # compute capability majors; () = all
    min_sm: int = 0
    max_sm: int = 999
    dtypes: tuple[str, ...] = _HALF
    kv_dtypes: tuple[str, ...] = _PLAIN
    head_sizes: tuple[int, ...] = ()  # () = no list
    # fa: multiple of 8 up to 256, with FA4 up to 512; fa2: without FA4; 32: at least 32; mla: AttentionFacts.mla_heads
    heads: Literal["", "fa", "fa2", "32", "mla"] = ""
    # fp8 KV only where a FlashAttention version that reads it resolves
    fp8: Literal["", "fa3_any", "fa3", "fa"] = ""
    # nvfp4 KV: wherever it is listed; on SM100 only; on SM100, or through FlashAttention 2 on SM8x, SM90 and SM12x
    nvfp4: Literal["any", "sm100", "fa2"] = "any"
    sinks: Literal["never", "always", "fa", "trtllm", "trtllm_sm12", "trtllm_or_xqa"] = "never"
    mm_prefix: Literal["never", "always", "fa4"] = "never"
    mla: bool = False
    sparse: bool = False
    blocks: tuple[int, ...] = (16,)  # kernel block sizes
    multiple: bool = True  # any multiple of them
    nope: tuple[int, ...] = ()  # MLA: qk_nope_head_dim that the kernel has
    dcp: bool = True  # asked since 0.30 (AttentionImpl.supports_dcp)
    sliding: bool = True  # asked since 0.26 (supports_sliding_window)
    combination: str = ""  # a check that needs more than one fact: a name in engines/vllm/resolve/backends.py
    attn_types: tuple[str, ...] = ("decoder",)


_ANY_TYPE = ("decoder", "encoder", "encoder_only", "encoder_decoder")
_HEADS = (64, 128, 256, 512)
_FLOATS = ("float16", "bfloat16", "float32")
_ALL_FP8 = (*_PLAIN, "fp8", "fp8_e4m3", "fp8_e5m2")
_SPARSE_KV = ("auto", "bfloat16", "fp8_ds_mla")


def _backend(name: str, **fields: Any) -> dict[str, Dated[Backend | None]]:
    return {name: evolving(Backend, name=name, **fields)}


BACKENDS: dict[str, Dated[Backend | None]] = {
    # FlashAttention: FA4's larger heads since 0.20; every KV dtype was asked of FA3 until 0.27 listed them.
    **_backend(
        "FLASH_ATTN",
        min_sm=80,
        kv_dtypes=(*_PLAIN, *_FP8),
        sinks="fa",
        attn_types=_ANY_TYPE,
        heads=changes("fa2", ("0.20.0", "fa")),
        fp8=changes("fa3_any", ("0.22.0", "fa3"), ("0.27.0", "fa")),
        mm_prefix=changes("never", ("0.24.0", "fa4")),
        combination=changes("sink_sm90", ("0.24.0", "fa_mm_prefix")),
    ),
    **_backend(
        "FLASHINFER",
        min_sm=changes(75, ("0.24.0", 80)),
        max_sm=121,
        head_sizes=changes((64, 128, 256), ("0.22.0", _HEADS)),
        kv_dtypes=changes(_ALL_FP8, ("0.21.0", (*_ALL_FP8, "nvfp4")), ("0.28.0", (*_ALL_FP8, "nvfp4", "nvfp4_4over6"))),
        nvfp4=changes("any", ("0.25.0", "sm100"), ("0.32.0", "fa2")),
        sinks=changes("trtllm", ("0.28.0", "trtllm_sm12"), ("0.30.0", "trtllm_or_xqa")),
        blocks=(16, 32, 64),
        multiple=False,
        combination=changes("", ("0.32.0", "fi_nvfp4")),
    ),
    **_backend(
        "TRITON_ATTN",
        dtypes=_FLOATS,
        kv_dtypes=changes(
            _ALL_FP8,
            ("0.20.0", (*_ALL_FP8, "int8_per_token_head", "fp8_per_token_head")),
            ("0.25.0", (*_ALL_FP8, "int4_per_token_head", "int8_per_token_head", "fp8_per_token_head")),
        ),
        heads="32",
        sinks="always",
        mm_prefix="always",
        dcp=False,
        attn_types=changes(("decoder",), ("0.14.0", _ANY_TYPE)),
    ),
    **_backend(
        "FLEX_ATTENTION",
        dtypes=_FLOATS,
        mm_prefix="always",
        blocks=changes((1,), ("0.21.0", (16,))),
        dcp=False,
        attn_types=("decoder", "encoder_only"),
    ),
    **_backend(
        "TURBOQUANT",
        since="0.20.0",
        kv_dtypes=("turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc"),
        blocks=(16, 32, 64, 128),
        multiple=False,
        dcp=False,
        sliding=False,
    ),
    # Chosen by the layer, not by the platform (models/mimo_v2.py).
    **_backend("FLASH_ATTN_DIFFKV", since="0.20.0"),
    **_backend("TRITON_ATTN_DIFFKV", since="0.24.0"),
    # Image masks through Triton, the rest through the faster kernel (v1/attention/backends/composite.py).
    **_backend(
        "TRITON_FLASH_ATTN",
        since="0.30.0",
        majors=(9,),
        head_sizes=(256, 512),
        kv_dtypes=(*_PLAIN, *_FP8),
        mm_prefix="always",
        dcp=False,
        combination="triton_fa",
    ),
    **_backend(
        "TRITON_FLASHINFER",
        since="0.30.0",
        majors=(10,),
        head_sizes=(256, 512),
        kv_dtypes=(*_PLAIN, *_FP8),
        mm_prefix="always",
        blocks=(64,),
        multiple=False,
        dcp=False,
    ),
    **_backend("FLASH_ATTN_MLA", mla=True, majors=(9,), heads="mla", combination="fa_mla"),
    **_backend(
        "FLASHMLA",
        mla=True,
        majors=(9, 10),
        heads="mla",
        kv_dtypes=(*_PLAIN, *_FP8),
        blocks=(64,),
        multiple=False,
        combination="flashmla",
    ),
    **_backend(
        "FLASHINFER_MLA",
        mla=True,
        majors=(10,),
        heads="mla",
        kv_dtypes=(*_PLAIN, *_FP8),
        blocks=(32, 64),
        multiple=False,
        combination=changes("", ("0.15.0", "nope")),
        nope=changes((), ("0.15.0", (128,)), ("0.18.0", (64, 128)), ("0.19.0", (64, 128, 192))),
    ),
    **_backend(
        "TOKENSPEED_MLA",
        since="0.21.0",
        mla=True,
        majors=(10,),
        heads="mla",
        kv_dtypes=_FP8,
        blocks=(32, 64),
        multiple=False,
        combination="tokenspeed",
    ),
    **_backend(
        "CUTLASS_MLA",
        mla=True,
        majors=(10,),
        heads="mla",
        kv_dtypes=(*_PLAIN, *_FP8),
        blocks=(128,),
        multiple=False,
    ),
    **_backend(
        "TRITON_MLA",
        mla=True,
        heads=changes("mla", ("0.18.0", "")),
        kv_dtypes=changes(_PLAIN, ("0.18.0", (*_PLAIN, *_FP8))),
        blocks=changes((1,), ("0.18.0", (16,))),
    ),
    **_backend(
        "FLASHMLA_SPARSE",
        mla=True,
        sparse=True,
        majors=(9, 10),
        dtypes=("bfloat16",),
        head_sizes=changes((576,), ("0.20.0", (512, 576)), ("0.22.0", (576,)), ("0.31.0", (576, 512))),
        kv_dtypes=changes(
            _SPARSE_KV, ("0.18.0", (*_SPARSE_KV, "fp8")), ("0.30.0", (*_SPARSE_KV, "fp8", "nvfp4_ds_mla"))
        ),
        blocks=(64,),
        multiple=since("0.31.0"),
        combination=changes("", ("0.30.0", "flashmla_sparse")),
    ),
    **_backend(
        "FLASHINFER_MLA_SPARSE",
        since="0.17.0",
        mla=True,
        sparse=True,
        majors=(10,),
        head_sizes=changes((576,), ("0.24.0", (512, 576))),
        kv_dtypes=changes(_PLAIN, ("0.18.0", (*_PLAIN, *_FP8))),
        blocks=changes((32, 64), ("0.32.0", (32,))),
        multiple=since("0.32.0"),
        combination=changes("nope", ("0.24.0", "nope_sm10")),
        nope=changes((128,), ("0.19.0", (128, 192))),
    ),
    **_backend(
        "FLASHINFER_MLA_SPARSE_SM120",
        since="0.24.0",
        mla=True,
        sparse=True,
        majors=(12,),
        dtypes=("bfloat16",),
        head_sizes=(512, 576),
        kv_dtypes=("auto", "fp8", "fp8_e4m3", "fp8_ds_mla"),
        blocks=(64,),
        combination="topk_2048",
    ),
    **_backend(
        "FLASH_ATTN_MLA_SPARSE",
        since="0.25.0",
        mla=True,
        sparse=True,
        majors=(9,),
        blocks=(64,),
        combination="fa_mla_sparse",
        dcp=False,
    ),
    **_backend(
        "FLASHINFER_MLA_SPARSE_SM90",
        since="0.30.0",
        mla=True,
        sparse=True,
        majors=(9,),
        dtypes=("bfloat16",),
        head_sizes=(512, 576),
        kv_dtypes=("auto", "bfloat16", "fp8", "fp8_e4m3"),
        blocks=(64,),
        combination="lora_512",
        dcp=False,
    ),
}

# Caches that are no choice: their layer names its backend.
FIXED_BLOCKS = {"DEEPSEEK_V32_INDEXER": 64, "DEEPSEEK_V4_INDEXER": 256, "MINIMAX_M3_SPARSE": 128}

_DENSE10 = ("FLASHINFER", "FLASH_ATTN", "TRITON_ATTN", "FLEX_ATTENTION")
_DENSE = ("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "FLEX_ATTENTION")
_TAIL10 = ("CUTLASS_MLA", "FLASH_ATTN_MLA", "FLASHMLA", "TRITON_MLA", "*sparse10")
_OLD_TAIL10 = ("FLASH_ATTN_MLA", "FLASHMLA", "TRITON_MLA", "FLASHMLA_SPARSE")
_MLA = ("FLASH_ATTN_MLA", "FLASHMLA", "FLASHINFER_MLA", "TRITON_MLA")

# By whether attention is latent and by the major compute capability; 0 = every other one.
# "*sparse10": FLASHINFER_MLA_SPARSE and FLASHMLA_SPARSE, the former first for fp8 KV or at most 16 heads per rank.
# "*sparse9": FLASHINFER_MLA_SPARSE_SM90 goes first for a head of 512, else last.
PRIORITIES: dict[tuple[bool, int], Dated[tuple[str, ...] | None]] = {
    (True, 10): changes(
        ("CUTLASS_MLA", "FLASHINFER_MLA", *_OLD_TAIL10),
        ("0.15.0", ("FLASHINFER_MLA", "CUTLASS_MLA", *_OLD_TAIL10)),
        ("0.17.0", ("FLASHINFER_MLA", *_TAIL10)),
        ("0.21.0", ("FLASHINFER_MLA", "TOKENSPEED_MLA", *_TAIL10)),
    ),
    (True, 12): changes(None, ("0.24.0", ("TRITON_MLA", "FLASHINFER_MLA_SPARSE_SM120"))),
    (True, 0): changes(
        ("FLASHMLA", "FLASH_ATTN_MLA", "TRITON_MLA", "FLASHMLA_SPARSE"),
        ("0.11.1", (*_MLA, "FLASHMLA_SPARSE")),
        ("0.25.0", (*_MLA, "FLASH_ATTN_MLA_SPARSE", "FLASHMLA_SPARSE")),
        ("0.30.0", (*_MLA, "*sparse9")),
    ),
    (False, 10): changes(
        _DENSE10, ("0.20.0", (*_DENSE10, "TURBOQUANT")), ("0.30.0", ("*mm10", *_DENSE10, "TURBOQUANT"))
    ),
    (False, 0): changes(_DENSE, ("0.20.0", (*_DENSE, "TURBOQUANT")), ("0.30.0", ("*mm9", *_DENSE, "TURBOQUANT"))),
}

_SELECTOR = (
    "head_size", "dtype", "kv_cache_dtype", "block_size", "use_mla", "has_sink", "use_sparse", "use_mm_prefix",
    "use_per_head_quant_scales", "attn_type",
)  # fmt: skip
_OLD_SELECTOR = tuple(field for field in _SELECTOR if field != "use_per_head_quant_scales")
_LATER = ("use_non_causal", "use_batch_invariant", "use_kv_connector")
_SLIDING = (*_SELECTOR, "has_sliding_window", *_LATER)


class AttentionFacts(Facts):
    backends = table(BACKENDS)
    priorities = table(PRIORITIES)
    # Changes that concern more than one backend, or more than one of a backend's answers.
    asks = since("0.11.1")  # before, platforms/cuda.py decides by itself, without asking the backends
    asks_sliding = since("0.26.0")
    asks_dcp = since("0.30.0")
    hd256 = since(
        "0.29.0"
    )  # FlashAttention 4 has a kernel for heads of 256 on SM100, with 128-token pages (fa_utils.py)
    fp8_hd512 = since("0.31.0")  # FlashAttention 4 reads fp8 caches with heads of 512 on SM90, in 64-token pages
    large_pages = since("0.24.0")  # FlashInfer takes pages up to 1,024 tokens for grouped queries on SM100
    fp8_sparse_first = since("0.19.0")  # sparse MLA on SM100 prefers FlashInfer for quantised caches
    # unquantised --kv-cache-dtype that any backend lists
    plain: Dated[tuple[str, ...]] = changes(("auto",), ("0.15.0", ("auto", "bfloat16")), ("0.18.0", _PLAIN))
    # MLACommonBackend.get_supported_head_sizes
    mla_heads: Dated[tuple[int, ...]] = changes((576,), ("0.18.0", (320, 576)), ("0.30.0", (320, 512, 576)))
    sinks_refused = changes(
        "attention sinks not supported",
        ("0.11.1", "sink setting not supported"),
        ("0.18.0", "attention sinks not supported"),
    )
    flashmla_devices = changes("Hopper and Blackwell", ("0.24.0", "Hopper and Blackwell DC"))
    # `AttentionSelectorConfig.__repr__`, which the refusal prints; before 0.13 a list without a class
    selector: Dated[tuple[str, ...]] = changes(
        _SELECTOR[:7],
        ("0.13.0", _OLD_SELECTOR),
        ("0.17.0", _SELECTOR),
        ("0.20.0", (*_SELECTOR, "use_non_causal", "use_batch_invariant")),
        ("0.23.0", (*_SELECTOR, *_LATER)),
        ("0.26.0", (*_SLIDING, "use_pcp")),
        ("0.28.0", (*_SLIDING, "use_adaptive_verification", "use_pcp")),
        ("0.29.0", (*_SLIDING, "use_adaptive_verification", "use_pcp", "use_dcp")),
        ("0.30.0", (*_SLIDING, "use_adaptive_verification", "use_pcp", "use_dcp", "use_rswa")),
    )
    selector_is_bare = until("0.13.0")
    types_are_words = changes(False, ("0.13.0", True), ("0.14.0", False))  # "decoder", not AttentionType.DECODER

    def order(self, *, mla: bool, major: int) -> tuple[str, ...]:
        return self.priorities.get((mla, major)) or self.priorities[mla, 0]
