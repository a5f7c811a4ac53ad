"""How vLLM sizes, groups, checks and reports its KV cache, release by release.

Each table is one decision of v1/core/kv_cache_utils.py or v1/kv_cache_interface.py; `rules(version)` gathers the rows
in force into one value, so that the engine code never sees a version. Line numbers are of the first release of a row.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from msgspec import Struct

from oomph.facts.vllm.versions import Range, pick

DOCS = "https://docs.vllm.ai/en/latest/configuration/conserving_memory/"

Need = Literal["layers", "first_group", "groups"]
Unify = Literal["none", "scale", "stride_pad", "mamba_pad", "pad"]
Widest = Literal["page", "tuples", "slots", "widest", "aligned"]


class Row(Range, frozen=True, kw_only=True):
    value: str | int | float


class Text(Range, frozen=True, kw_only=True):
    """What the memory check prints. `none`: no memory at all; `short`: too little for one request."""

    none: str
    short: str
    estimate: str  # goes into `short` where a length is known that would fit
    two_digits: bool  # "10.00" instead of "10.0"


class KvRules(Struct, frozen=True):
    need: Need
    check_per_worker: bool
    project_uniform: bool
    group_ratio: float
    unify: Unify
    merge_buckets: bool
    block_bytes: Widest
    need_unit: Widest
    reserve_null_block: bool
    in_flight: bool
    tokens_from_concurrency: bool
    concurrency_from_bytes: bool
    override_is_checked: bool
    cp: Literal["dcp", "dcp*pcp"]
    mla_merge_checks_sizes: bool
    full_head_v: bool
    sliding_head_v: bool
    mamba: Literal["one", "len", "mode", "mode+spec"]
    uniform_mamba_pages: bool
    merge_strided: bool
    promote: Literal["fields", "block"]
    admission: Literal["chunk", "full", "capped"]
    auto_fit: bool
    packing: Literal["none", "dsv4", "packed"]
    packed_state_buckets: bool
    extra_retained: Literal["none", "multi_module", "lookahead"]
    one_line_log: bool
    text: Text


# What one request of max_model_len is said to need. Per layer before grouping (0.11 :check_enough_kv_cache_memory),
# from the first group only (0.14 `any_spec = kv_cache_groups[0]`: hybrids are under-counted), from all groups (0.19).
NEED = (
    Row(value="layers", until="0.14.0"),
    Row(value="first_group", since="0.14.0", until="0.19.0"),
    Row(value="groups", since="0.19.0"),
)
# 0.14-0.16 check the whole model's groups against the smallest worker; 0.17 projects the groups on each worker first.
CHECK_PER_WORKER = (
    Row(value=1, until="0.14.0"),
    Row(value=0, since="0.14.0", until="0.17.0"),
    Row(value=1, since="0.17.0"),
)
# Before 0.17 a stage's only group kept the page sum of all stages, so pipeline stages got too few blocks.
PROJECT_UNIFORM = (Row(value=0, until="0.17.0"), Row(value=1, since="0.17.0"))
# `max_num_layers < min_num_layers * ratio` makes the larger count the group size (0 = rule absent).
GROUP_RATIO = (
    Row(value=0.0, until="0.12.0"),
    Row(value=1.25, since="0.12.0", until="0.18.0"),
    Row(value=1.5, since="0.18.0"),
)
# unify_kv_cache_spec_page_size: absent; larger blocks only; 0.24 pads layers whose backend strides by block; 0.26 pads
# states too; 0.29 pads every attention layer that is not MLA.
UNIFY = (
    Row(value="none", until="0.12.0"),
    Row(value="scale", since="0.12.0", until="0.24.0"),
    Row(value="stride_pad", since="0.24.0", until="0.26.0"),
    Row(value="mamba_pad", since="0.26.0", until="0.29.0"),
    Row(value="pad", since="0.29.0"),
)
MERGE_BUCKETS = (Row(value=0, until="0.27.0"), Row(value=1, since="0.27.0"))
# Bytes of one block id when several groups mix page sizes (DeepSeek-V4).
BLOCK_BYTES = (
    Row(value="page", until="0.20.0"),
    Row(value="tuples", since="0.20.0", until="0.23.0"),
    Row(value="slots", since="0.23.0", until="0.27.0"),
    Row(value="widest", since="0.27.0", until="0.31.0"),
    Row(value="aligned", since="0.31.0"),
)
NEED_UNIT = (
    Row(value="page", until="0.20.0"),
    Row(value="tuples", since="0.20.0", until="0.29.0"),
    Row(value="widest", since="0.29.0", until="0.31.0"),
    Row(value="aligned", since="0.31.0"),
)
# BlockPool's null block is held back in the check and in auto-fit.
RESERVE_NULL_BLOCK = (Row(value=0, until="0.29.0"), Row(value=1, since="0.29.0"))
# Sliding and chunked layers hold the tokens of every batch in flight (vllm.py max_in_flight_tokens), not of one.
IN_FLIGHT = (Row(value=0, until="0.26.0"), Row(value=1, since="0.26.0"))
# "GPU KV cache size": num_blocks // groups * smallest block, then int(concurrency * max_model_len).
TOKENS_FROM_CONCURRENCY = (Row(value=0, until="0.20.1"), Row(value=1, since="0.20.1"))
CONCURRENCY_FROM_BYTES = (Row(value=1, until="0.27.0"), Row(value=0, since="0.27.0"))
OVERRIDE_IS_CHECKED = (Row(value=0, until="0.20.1"), Row(value=1, since="0.20.1"))
CP = (
    Row(value="dcp", until="0.12.0"),
    Row(value="dcp*pcp", since="0.12.0", until="0.26.0"),
    Row(value="dcp", since="0.26.0"),
)
MLA_MERGE_CHECKS_SIZES = (Row(value=0, until="0.28.0"), Row(value=1, since="0.28.0"))
# Before these the page was 2 * head_size even where V is narrower (MiMo-V2 padded V until 0.20).
FULL_HEAD_V = (Row(value=0, until="0.20.0"), Row(value=1, since="0.20.0"))
SLIDING_HEAD_V = (Row(value=0, until="0.20.0"), Row(value=1, since="0.20.0"))
# States a request holds: always one; cdiv(len, block); by mamba_cache_mode; mode "all" plus the speculative ones.
MAMBA = (
    Row(value="one", until="0.11.1"),
    Row(value="len", since="0.11.1", until="0.15.0"),
    Row(value="mode", since="0.15.0", until="0.22.0"),
    Row(value="mode+spec", since="0.22.0"),
)
# indexes_kv_by_block_stride is a field that merging compares and that promoting a window forgets.
MERGE_STRIDED = (
    Row(value=0, until="0.24.0"),
    Row(value=1, since="0.24.0", until="0.27.0"),
    Row(value=0, since="0.27.0"),
)
UNIFORM_MAMBA_PAGES = (Row(value=0, until="0.29.0"), Row(value=1, since="0.29.0"))
PROMOTE = (Row(value="fields", until="0.27.0"), Row(value="block", since="0.27.0"))
# Waiting -> running: the next chunk fits; the whole prompt fits, windows ignored (0.19); windows capped (PR 39866).
ADMISSION = (
    Row(value="chunk", until="0.19.0"),
    Row(value="full", since="0.19.0", until="0.20.0"),
    Row(value="capped", since="0.20.0"),
)
AUTO_FIT = (Row(value=0, until="0.14.0"), Row(value=1, since="0.14.0"))
PACKED = (
    Row(value="none", until="0.20.0"),
    Row(value="dsv4", since="0.20.0", until="0.29.0"),
    Row(value="packed", since="0.29.0"),
)
PACKED_STATE_BUCKETS = (Row(value=0, until="0.30.0"), Row(value=1, since="0.30.0"))
EXTRA_RETAINED = (
    Row(value="none", until="0.28.0"),
    Row(value="multi_module", since="0.28.0", until="0.31.0"),
    Row(value="lookahead", since="0.31.0"),
)
ONE_LINE_LOG = (Row(value=0, until="0.28.0"), Row(value=1, since="0.28.0"))

_NONE = "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine"
_SHORT = (
    "To serve at least one request with the {model} max seq len ({length}), ({need} GiB KV cache is needed, which is "
    "larger than the available KV cache memory ({available} GiB). {estimate}"
)
_ESTIMATE = "Based on the available memory, the estimated maximum model length is {fits}."
_TRY = "Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
_TRY_CPU = (
    "Try increasing `gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or decreasing "
    "`max_model_len` when initializing the engine."
)
_SEE = f" See {DOCS} for more details."
_MODELS = _SHORT.replace("{model}", "models's")
_MODEL = _SHORT.replace("{model}", "model's")
_NONE_CPU = f"{_NONE} (this flag also controls CPU memory reservation on the CPU backend, despite its name)."

TEXTS = (
    Text(until="0.13.0", none=f"{_NONE}.", short=f"{_MODELS} {_TRY}", estimate=_ESTIMATE, two_digits=True),
    Text(
        since="0.13.0", until="0.14.0",
        none=f"{_NONE}.{_SEE}", short=f"{_MODELS} {_TRY}{_SEE}", estimate=_ESTIMATE, two_digits=True,
    ),
    Text(
        since="0.14.0", until="0.22.0",
        none=f"{_NONE}.{_SEE}", short=f"{_MODELS}{_TRY}{_SEE}", estimate=f"{_ESTIMATE} ", two_digits=False,
    ),
    Text(
        since="0.22.0",
        none=f"{_NONE_CPU}{_SEE}", short=f"{_MODEL}{_TRY_CPU}{_SEE}", estimate=f"{_ESTIMATE} ", two_digits=False,
    ),
)  # fmt: skip

AUTO_FIT_FAILS = (
    "Cannot auto-fit max_model_len: not enough GPU memory available to serve even a single token. "
    "Try increasing `gpu_memory_utilization`."
)
NOT_UNIFIED = (
    Row(value="", until="0.12.0"),  # a bare NotImplementedError
    Row(
        since="0.12.0", until="0.24.0",
        value="The page size of the layer is not divisible by the maximum page size. "
        "Cannot unify by adjusting block_size.",
    ),
    Row(
        since="0.24.0", until="0.29.0",
        value="Layer {layer}: page size is not divisible by the maximum page size and cannot be padded. Padding is "
        "only supported for attention layers whose backend indexes KV pages by the block stride "
        "(indexes_kv_by_block_stride is True).",
    ),
    Row(
        since="0.29.0",
        value="Layer {layer}: page size is not divisible by the maximum page size and cannot be padded. Padding is "
        "only supported for non-MLA attention layers.",
    ),
)  # fmt: skip
NOT_PROMOTED = (
    Row(
        until="0.27.0",
        value="Hybrid KV cache manager is disabled but failed to convert the KV cache specs to one unified type.",
    ),
    Row(since="0.27.0", value="Failed to promote local KV cache specs to one unified type."),
)
WINDOWS_DIFFER = "All attention layers in the same KV cache group must have the same window size."
# v1/core/kv_cache_utils.py resolve_kv_cache_block_sizes; before, HybridKVCacheCoordinator's assertion
MULTI_GROUP_CP = (
    Row(value="AssertionError: DCP not support hybrid attn now.", until="0.20.0"),
    Row(
        since="0.20.0", until="0.26.0",
        value="ValueError: Hybrid KV cache groups with multiple block sizes do not support context parallelism "
        "(dcp_world_size/pcp_world_size > 1).",
    ),
    Row(value="", since="0.26.0"),
)  # fmt: skip
# config/vllm.py validate_block_size: a step of the scheduler takes in whole blocks
ALIGN_LIMIT = (
    Row(value="", until="0.17.0"),
    Row(
        since="0.17.0", until="0.27.0",
        value="In Mamba cache align mode, block_size ({block}) must be <= max_num_batched_tokens ({tokens}).",
    ),
    Row(value="", since="0.27.0"),
)  # fmt: skip


@lru_cache(maxsize=64)
def rules(version: str) -> KvRules:
    def of(rows: tuple[Row, ...]) -> str | int | float:
        return pick(rows, version).value

    return KvRules(
        need=of(NEED),  # type: ignore[arg-type]
        check_per_worker=bool(of(CHECK_PER_WORKER)),
        project_uniform=bool(of(PROJECT_UNIFORM)),
        group_ratio=float(of(GROUP_RATIO)),
        unify=of(UNIFY),  # type: ignore[arg-type]
        merge_buckets=bool(of(MERGE_BUCKETS)),
        block_bytes=of(BLOCK_BYTES),  # type: ignore[arg-type]
        need_unit=of(NEED_UNIT),  # type: ignore[arg-type]
        reserve_null_block=bool(of(RESERVE_NULL_BLOCK)),
        in_flight=bool(of(IN_FLIGHT)),
        tokens_from_concurrency=bool(of(TOKENS_FROM_CONCURRENCY)),
        concurrency_from_bytes=bool(of(CONCURRENCY_FROM_BYTES)),
        override_is_checked=bool(of(OVERRIDE_IS_CHECKED)),
        cp=of(CP),  # type: ignore[arg-type]
        mla_merge_checks_sizes=bool(of(MLA_MERGE_CHECKS_SIZES)),
        full_head_v=bool(of(FULL_HEAD_V)),
        sliding_head_v=bool(of(SLIDING_HEAD_V)),
        mamba=of(MAMBA),  # type: ignore[arg-type]
        uniform_mamba_pages=bool(of(UNIFORM_MAMBA_PAGES)),
        merge_strided=bool(of(MERGE_STRIDED)),
        promote=of(PROMOTE),  # type: ignore[arg-type]
        admission=of(ADMISSION),  # type: ignore[arg-type]
        auto_fit=bool(of(AUTO_FIT)),
        packing=of(PACKED),  # type: ignore[arg-type]
        packed_state_buckets=bool(of(PACKED_STATE_BUCKETS)),
        extra_retained=of(EXTRA_RETAINED),  # type: ignore[arg-type]
        one_line_log=bool(of(ONE_LINE_LOG)),
        text=pick(TEXTS, version),
    )
