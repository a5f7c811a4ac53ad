"""Attention backends: what each accepts, in which order the CUDA platform asks them, their kernels' block sizes.

From v1/attention/backends/*.py and platforms/cuda.py `_get_backend_priorities`. Before 0.18 the block size came from
platforms/cuda.py alone, whatever backend was chosen later.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from oomph.facts.vllm.versions import Range, pick, select

_PLAIN = ("auto", "float16", "bfloat16")
_FP8 = ("fp8", "fp8_e4m3")
_HALF = ("float16", "bfloat16")


class Backend(Range, frozen=True, kw_only=True):
    name: str
    majors: tuple[int, ...] = ()  # compute capability majors; () = all
    min_sm: int = 0
    max_sm: int = 999
    dtypes: tuple[str, ...] = _HALF
    kv_dtypes: tuple[str, ...] = _PLAIN
    head_sizes: tuple[int, ...] = ()  # () = no list
    # fa: multiple of 8 up to 256, with FA4 up to 512; fa2: without FA4; 32: at least 32; mla: Kernels.mla_heads
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
    combination: str = ""  # a check that needs more than one fact: a name in engines/vllm/backends.py
    attn_types: tuple[str, ...] = ("decoder",)


_ANY_TYPE = ("decoder", "encoder", "encoder_only", "encoder_decoder")


def _fa(**kw: object) -> Backend:
    return Backend(name="FLASH_ATTN", min_sm=80, kv_dtypes=(*_PLAIN, *_FP8), sinks="fa", attn_types=_ANY_TYPE, **kw)  # type: ignore[arg-type]


def _fi(**kw: object) -> Backend:
    return Backend(name="FLASHINFER", max_sm=121, multiple=False, blocks=(16, 32, 64), **kw)  # type: ignore[arg-type]


def _mla(name: str, **kw: object) -> Backend:
    return Backend(name=name, mla=True, **kw)  # type: ignore[arg-type]


_HEADS = (64, 128, 256, 512)
_FI_KV = (*_PLAIN, "fp8", "fp8_e4m3", "fp8_e5m2")
_TRITON_KV = (*_PLAIN, "fp8", "fp8_e4m3", "fp8_e5m2")
_FLOATS = ("float16", "bfloat16", "float32")

BACKENDS = (
    # FlashAttention: FA4's larger heads since 0.20; every KV dtype was asked of FA3 until 0.27 listed them.
    _fa(until="0.20.0", heads="fa2", fp8="fa3_any", combination="sink_sm90"),
    _fa(since="0.20.0", until="0.22.0", heads="fa", fp8="fa3_any", combination="sink_sm90"),
    _fa(since="0.22.0", until="0.24.0", heads="fa", fp8="fa3", combination="sink_sm90"),
    _fa(since="0.24.0", until="0.27.0", heads="fa", fp8="fa3", mm_prefix="fa4", combination="fa_mm_prefix"),
    _fa(since="0.27.0", heads="fa", fp8="fa", mm_prefix="fa4", combination="fa_mm_prefix"),
    _fi(until="0.21.0", min_sm=75, head_sizes=(64, 128, 256), kv_dtypes=_FI_KV, sinks="trtllm"),
    _fi(since="0.21.0", until="0.22.0", min_sm=75, head_sizes=(64, 128, 256), kv_dtypes=(*_FI_KV, "nvfp4"),
        sinks="trtllm"),
    _fi(since="0.22.0", until="0.24.0", min_sm=75, head_sizes=_HEADS, kv_dtypes=(*_FI_KV, "nvfp4"), sinks="trtllm"),
    _fi(since="0.24.0", until="0.25.0", min_sm=80, head_sizes=_HEADS, kv_dtypes=(*_FI_KV, "nvfp4"), sinks="trtllm"),
    _fi(since="0.25.0", until="0.28.0", min_sm=80, head_sizes=_HEADS, kv_dtypes=(*_FI_KV, "nvfp4"), sinks="trtllm",
        nvfp4="sm100"),
    _fi(since="0.28.0", until="0.30.0", min_sm=80, head_sizes=_HEADS, kv_dtypes=(*_FI_KV, "nvfp4", "nvfp4_4over6"),
        sinks="trtllm_sm12", nvfp4="sm100"),
    _fi(since="0.30.0", until="0.32.0", min_sm=80, head_sizes=_HEADS, kv_dtypes=(*_FI_KV, "nvfp4", "nvfp4_4over6"),
        sinks="trtllm_or_xqa", nvfp4="sm100"),
    _fi(since="0.32.0", min_sm=80, head_sizes=_HEADS, kv_dtypes=(*_FI_KV, "nvfp4", "nvfp4_4over6"),
        sinks="trtllm_or_xqa", nvfp4="fa2", combination="fi_nvfp4"),
    Backend(name="TRITON_ATTN", dcp=False, until="0.14.0", dtypes=_FLOATS, kv_dtypes=_TRITON_KV, heads="32",
            sinks="always", mm_prefix="always"),
    Backend(name="TRITON_ATTN", dcp=False, since="0.14.0", until="0.20.0", dtypes=_FLOATS, kv_dtypes=_TRITON_KV,
            heads="32", sinks="always", mm_prefix="always", attn_types=_ANY_TYPE),
    Backend(name="TRITON_ATTN", dcp=False, since="0.20.0", until="0.25.0", dtypes=_FLOATS, heads="32", sinks="always",
            mm_prefix="always", kv_dtypes=(*_TRITON_KV, "int8_per_token_head", "fp8_per_token_head"),
            attn_types=_ANY_TYPE),
    Backend(name="TRITON_ATTN", dcp=False, since="0.25.0", dtypes=_FLOATS, heads="32", sinks="always",
            mm_prefix="always",
            kv_dtypes=(*_TRITON_KV, "int4_per_token_head", "int8_per_token_head", "fp8_per_token_head"),
            attn_types=_ANY_TYPE),
    Backend(name="FLEX_ATTENTION", dcp=False, until="0.21.0", dtypes=_FLOATS, mm_prefix="always", blocks=(1,),
            attn_types=("decoder", "encoder_only")),
    Backend(name="FLEX_ATTENTION", dcp=False, since="0.21.0", dtypes=_FLOATS, mm_prefix="always",
            attn_types=("decoder", "encoder_only")),
    Backend(name="TURBOQUANT", dcp=False, sliding=False, since="0.20.0", multiple=False, blocks=(16, 32, 64, 128),
            kv_dtypes=("turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc")),
    # Image masks through Triton, the rest through the faster kernel (v1/attention/backends/composite.py).
    # Chosen by the layer, not by the platform (models/mimo_v2.py).
    Backend(name="FLASH_ATTN_DIFFKV", since="0.20.0"),
    Backend(name="TRITON_ATTN_DIFFKV", since="0.24.0"),
    Backend(name="TRITON_FLASH_ATTN", dcp=False, since="0.30.0", majors=(9,), head_sizes=(256, 512),
            kv_dtypes=(*_PLAIN, *_FP8), mm_prefix="always", sinks="never", combination="triton_fa"),
    Backend(name="TRITON_FLASHINFER", dcp=False, since="0.30.0", majors=(10,), head_sizes=(256, 512),
            kv_dtypes=(*_PLAIN, *_FP8), mm_prefix="always", blocks=(64,), multiple=False),
    _mla("FLASH_ATTN_MLA", majors=(9,), heads="mla", combination="fa_mla"),
    _mla("FLASHMLA", majors=(9, 10), heads="mla", kv_dtypes=(*_PLAIN, *_FP8), blocks=(64,), multiple=False,
         combination="flashmla"),
    _mla("FLASHINFER_MLA", until="0.15.0", majors=(10,), heads="mla", kv_dtypes=(*_PLAIN, *_FP8),
         blocks=(32, 64), multiple=False),
    _mla("FLASHINFER_MLA", since="0.15.0", until="0.18.0", majors=(10,), heads="mla",
         kv_dtypes=(*_PLAIN, *_FP8), blocks=(32, 64), multiple=False, combination="nope", nope=(128,)),
    _mla("FLASHINFER_MLA", since="0.18.0", until="0.19.0", majors=(10,), heads="mla",
         kv_dtypes=(*_PLAIN, *_FP8), blocks=(32, 64), multiple=False, combination="nope", nope=(64, 128)),
    _mla("FLASHINFER_MLA", since="0.19.0", majors=(10,), heads="mla", kv_dtypes=(*_PLAIN, *_FP8),
         blocks=(32, 64), multiple=False, combination="nope", nope=(64, 128, 192)),
    _mla("TOKENSPEED_MLA", since="0.21.0", majors=(10,), heads="mla", kv_dtypes=_FP8, blocks=(32, 64),
         multiple=False, combination="tokenspeed"),
    _mla("CUTLASS_MLA", majors=(10,), heads="mla", kv_dtypes=(*_PLAIN, *_FP8), blocks=(128,), multiple=False),
    _mla("TRITON_MLA", until="0.18.0", heads="mla", blocks=(1,)),
    _mla("TRITON_MLA", since="0.18.0", kv_dtypes=(*_PLAIN, *_FP8)),
    _mla("FLASHMLA_SPARSE", until="0.18.0", sparse=True, majors=(9, 10), dtypes=("bfloat16",), head_sizes=(576,),
         kv_dtypes=("auto", "bfloat16", "fp8_ds_mla"), blocks=(64,), multiple=False),
    _mla("FLASHMLA_SPARSE", since="0.18.0", until="0.20.0", sparse=True, majors=(9, 10), dtypes=("bfloat16",),
         head_sizes=(576,), kv_dtypes=("auto", "bfloat16", "fp8_ds_mla", "fp8"), blocks=(64,), multiple=False),
    _mla("FLASHMLA_SPARSE", since="0.20.0", until="0.22.0", sparse=True, majors=(9, 10), dtypes=("bfloat16",),
         head_sizes=(512, 576), kv_dtypes=("auto", "bfloat16", "fp8_ds_mla", "fp8"), blocks=(64,), multiple=False),
    _mla("FLASHMLA_SPARSE", since="0.22.0", until="0.30.0", sparse=True, majors=(9, 10), dtypes=("bfloat16",),
         head_sizes=(576,), kv_dtypes=("auto", "bfloat16", "fp8_ds_mla", "fp8"), blocks=(64,), multiple=False),
    _mla("FLASHMLA_SPARSE", since="0.30.0", until="0.31.0", sparse=True, majors=(9, 10), dtypes=("bfloat16",),
         head_sizes=(576,), kv_dtypes=("auto", "bfloat16", "fp8_ds_mla", "fp8", "nvfp4_ds_mla"), blocks=(64,),
         multiple=False, combination="flashmla_sparse"),
    _mla("FLASHMLA_SPARSE", since="0.31.0", sparse=True, majors=(9, 10), dtypes=("bfloat16",), head_sizes=(576, 512),
         kv_dtypes=("auto", "bfloat16", "fp8_ds_mla", "fp8", "nvfp4_ds_mla"), blocks=(64,), multiple=True,
         combination="flashmla_sparse"),
    _mla("FLASHINFER_MLA_SPARSE", since="0.17.0", until="0.18.0", sparse=True, majors=(10,), head_sizes=(576,),
         blocks=(32, 64), multiple=False, combination="nope", nope=(128,)),
    _mla("FLASHINFER_MLA_SPARSE", since="0.18.0", until="0.19.0", sparse=True, majors=(10,), head_sizes=(576,),
         kv_dtypes=(*_PLAIN, *_FP8), blocks=(32, 64), multiple=False, combination="nope", nope=(128,)),
    _mla("FLASHINFER_MLA_SPARSE", since="0.19.0", until="0.24.0", sparse=True, majors=(10,), head_sizes=(576,),
         kv_dtypes=(*_PLAIN, *_FP8), blocks=(32, 64), multiple=False, combination="nope", nope=(128, 192)),
    _mla("FLASHINFER_MLA_SPARSE", since="0.24.0", until="0.32.0", sparse=True, majors=(10,), head_sizes=(512, 576),
         kv_dtypes=(*_PLAIN, *_FP8), blocks=(32, 64), multiple=False, combination="nope_sm10", nope=(128, 192)),
    _mla("FLASHINFER_MLA_SPARSE", since="0.32.0", sparse=True, majors=(10,), head_sizes=(512, 576),
         kv_dtypes=(*_PLAIN, *_FP8), blocks=(32,), combination="nope_sm10", nope=(128, 192)),
    _mla("FLASHINFER_MLA_SPARSE_SM120", since="0.24.0", sparse=True, majors=(12,), dtypes=("bfloat16",),
         head_sizes=(512, 576),
         kv_dtypes=("auto", "fp8", "fp8_e4m3", "fp8_ds_mla"), blocks=(64,), combination="topk_2048"),
    _mla("FLASH_ATTN_MLA_SPARSE", since="0.25.0", sparse=True, majors=(9,), blocks=(64,), combination="fa_mla_sparse",
         dcp=False),
    _mla("FLASHINFER_MLA_SPARSE_SM90", dcp=False, since="0.30.0", sparse=True, majors=(9,), dtypes=("bfloat16",),
         head_sizes=(512, 576),
         kv_dtypes=("auto", "bfloat16", "fp8", "fp8_e4m3"), blocks=(64,), combination="lora_512"),
)  # fmt: skip

# Caches that are no choice: their layer names its backend.
FIXED_BLOCKS = {"DEEPSEEK_V32_INDEXER": 64, "DEEPSEEK_V4_INDEXER": 256, "MINIMAX_M3_SPARSE": 128}


class Priorities(Range, frozen=True, kw_only=True):
    majors: tuple[int, ...] = ()
    mla: bool = False
    names: tuple[str, ...]


_DENSE10 = ("FLASHINFER", "FLASH_ATTN", "TRITON_ATTN", "FLEX_ATTENTION")
_DENSE = ("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "FLEX_ATTENTION")
_TAIL10 = ("CUTLASS_MLA", "FLASH_ATTN_MLA", "FLASHMLA", "TRITON_MLA", "*sparse10")
_MLA = ("FLASH_ATTN_MLA", "FLASHMLA", "FLASHINFER_MLA", "TRITON_MLA")

# "*sparse10": FLASHINFER_MLA_SPARSE and FLASHMLA_SPARSE, the former first for fp8 KV or at most 16 heads a rank.
# "*sparse9": FLASHINFER_MLA_SPARSE_SM90 goes first for a head of 512, else last.
PRIORITIES = (
    Priorities(until="0.15.0", mla=True, majors=(10,),
               names=("CUTLASS_MLA", "FLASHINFER_MLA", "FLASH_ATTN_MLA", "FLASHMLA", "TRITON_MLA", "FLASHMLA_SPARSE")),
    Priorities(since="0.15.0", until="0.17.0", mla=True, majors=(10,),
               names=("FLASHINFER_MLA", "CUTLASS_MLA", "FLASH_ATTN_MLA", "FLASHMLA", "TRITON_MLA", "FLASHMLA_SPARSE")),
    Priorities(since="0.17.0", until="0.21.0", mla=True, majors=(10,), names=("FLASHINFER_MLA", *_TAIL10)),
    Priorities(since="0.21.0", mla=True, majors=(10,), names=("FLASHINFER_MLA", "TOKENSPEED_MLA", *_TAIL10)),
    Priorities(since="0.24.0", mla=True, majors=(12,), names=("TRITON_MLA", "FLASHINFER_MLA_SPARSE_SM120")),
    Priorities(until="0.11.1", mla=True, names=("FLASHMLA", "FLASH_ATTN_MLA", "TRITON_MLA", "FLASHMLA_SPARSE")),
    Priorities(since="0.11.1", until="0.25.0", mla=True, names=(*_MLA, "FLASHMLA_SPARSE")),
    Priorities(since="0.25.0", until="0.30.0", mla=True, names=(*_MLA, "FLASH_ATTN_MLA_SPARSE", "FLASHMLA_SPARSE")),
    Priorities(since="0.30.0", mla=True, names=(*_MLA, "*sparse9")),
    Priorities(until="0.20.0", majors=(10,), names=_DENSE10),
    Priorities(since="0.20.0", until="0.30.0", majors=(10,), names=(*_DENSE10, "TURBOQUANT")),
    Priorities(since="0.30.0", majors=(10,), names=("*mm10", *_DENSE10, "TURBOQUANT")),
    Priorities(until="0.20.0", names=_DENSE),
    Priorities(since="0.20.0", until="0.30.0", names=(*_DENSE, "TURBOQUANT")),
    Priorities(since="0.30.0", names=("*mm9", *_DENSE, "TURBOQUANT")),
)  # fmt: skip


class Kernels(Range, frozen=True, kw_only=True):
    """Changes that concern more than one backend, or more than one of a backend's answers."""

    hd256: bool = False  # FlashAttention 4 has a kernel for heads of 256 on SM100, with 128-token pages (fa_utils.py)
    fp8_hd512: bool = False  # FlashAttention 4 reads fp8 caches with heads of 512 on SM90, in 64-token pages
    large_pages: bool = False  # FlashInfer takes pages up to 1,024 tokens for grouped queries on SM100
    fp8_sparse_first: bool = False  # sparse MLA on SM100 prefers FlashInfer for quantised caches
    plain: tuple[str, ...] = _PLAIN  # unquantised --kv-cache-dtype that any backend lists
    mla_heads: tuple[int, ...] = (320, 576)  # MLACommonBackend.get_supported_head_sizes
    sinks_text: str = "attention sinks not supported"
    asks: bool = True  # False: platforms/cuda.py decides by itself, without asking the backends
    asks_dcp: bool = False
    asks_sliding: bool = False
    flashmla_devices: str = "Hopper and Blackwell"


