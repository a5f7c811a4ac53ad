"""What TensorRT-LLM's PyTorch backend does with memory, by release.

Origins: `tensorrt_llm/_torch/pyexecutor/_util.py` (the budget and the temporary pool), `resource_manager.py` (the
pools), `llmapi/llm_args.py` (defaults), read in the history of the project's main branch. A release is the version of
main when a change landed there; a finished release may differ from that by one candidate.
"""

from oomph.facts.changes import Facts, changes, since, until
from oomph.facts.trtllm.versions import dated


class Memory(Facts):
    # resource_manager.py calculate_max_num_blocks (commit a38d91aae2, 2025-11-25): tokens to whole blocks
    rounding = changes("ceil", (dated("1.2.0rc5"), "floor"))
    # _util.py _get_token_num_for_estimation. "tokens": the largest of batch, tokens with a block for each sequence and
    # context. "requests": whole blocks of every dummy request. "slots" (2025-12-25): those, but at least what the
    # CUDA graphs' dummies need and one block for each slot of the batch; and never more than the share of what is free.
    temporary = changes("tokens", (dated("0.21.0"), "requests"), (dated("1.2.0rc8"), "slots"))
    # the blocks of the longest sequence in that rule: floor((max_seq_len + 1) / block), ceil since 2026-03-09
    graph_sequence = changes("floor", (dated("1.3.0rc7"), "ceil"))
    # the overlap scheduler adds a token to every sequence, and to the max_seq_len that is printed (until 2026-02-11)
    overlap_token = until(dated("1.3.0rc4"))
    # with attention data parallelism the dummies of all ranks are counted on each (until 2026-03-23)
    temporary_of_all_ranks = until(dated("1.3.0rc10"))
    # resource_manager.py get_cache_size_per_token knows NVFP4 caches (2025-12-03); before, it takes two bytes
    sizes_nvfp4 = since(dated("1.2.0rc6"))
    # _util.py _adjust_torch_mem_fraction (2025-07-15): PyTorch may not take more than what is free after the start
    caps_torch = since(dated("1.0.0rc4"))
    # llm_args.py KvCacheConfig.max_gpu_total_bytes (2025-08-25)
    has_byte_limit = since(dated("1.1.0rc2"))
    # TRTLLM_SKIP_KV_CACHE_ESTIMATION (2026-03-01)
    may_skip_estimation = since(dated("1.3.0rc6"))
    # llm_args.py CudaGraphConfig: graphs are on by default (2025-06-30)
    graphs_by_default = since(dated("1.0.0rc2"))
    # py_executor_creator.py: the list below the error names components by their enumeration (2025-11-05)
    raw_component_names = since(dated("1.2.0rc3"))
    # which lines are printed: "Estimated max tokens" (to 1.1.0rc1) or "Estimated max memory"
    prints_estimated_memory = since(dated("1.1.0rc2"))
    # llm_args.py update_llm_args_with_extra_dict: the file's kv_cache_config replaces the whole group in the sources of
    # 1.0 and 1.1 (`llm_args | llm_args_dict`), so that a fraction of the command line is lost; later sources merge the
    # two (_deep_merge). Which candidate of 1.2 was the first is not sure.
    merges_cache_config = since(dated("1.2.0rc0"))
    # llmapi/llm_utils.py _update_from_hf_quant_config: FP8 with one scale per tensor (Ministral 3) and llm-compressor's
    # FP8. The source of 1.0 and 1.1 has neither; a posted 1.2.1 reads compressed-tensors and refuses its
    # "nvfp4-pack-quantized". The candidate in which it came is not sure.
    reads_compressed_tensors = since(dated("1.2.0rc6"))
    # commands/serve.py: --kv_cache_dtype (pull request 11487, March 2026)
    kv_dtype_option = since(dated("1.3.0rc7"))
    # capacity scheduler: what a window lets one request hold beside itself. kvCacheManager.cpp: the request's own
    # new tokens, then the chunk that one step computes (`mChunkSize`)
    window_slack = changes("new tokens", (dated("1.3.0rc17"), "chunk"))
    # kvCacheManager.cpp countReusableBlocks(onlyAllocated=true) in getNeededBlocksOneStep and
    # getRemainingBlocksToCompletion: blocks of a prompt that others hold are taken off. The functions of 2025 do not
    # have it, those of 1.3.0rc17 do; the release between them is not sure
    counts_shared_blocks = since(dated("1.3.0rc10"))


# llm_args.py and builder.py, the same in every release that was read
MAX_BATCH_SIZE, MAX_NUM_TOKENS, MAX_BEAM_WIDTH = 2048, 8192, 1
FREE_FRACTION = 0.9
TOKENS_PER_BLOCK, FLASH_MLA_BLOCK = 32, 64
LORA_SHARE = 0.02  # llm_args.py PeftCacheConfig.device_cache_percent; 1 GiB of host memory beside it
MAX_UTIL_FOR_RESUME = 0.95  # llm_args.py KvCacheConfig.max_util_for_resume
GRAPH_LIMIT = 128  # CudaGraphConfig.max_batch_size where nothing is set
TORCH_SPARED = 32 << 20  # _adjust_torch_mem_fraction leaves so much outside of its cap
