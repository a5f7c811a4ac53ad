"""How SGLang divides a GPU before it loads a weight: tiers by the card's size, and the reserve of the rest.

Origins: `server_args.py` `_handle_gpu_memory_settings` (0.5.7 to 0.5.18), `arg_groups/memory_hook.py` (0.5.19 on).
Sizes are MiB, as there.
"""

from typing import Literal

from msgspec import Struct

from oomph.facts.changes import Facts, changes, since, until


class Tier(Struct, frozen=True):
    """What a card with less than `below` MiB gets; 0 = every other card."""

    below: int
    chunk: int  # chunked_prefill_size
    graph_batch: int  # cuda_graph_max_bs
    wide_graph_batch: int  # the same with a tensor parallel size of 4 and more


_GIB = 1024
_UPPER = (
    Tier(60 * _GIB, 4096, 32, 160),
    Tier(160 * _GIB, 8192, 256, 512),
    Tier(0, 16384, 512, 512),
)

PrefillGraphs = Literal["asked for", "piecewise", "breakable"]


class Memory(Facts):
    # MiB gone between "Load weight end" and the reading for the pools, whatever the model. On Hopper 68
    # or 70 in seven of seven start-ups of 0.5.17 on an H200, and posted by an H100 (76) and an H20 (70); 0 to 16 in
    # five of five servers of 0.5.23. Posted lines of six other cards, to 0.01 GiB, leave 0 to 39.
    after_load_hopper = changes(70, ("0.5.23", 4))
    after_load_elsewhere = 25
    # 0.5.20: "32GB Blackwell can hold decode cuda graphs well past bs=24"
    tiers = changes(
        (Tier(20 * _GIB, 2048, 8, 8), Tier(35 * _GIB, 2048, 24, 80), *_UPPER),
        ("0.5.20", (Tier(20 * _GIB, 2048, 8, 8), Tier(35 * _GIB, 4096, 48, 160), *_UPPER)),
    )
    graphs_follow_requests = since("0.5.22")  # a default cuda_graph_max_bs is at most --max-running-requests
    largest_graph_listed = since("0.5.10")  # cuda_graph_max_bs is captured even where the steps leave it out

    # the reserve
    base = changes(512)
    per_token = changes(1.5)
    fewest_tokens = changes(2048)
    per_graph = changes(2)
    per_eight_ranks = changes(1024)
    large_card = changes(60 * _GIB)  # above it, at least `large_reserve`
    large_reserve = changes(10 * _GIB)
    reserve_without_graphs = until("0.5.15")  # decode graphs are reserved for even where they are switched off
    draft_reserve = changes(2048, ("0.5.10", 4096), ("0.5.14", 0))  # any speculative algorithm but the next two
    standalone_reserve = changes(6144, ("0.5.14", 0))
    deepep_reserve = changes(0, ("0.5.15", 2048))
    deepep_prefill_reserve = changes(0, ("0.5.17", 1024))

    # prefill graphs
    per_prefill_graph = changes(0, ("0.5.8", 8))  # before: an eighth of the tokens
    mla_prefill_reserve = changes(0, ("0.5.10", 1536))
    mla_prefill_tokens = changes(0, ("0.5.8", 2048), ("0.5.23", 8192))  # the largest prefill graph; 0 = the chunk
    mla_prefill_follows_chunk = since("0.5.23")
    total_tokens_bound_prefill = since("0.5.10")
    context_bounds_prefill = changes(False, ("0.5.13", True), ("0.5.17", False))
    first_middle_size = changes(640, ("0.5.9", 576))
    coarse_sizes = since("0.5.8")  # before: steps of 128 up to 4096 and of 256 above

    # images
    language_only = since("0.5.9")  # a worker without an encoder keeps its share
    language_model_only = since("0.5.18")
    decode_worker_keeps_share = since("0.5.17")
    embedding_cache = changes(0, ("0.5.18", 100))  # SGLANG_VLM_CACHE_SIZE_MB, out of the KV budget
    feature_cache = changes(0, ("0.5.18", 1024))  # SGLANG_MM_FEATURE_CACHE_MB, with --mm-feature-transport cuda_ipc


# num_hidden_layers and hidden_size of vision configs that leave them to their class or call them otherwise
# (transformers: Gemma3nVisionConfig; configs/kimi_k25.py and kimi_k3.py, whose files say vt_num_hidden_layers and
# vt_hidden_size)
ENCODER_SIZES = {
    "Gemma3nForConditionalGeneration": (24, 2048),
    "KimiK25ForConditionalGeneration": (27, 1152),
    "KimiK3ForConditionalGeneration": (27, 1024),
}
VIT_LARGE = (24, 1024)


def prefill_sizes(facts: Memory, largest: int) -> tuple[int, ...]:
    """The token counts for which prefill graphs are captured."""
    small = (*range(4, 33, 4), *range(48, 257, 16), *range(288, 513, 32))
    if facts.coarse_sizes:
        middle = (*range(facts.first_middle_size, 1025, 64), *range(1280, 4097, 256), *range(4608, largest + 1, 512))
    else:
        middle = (*range(640, 4097, 128), *range(4352, largest + 1, 256))
    return tuple(size for size in (*small, *middle) if size <= largest)