_OLD_SINKS = "sink setting not supported"
_DC = "Hopper and Blackwell DC"
_MLA_512 = (320, 512, 576)
KERNELS = (
    Kernels(until="0.11.1", asks=False, plain=("auto",), mla_heads=(576,)),
    Kernels(since="0.11.1", until="0.15.0", plain=("auto",), sinks_text=_OLD_SINKS, mla_heads=(576,)),
    Kernels(since="0.15.0", until="0.18.0", plain=("auto", "bfloat16"), sinks_text=_OLD_SINKS, mla_heads=(576,)),
    Kernels(since="0.18.0", until="0.19.0"),
    Kernels(since="0.19.0", until="0.24.0", fp8_sparse_first=True),
    Kernels(since="0.24.0", until="0.26.0", flashmla_devices=_DC, fp8_sparse_first=True, large_pages=True),
    Kernels(since="0.26.0", until="0.29.0", flashmla_devices=_DC, fp8_sparse_first=True, large_pages=True,
            asks_sliding=True),
    Kernels(since="0.29.0", until="0.30.0", flashmla_devices=_DC, fp8_sparse_first=True, large_pages=True,
            asks_sliding=True, hd256=True),
    Kernels(since="0.30.0", until="0.31.0", flashmla_devices=_DC, fp8_sparse_first=True, large_pages=True,
            asks_sliding=True, hd256=True, asks_dcp=True, mla_heads=_MLA_512),
    Kernels(since="0.31.0", flashmla_devices=_DC, fp8_sparse_first=True, large_pages=True, asks_sliding=True,
            hd256=True, asks_dcp=True, mla_heads=_MLA_512, fp8_hd512=True),
)  # fmt: skip


