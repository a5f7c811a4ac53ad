"""How vLLM sizes, groups, checks and reports its KV cache, release by release.

Each fact is one decision of v1/core/kv_cache_utils.py or v1/kv_cache_interface.py. Line numbers are of the first
release of a value.
"""

from typing import Literal

from msgspec import Struct

from oomph.facts.changes import Dated, Facts, changes, since, until

DOCS = "https://docs.vllm.ai/en/latest/configuration/conserving_memory/"

Widest = Literal["page", "tuples", "slots", "widest", "aligned"]


class Text(Struct, frozen=True, kw_only=True):
    """What the memory check prints. `none`: no memory at all; `short`: too little for one request."""

    none: str
    short: str
    estimate: str  # goes into `short` where a length is known that would fit
    two_digits: bool  # "10.00" instead of "10.0"


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
AUTO_FIT_FAILS = (
    "Cannot auto-fit max_model_len: not enough GPU memory available to serve even a single token. "
    "Try increasing `gpu_memory_utilization`."
)
WINDOWS_DIFFER = "All attention layers in the same KV cache group must have the same window size."
_NOT_PADDED = (
    "Layer {layer}: page size is not divisible by the maximum page size and cannot be padded. Padding is only "
    "supported for "
)


class KvRules(Facts):
    # What one request of max_model_len is said to need. Per layer before grouping (0.11
    # :check_enough_kv_cache_memory), from the first group only (0.14 `any_spec = kv_cache_groups[0]`: hybrids are
    # under-counted), from all groups (0.19).
    need: Dated[Literal["layers", "first_group", "groups"]] = changes(
        "layers", ("0.14.0", "first_group"), ("0.19.0", "groups")
    )
    # 0.14-0.16 check the whole model's groups against the smallest worker; 0.17 projects the groups on each worker
    # first.
    check_per_worker = changes(True, ("0.14.0", False), ("0.17.0", True))
    # Before 0.17 a stage's only group kept the page sum of all stages, so pipeline stages got too few blocks.
    project_uniform = since("0.17.0")
    # `max_num_layers < min_num_layers * ratio` makes the larger count the group size (0 = rule absent).
    group_ratio = changes(0.0, ("0.12.0", 1.25), ("0.18.0", 1.5))
    # unify_kv_cache_spec_page_size: absent; larger blocks only; 0.24 pads layers whose backend strides by block; 0.26
    # pads states too; 0.29 pads every attention layer that is not MLA.
    unify: Dated[Literal["none", "scale", "stride_pad", "mamba_pad", "pad"]] = changes(
        "none", ("0.12.0", "scale"), ("0.24.0", "stride_pad"), ("0.26.0", "mamba_pad"), ("0.29.0", "pad")
    )
    merge_buckets = since("0.27.0")
    # Bytes of one block id when several groups mix page sizes (DeepSeek-V4).
    block_bytes: Dated[Widest] = changes(
        "page", ("0.20.0", "tuples"), ("0.23.0", "slots"), ("0.27.0", "widest"), ("0.31.0", "aligned")
    )
    need_unit: Dated[Widest] = changes("page", ("0.20.0", "tuples"), ("0.29.0", "widest"), ("0.31.0", "aligned"))
    # BlockPool's null block is held back in the check and in auto-fit.
    reserve_null_block = since("0.29.0")
    # Sliding and chunked layers hold the tokens of every batch in flight (vllm.py max_in_flight_tokens), not of one.
    in_flight = since("0.26.0")
    # "GPU KV cache size": num_blocks // groups * smallest block, then int(concurrency * max_model_len).
    tokens_from_concurrency = since("0.20.1")
    concurrency_from_bytes = until("0.27.0")
    override_is_checked = since("0.20.1")
    cp: Dated[Literal["dcp", "dcp*pcp"]] = changes("dcp", ("0.12.0", "dcp*pcp"), ("0.26.0", "dcp"))
    mla_merge_checks_sizes = since("0.28.0")
    # Before these the page was 2 * head_size even where V is narrower (MiMo-V2 padded V until 0.20).
    full_head_v = since("0.20.0")
    sliding_head_v = since("0.20.0")
    # States a request holds: always one; cdiv(len, block); by mamba_cache_mode; mode "all" plus the speculative ones.
    mamba: Dated[Literal["one", "len", "mode", "mode+spec"]] = changes(
        "one", ("0.11.1", "len"), ("0.15.0", "mode"), ("0.22.0", "mode+spec")
    )
    # indexes_kv_by_block_stride is a field that merging compares and that promoting a window forgets.
    stride_bases = since("0.32.0")  # worker/utils.py:484; 0.31.0 has no such rule
    merge_strided = changes(False, ("0.24.0", True), ("0.27.0", False))
    uniform_mamba_pages = since("0.29.0")
    promote: Dated[Literal["fields", "block"]] = changes("fields", ("0.27.0", "block"))
    # Waiting -> running: the next chunk fits; the whole prompt fits, windows ignored (0.19); windows capped (PR 39866).
    admission: Dated[Literal["chunk", "full", "capped"]] = changes("chunk", ("0.19.0", "full"), ("0.20.0", "capped"))
    auto_fit = since("0.14.0")
    packing: Dated[Literal["none", "dsv4", "packed"]] = changes("none", ("0.20.0", "dsv4"), ("0.29.0", "packed"))
    packed_state_buckets = since("0.30.0")
    # kv_cache_utils.py get_kv_cache_configs: several draft modules read further ahead, for which windows keep more
    windows_keep_drafts = since("0.28.0")
    one_line_log = since("0.28.0")
    text = changes(
        Text(none=f"{_NONE}.", short=f"{_MODELS} {_TRY}", estimate=_ESTIMATE, two_digits=True),
        (
            "0.13.0",
            Text(none=f"{_NONE}.{_SEE}", short=f"{_MODELS} {_TRY}{_SEE}", estimate=_ESTIMATE, two_digits=True),
        ),
        (
            "0.14.0",
            Text(none=f"{_NONE}.{_SEE}", short=f"{_MODELS}{_TRY}{_SEE}", estimate=f"{_ESTIMATE} ", two_digits=False),
        ),
        (
            "0.22.0",
            Text(
                none=f"{_NONE_CPU}{_SEE}",
                short=f"{_MODEL}{_TRY_CPU}{_SEE}",
                estimate=f"{_ESTIMATE} ",
                two_digits=False,
            ),
        ),
    )
    not_unified = changes(
        "",  # a bare NotImplementedError
        (
            "0.12.0",
            "The page size of the layer is not divisible by the maximum page size. "
            "Cannot unify by adjusting block_size.",
        ),
        (
            "0.24.0",
            f"{_NOT_PADDED}attention layers whose backend indexes KV pages by the block stride "
            "(indexes_kv_by_block_stride is True).",
        ),
        ("0.29.0", f"{_NOT_PADDED}non-MLA attention layers."),
    )
    not_promoted = changes(
        "Hybrid KV cache manager is disabled but failed to convert the KV cache specs to one unified type.",
        ("0.27.0", "Failed to promote local KV cache specs to one unified type."),
    )
    # v1/core/kv_cache_utils.py resolve_kv_cache_block_sizes; before, HybridKVCacheCoordinator's assertion
    groups_refuse_cp = changes(
        "AssertionError: DCP not support hybrid attn now.",
        (
            "0.20.0",
            "ValueError: Hybrid KV cache groups with multiple block sizes do not support context parallelism "
            "(dcp_world_size/pcp_world_size > 1).",
        ),
        ("0.26.0", ""),
    )
    # config/vllm.py validate_block_size: a step of the scheduler takes in whole blocks
    align_limit = changes(
        "",
        (
            "0.17.0",
            "In Mamba cache align mode, block_size ({block}) must be <= max_num_batched_tokens ({tokens}).",
        ),
        ("0.27.0", ""),
    )
    # v1/core/kv_cache_utils.py: a pipeline stage that got no layer
    empty_stage = changes(
        "AssertionError: group_size must be greater than 0",
        ("0.29.0", "ZeroDivisionError: integer division or modulo by zero"),
    )