def decode_sizes(facts: Memory, largest: int, *, drafts: bool, padding: bool) -> tuple[int, ...]:
    """The batch sizes for which decode graphs are captured."""
    if not padding:
        sizes = tuple(range(1, largest + 1))
    elif drafts:
        sizes = (*range(1, 9), *range(10, 33, 2), *range(40, 65, 4), *range(72, 257, 8), *range(272, largest + 1, 16))
    else:
        sizes = (1, 2, 4, 8, 12, *range(16, 257, 8), *range(272, 512, 16), *range(512, largest + 1, 32))
    sizes = tuple(size for size in sizes if size <= largest)
    return (*sizes, largest) if facts.largest_graph_listed and largest not in sizes else sizes


# Buffers of a fixed size that SGLang makes beside its pools, and the releases that changed them.
#
# Read from the releases 0.5.7 to 0.5.23. `mem_fraction_static` counts none of them.

REQUEST_SLOT = 4  # mem_cache/memory_pool.py ReqToTokenPool: where each token of a request lies, int32
SPARE_TOKENS = 4  # mem_cache/kv_cache_configurator.py extra_max_context_len, and the drafts of a step

# cuda_graph_buffer_registry.py build_decode_registry: input_ids, positions, out_cache_loc and three rows of
# mrope_positions, int64 each
INPUT_BYTES = 6 * 8
LOGIT_BYTES = 4  # graph_shared_output.py: float32

KV_SPLITS = 8  # --triton-attention-num-kv-splits
LATENT_BLOCK = 32  # triton_backend.py _MLA_DECODE_MIN_BLOCK_KV
FLASHINFER_INT_WORKSPACE = 8 << 20  # flashinfer/decode.py: every wrapper's own; one wrapper for each decode graph


class Buffers(Facts):
    # model_executor/runner/eager_runner.py: input buffers for as many tokens as the pool has
    inputs_for_every_token = since("0.5.14")
    # triton_backend.py:73 _mla_decode_kv_splits_cap: latent attention splits by the card's multiprocessors
    latent_splits = since("0.5.12")


# How SGLang divides what the weights leave: one pool, two with sliding windows, states, DeepSeek-V4's own.
#
# Origins: `model_executor/model_runner_kv_cache_mixin.py` (to 0.5.15), `mem_cache/kv_cache_configurator.py` and
# `model_executor/pool_configurator.py` (0.5.16 on; the second from 0.5.11).


class Pools(Facts):
    window_pools = changes("tokens per layer", ("0.5.11", "cell"))
    window_ratio = changes(0.8)  # --swa-full-tokens-ratio
    window_from_requests = since("0.5.14")  # SWAChunkCapPoolConfigurator: no radix cache and --max-running-requests
    window_checked = since("0.5.16")  # validate_swa_pool_size
    eviction_interval = changes(128)  # SGLANG_SWA_EVICTION_INTERVAL

    state_ratio = changes(0.9)  # --mamba-full-memory-ratio
    spare_state = since("0.5.17")  # the pool's padding slot is counted
    states_checked = since("0.5.13")
    states_per_stage = since("0.5.17")  # only the largest stage's layers are charged under pipeline parallelism
    states_per_request = changes(3)  # MAMBA_CACHE_SIZE_MAX_RUNNING_REQUESTS_RATIO
    always_spare = changes(True, ("0.5.9", False))  # two more per request, whatever the strategy
    states_from_requests = changes("512", ("0.5.10", "ratio"))  # without a radix cache and --max-running-requests
    strategy_by_model = since("0.5.14")

    fewest_requests = changes(2048)
    most_requests = changes(4096)
    half_the_tokens = since("0.5.10")  # no more requests than half the tokens
    asked_requests_bounded = changes("estimate", ("0.5.13", "half the tokens"))
    at_least_one_request = since("0.5.17")

    budget_checked = since("0.5.14")  # "Loaded weights leave no GPU memory ..."
    kv_dtype_beside = since("0.5.16")  # ModelOpt's mixed checkpoints: the KV dtype of hf_quant_config.json
    packed_sparse = since("0.5.9")  # sparse latent attention in FP8 has scales beside it (656 bytes a token and layer)
    shared_index_elided = since("0.5.18")  # layers that use another layer's choice keep no index keys
    v4_pages_padded = since("0.5.21")  # and the states of ratio 4 follow the page, not the window
    v4_rings_by_request = since("0.5.15")  # the states of ratio 128 follow the requests, not the window pool
    v4_requests = changes(256)  # deepseek_v4_hook.py: max_running_requests where nobody says it
    v4_ratio = changes(0.1)
    v4_cache_dtypes = changes(frozenset(("fp8_e4m3",)), ("0.5.14", frozenset(("fp8_e4m3", "bfloat16"))))
    v4_page = changes(256)
