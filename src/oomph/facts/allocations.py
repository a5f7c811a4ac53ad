# ruff: noqa: E501 - a row is a line
"""What an allocation was for, by the code that asked for it: frames of PyTorch's memory snapshot to parts.

The first row that any frame of an allocation is in wins. A frame is "file:function" as the snapshot has it.
"""

from typing import Final

# vLLM: v1/worker/gpu_model_runner.py, model_executor/; SGLang: srt/mem_cache/memory_pool.py, srt/model_executor/
PARTS: Final[tuple[tuple[str, str], ...]] = (
    ("KV cache", r":_?(?:allocate_kv_cache(?:_tensors)?|initialize_kv_cache(?:_tensors)?|_create_buffers|init_memory_pool|_init_cache_engine|_allocate_kv_cache_tensors)$|/memory_pool\.py:"),
    ("optimizer states", r"/optim(?:izer)?s?/|:(?:optimizer_step|_init_group|adamw?)$"),
    ("gradients", r":(?:backward|_engine_run_backward|accumulate_grad)$"),
    ("weights: draft model", r":load_draft_model$|/(?:eagle|medusa|mtp)\w*\.py:__init__$"),
    ("weights: encoder", r"/(?:vision|visual|siglip|clip|vit|whisper|audio)\w*\.py:(?:__init__|create_weights)$"),
    ("weights: adapters", r"/lora/\w+\.py:|:create_lora_weights$"),
    ("weights: experts", r"/fused_moe/.{0,80}:(?:create_weights|__init__|process_weights_after_loading)$|moe\w*\.py:create_weights$"),
    ("weights: embedding and head", r"vocab_parallel_embedding\.py:|:(?:VocabParallelEmbedding|ParallelLMHead)"),
    ("weights", r":(?:create_weights|initialize_model|_initialize_model|load_model|load_weights|process_weights_after_loading|from_pretrained|_load_state_dict_into_meta_model|load_state_dict)$"),
    ("CUDA graphs", r":(?:capture_model|_capture_cudagraphs|_warmup_and_capture|capture_one_batch_size|init_device_graphs|capture_begin|capture)$|/cuda_?graph\w*\.py:"),
    ("communication", r"/(?:pynccl|custom_all_reduce|quick_all_reduce|symm_mem|parallel_state|device_communicators)\w*[./]|:(?:ncclCommInitRank|init_process_group|all_reduce|all_gather)$"),
    ("workspaces", r"/flashinfer/|workspace\w*\.py:|:(?:_?get_workspace|allocate_\w{0,40}workspace|_allocate_workspace)\w*$"),
    ("sampler", r"/sample[rs]?/|/sampler\.py:|:(?:_dummy_sampler_run|sample|compute_logits|_get_prompt_logprobs_dict)$"),
    ("encoder runs", r":(?:_execute_mm_encoder|embed_multimodal|get_multimodal_embeddings|profile_multimodal)$"),
    ("activations", r":(?:profile_run|_dummy_run|execute_model|forward|forward_extend|forward_decode|_forward_step|__call__)$"),
    ("buffers of the runner", r"/(?:gpu_model_runner|model_runner|gpu_worker|block_table|input_batch|tp_worker|scheduler)\w*\.py:"),
)  # fmt: skip
REST: Final = "elsewhere"
UNTRACED: Final = "before the recording began"  # allocations without a frame
