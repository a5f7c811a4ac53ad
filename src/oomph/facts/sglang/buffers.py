"""Buffers of a fixed size that SGLang makes beside its pools, and the releases that changed them.

Read from the releases 0.5.7 to 0.5.23. `mem_fraction_static` counts none of them.
"""

from oomph.facts.changes import Facts, changes, since

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
    # cuda_graph_setup.py: prefill graphs that nobody asked for are left out where less GiB are free
    least_free_for_prefill = changes(0.0, ("0.5.16", 4.0), ("0.5.18", 0.0))