@lru_cache(maxsize=64)
def kernels(version: str) -> Kernels:
    return pick(KERNELS, version)


class SelectorRepr(Range, frozen=True, kw_only=True):
    """`AttentionSelectorConfig.__repr__`, which the refusal prints; before 0.13 a list of its own."""

    fields: tuple[str, ...]
    bare: bool = False  # "head_size: 128, ..." without a class
    attn_type: str = "AttentionType.DECODER"


_SELECTOR = (
    "head_size", "dtype", "kv_cache_dtype", "block_size", "use_mla", "has_sink", "use_sparse", "use_mm_prefix",
    "use_per_head_quant_scales", "attn_type",
)  # fmt: skip
_OLD_SELECTOR = tuple(f for f in _SELECTOR if f != "use_per_head_quant_scales")
_LATER = ("use_non_causal", "use_batch_invariant", "use_kv_connector")
SELECTOR_REPR = (
    SelectorRepr(until="0.13.0", fields=_SELECTOR[:7], bare=True),
    SelectorRepr(since="0.13.0", until="0.14.0", fields=_OLD_SELECTOR, attn_type="decoder"),
    SelectorRepr(since="0.14.0", until="0.17.0", fields=_OLD_SELECTOR),
    SelectorRepr(since="0.17.0", until="0.20.0", fields=_SELECTOR),
    SelectorRepr(since="0.20.0", until="0.23.0", fields=(*_SELECTOR, "use_non_causal", "use_batch_invariant")),
    SelectorRepr(since="0.23.0", until="0.26.0", fields=(*_SELECTOR, *_LATER)),
    SelectorRepr(since="0.26.0", until="0.28.0", fields=(*_SELECTOR, "has_sliding_window", *_LATER, "use_pcp")),
    SelectorRepr(
        since="0.28.0", until="0.29.0",
        fields=(*_SELECTOR, "has_sliding_window", *_LATER, "use_adaptive_verification", "use_pcp"),
    ),
    SelectorRepr(
        since="0.29.0", until="0.30.0",
        fields=(*_SELECTOR, "has_sliding_window", *_LATER, "use_adaptive_verification", "use_pcp", "use_dcp"),
    ),
    SelectorRepr(
        since="0.30.0",
        fields=(
            *_SELECTOR, "has_sliding_window", *_LATER, "use_adaptive_verification", "use_pcp", "use_dcp", "use_rswa",
        ),
    ),
)  # fmt: skip


@lru_cache(maxsize=64)
def backends(version: str) -> dict[str, Backend]:
    return {b.name: b for b in select(BACKENDS, version)}


@lru_cache(maxsize=256)
def priorities(version: str, mla: bool, major: int) -> tuple[str, ...]:
    rows = [p for p in select(PRIORITIES, version) if p.mla == mla]
    exact = [p for p in rows if major in p.majors]
    return (exact or [p for p in rows if not p.majors])[0].names


def selector_repr(version: str) -> SelectorRepr:
    return pick(SELECTOR_REPR, version)
