"""One layer's cache as vLLM describes it (v1/kv_cache_interface.py): page bytes, and the blocks a request holds."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from oomph.facts.vllm.kv import WINDOWS_DIFFER, KvRules
from oomph.units import cdiv

Kind = Literal["full", "sliding_window", "chunked_local", "mla", "sliding_window_mla", "mamba", "cross"]
MambaMode = Literal["none", "align", "all"]


class Refused(Exception):
    """vLLM's own refusal, as its type and text."""

    def __init__(self, type: str, message: str) -> None:
        super().__init__(message)
        self.type = type
        self.message = message


class Spec(Struct, frozen=True):
    kind: Kind
    block_size: int  # tokens
    state_bytes: int  # one stored state over the rank's KV heads, scales included; mamba: the whole state
    tokens_per_state: int = 1  # DeepSeek-V4 stores one state for 4 or 128 tokens
    padded: int = 0  # page_size_padded; 0 = not padded
    window: int = 0
    chunk: int = 0
    num_kv_heads: int = 0
    head_size: int = 0
    head_size_v: int = 0
    dtype: str = ""
    cache_dtype: str = ""  # MLA: cache_dtype_str
    role: str = ""  # what else tells two MLA caches apart: model version, indexer, index group leader
    speculative_blocks: int = 0
    checkpoint_blocks: int = 0
    extra_retained: int = 0
    strided: bool = False  # the backend indexes pages by the block stride, so that a page may be padded (0.24-0.28)
    stride_alignment: int = 1  # bytes between blocks must be a multiple of this (0.31+)
    stride_base: int = 0  # tokens of the largest kernel block, where a backend takes a list of sizes only (0.32+)

    @property
    def unpadded(self) -> int:
        if self.kind == "mamba":
            return self.state_bytes
        return self.block_size // self.tokens_per_state * self.state_bytes

    @property
    def page(self) -> int:
        return self.padded or self.unpadded

    @property
    def is_full(self) -> bool:
        """Instances of FullAttentionSpec: MLA is one of its subclasses."""
        return self.kind in ("full", "mla")

    @property
    def is_sliding(self) -> bool:
        return self.kind in ("sliding_window", "sliding_window_mla")


class Request(Struct, frozen=True):
    """What decides how many blocks one request may hold."""

    max_model_len: int
    in_flight_tokens: int  # tokens scheduled and not yet settled
    mamba_mode: MambaMode
    cp: int  # ranks that share the tokens of full attention
    encoder_tokens: int


def max_blocks(spec: Spec, request: Request, rules: KvRules) -> int:
    """`max_memory_usage_bytes / page_size_bytes` of the spec's class."""
    length = request.max_model_len
    match spec.kind:
        case "full" | "mla":
            return cdiv(cdiv(length, request.cp), spec.block_size)
        case "sliding_window" | "sliding_window_mla":
            tokens = spec.window - 1 + spec.extra_retained + request.in_flight_tokens
            return cdiv(min(tokens, length), spec.block_size) + 1
        case "chunked_local":
            return cdiv(min(spec.chunk + request.in_flight_tokens, length), spec.block_size)
        case "cross":
            return cdiv(request.encoder_tokens, spec.block_size)
        case "mamba":
            return _mamba_blocks(spec, request, rules)


def _mamba_blocks(spec: Spec, request: Request, rules: KvRules) -> int:
    by_length = cdiv(request.max_model_len, spec.block_size)
    match rules.mamba:
        case "one":
            return 1
        case "len":
            return by_length
        case _ if request.mamba_mode == "all":
            return by_length + (spec.speculative_blocks if rules.mamba == "mode+spec" else 0)
        case _ if request.mamba_mode == "align":
            return 2 + spec.speculative_blocks + spec.checkpoint_blocks
        case _:
            return 1 + spec.speculative_blocks


def merges(specs: Sequence[Spec], rules: KvRules) -> bool:
    """Whether `specs[0].merge(specs)` works, i.e. all layers can be one group of one spec."""
    first = specs[0]
    if first.kind == "full":
        return _full_merges(specs, rules)
    if first.kind == "mla":
        return all(s.kind == "mla" for s in specs) and len({_mla_key(s, rules) for s in specs}) == 1
    if first.kind == "sliding_window_mla":
        keys = {(s.kind, s.cache_dtype, s.tokens_per_state, s.role, s.window, s.extra_retained) for s in specs}
        return len(keys) == 1
    return all(s == first for s in specs)


def _full_merges(specs: Sequence[Spec], rules: KvRules) -> bool:
    if any(spec.kind != "full" for spec in specs):
        return False
    windows = {spec.window for spec in specs} - {0}
    chunks = {spec.chunk for spec in specs} - {0}
    if len(windows) > 1 or len(chunks) > 1:
        raise Refused("ValueError", WINDOWS_DIFFER)
    if windows and chunks:
        return False
    # head_size_v is a field of AttentionSpec, which the merge compares, only since 0.28.
    checks_sizes = rules.mla_merge_checks_sizes
    keys = {
        (
            spec.block_size,
            spec.num_kv_heads,
            spec.head_size,
            spec.head_size_v if checks_sizes else 0,
            spec.dtype,
            spec.state_bytes,
            spec.padded,
            spec.stride_base,
        )
        for spec in specs
    }
    return len(keys) == 1 and not (rules.merge_strided and len({spec.strided for spec in specs}) > 1)


def _mla_key(spec: Spec, rules: KvRules) -> tuple[object, ...]:
    key = (spec.cache_dtype, spec.tokens_per_state, spec.role)
    if not rules.mla_merge_checks_sizes:
        return key
    return (
        *key,
        spec.block_size,
        spec.num_kv_heads,
        spec.head_size,
        spec.dtype,
        spec.state_bytes,
        spec.padded,
        spec.stride_alignment,
    )


def is_uniform_type(specs: Sequence[Spec], rules: KvRules) -> bool:
    """`UniformTypeKVCacheSpecs.is_uniform_type`: one block table serves all layers though their pages differ."""
    first = specs[0]
    if any(s.block_size != first.block_size for s in specs):
        return False
    if first.is_full:
        return all(s.is_full for s in specs)
    if first.kind == "sliding_window_mla":
        return all(s.kind == first.kind and s.window == first.window for s in specs)
    if first.kind == "sliding_window":
        return all(s.is_sliding and s.window == first.window for s in specs)
    if first.kind == "chunked_local":
        return all(s.kind == first.kind and s.chunk == first.chunk for s in specs)
    if first.kind == "mamba":
        return len({_mamba_key(s, rules) for s in specs}) == 1
    return all(s.kind == first.kind for s in specs)


def _mamba_key(spec: Spec, rules: KvRules) -> tuple[object, ...]:
    if rules.uniform_mamba_pages:
        return spec.kind, spec.speculative_blocks, spec.checkpoint_blocks, spec.page
    return spec.kind, spec.speculative_blocks
