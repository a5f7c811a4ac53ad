"""How SGLang divides what the weights leave: one pool, two with sliding windows, states, DeepSeek-V4's own.

Origins: `model_executor/model_runner_kv_cache_mixin.py` (to 0.5.15), `mem_cache/kv_cache_configurator.py` and
`model_executor/pool_configurator.py` (0.5.16 on; the second from 0.5.11).
"""

from oomph.facts.changes import Facts, changes, since


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
