"""The words that SGLang's options take, where their number is bounded.

Of an option the words of all releases from 0.5.7 to 0.5.23 together, read off the `choices` and the Literal annotations
of their 17 wheels: a word that none of them has is refused by every release, one that came or went between them is let
pass. What is not here takes any word: speculative_algorithm and sampling_backend have names that plugins add.
"""

_ROWS = """
    attention_backend decode_attention_backend prefill_attention_backend: aiter ascend compressed cutedsl_mla
        cutlass_mla dsa dsv4 dual_chunk_flash_attn fa3 fa4 flashinfer flashmla flex_attention hpc_ops intel_amx
        intel_xpu llada2_cfg_flashinfer minicpm_flashattn minicpm_flashinfer nsa qsa tokenspeed_mla torch_native
        triton trtllm_mha trtllm_mla wave
    bf16_gemm_backend: auto cutedsl flashinfer_pr4266 gemv torch
    boundary_reduction: ar auto rs rs+rsv rsv
    cp_strategy: interleave zigzag
    cuda_graph_backend_decode cuda_graph_backend_prefill: breakable disabled full tc_piecewise
    cuda_graph_tc_compiler piecewise_cuda_graph_compiler: eager inductor
    dcp_comm_backend: a2a ag_rs fi_a2a
    decoupled_spec_role: drafter null verifier
    deepep_dispatcher_output_dtype: auto bf16 fp8 int8 nvfp4
    deepep_mode: auto low_latency normal
    deepep_v2_mode: direct hybrid
    disaggregation_decode_allocation_policy: early prefill_complete
    disaggregation_decode_retraction_backup: cpu_tensor host_pool none
    disaggregation_mode: decode null prefill
    disaggregation_transfer_backend: ascend fake mooncake mooncake_tcp mori nixl
    dsa_decode_backend: aiter fa3 flashinfer_sparse_mla flashmla_auto flashmla_kv flashmla_sparse
        flashmla_sparse_q8 intel_xpu tilelang triton trtllm
    dsa_paged_mqa_logits_backend: aiter auto cutedsl deepgemm
    dsa_prefill_backend: aiter fa3 flashinfer_sparse_mla flashmla_auto flashmla_kv flashmla_sparse
        flashmla_sparse_q8 intel_xpu tilelang triton triton_sparse_mla trtllm
    dsa_prefill_cp_mode nsa_prefill_cp_mode: in-seq-split round-robin-split
    dsa_topk_backend speculative_dsa_topk_backend: flashinfer sgl-kernel torch
    dsa_triton_union: 0 2 4
    dsv4_attn_backend: auto flashmla flashmla_mega trtllm
    dsv4_prefill_backend: auto flashmla_sparse flashmla_sparse_q8
    dtype: auto bfloat16 float float16 float32 half
    elastic_ep_backend: mooncake nixl none
    encoder_transfer_backend: auto mooncake zmq_to_scheduler zmq_to_tokenizer
    ep_join_mode: recover scale
    expert_balancedness_report_mode: both off prometheus server_log
    flashinfer_a2a_dispatch_type: auto bf16 mxfp8 nvfp4
    flashinfer_allreduce_fusion_backend: auto cutedsl mnnvl trtllm
    flashinfer_mxfp4_moe_precision: bf16 default fp8
    fp4_gemm_runner_backend: auto cutlass flashinfer_cudnn flashinfer_cutedsl flashinfer_cutlass
        flashinfer_trtllm marlin
    fp8_gemm_runner_backend: aiter auto cutlass deep_gemm flashinfer_cutedsl flashinfer_cutlass
        flashinfer_deepgemm flashinfer_trtllm triton
    fuseep_mode: 1 2
    grammar_backend: llguidance none outlines xgrammar
    hicache_host_memory_mode: buffer_only cache
    hicache_io_backend: direct kernel kernel_ascend
    hicache_mem_layout: layer_first page_first page_first_direct page_first_kv_split page_head
    hicache_storage_backend: aibrix dynamic eic file hf3fs mooncake mori nixl npu_memcache seaweedfs shm sim
        simm tensorcast
    hicache_storage_prefetch_policy: best_effort timeout wait_complete
    hicache_write_policy: write_back write_through write_through_selective
    image_processor_backend: auto pil torchvision
    kv_cache_dtype: auto bf16 bfloat16 fp4_e2m1 fp4_mx_block16 fp8_e4m3 fp8_e5m2 mxfp8 nvfp4
    kv_canary: log none raise
    linear_attn_backend linear_attn_decode_backend linear_attn_prefill_backend: cutedsl flashinfer flashkda
        helion intel_xpu nvidia_kda ptx_kda triton
    linear_attn_verify_backend: cutedsl flashinfer flashkda helion intel_xpu nv_cutedsl nvidia_kda ptx_kda
        triton
    load_balance_method: auto decode_round_robin follow_bootstrap_room minimum_tokens round_robin shortest_queue
        total_requests total_tokens
    load_format speculative_draft_load_format: auto bitsandbytes dummy expert_pack fastsafetensors flash_rl gguf
        instanttensor layered mistral npcache presharded private pt remote remote_instance runai_streamer
        safetensors sharded_state
    log_requests_format: json text
    log_requests_level: 0 1 2 3
    lora_backend: ascend csgmv torch_native triton triton_v2
    lora_eviction_policy: fifo lru
    mamba_backend: flashinfer triton
    mamba_radix_cache_strategy mamba_scheduler_strategy: auto extra_buffer extra_buffer_lazy no_buffer
    mamba_ssm_dtype: bfloat16 float16 float32
    max_lora_chunk_size: 128 16 32 64
    mm_attention_backend: aiter_attn amx_attn ascend_attn fa3 fa4 flashinfer_cudnn sdpa triton_attn xpu_attn
    mm_feature_transport: cpu cuda_ipc cuda_vmm
    mm_global_cache_backend: mooncake
    moe_a2a_backend: ascend_fuseep ascend_tp deepep deepep_v2 flashinfer flashinfer_megamoe megamoe mooncake
        mori nixl none pplx
    moe_runner_backend speculative_moe_runner_backend: aiter auto cutlass deep_gemm experimental_sgl_marlin
        experimental_sgl_trtllm flashinfer_cutedsl flashinfer_cutlass flashinfer_megamoe flashinfer_mxfp4
        flashinfer_trtllm flashinfer_trtllm_routed hpc_ops humming intel_xpu lora_cutedsl lora_marlin
        lora_triton marlin megamoe triton triton_kernel
    nsa_decode_backend nsa_prefill_backend: aiter fa3 flashinfer_sparse_mla flashmla_auto flashmla_kv
        flashmla_sparse flashmla_sparse_q8 tilelang trtllm
    ple_offload_backend: file pinned
    prefill_cp_mode: in-seq-split
    prefill_kv_cache_dequant_dtype: auto fp8_e4m3 nvfp4
    qsa_indexer_dtype: auto bfloat16 fp8_e4m3
    quantization speculative_draft_model_quantization: auto-round auto-round-int8 awq awq_marlin bitsandbytes
        compressed-tensors fp8 gguf gptq gptq_marlin humming marlin mlx_q4 mlx_q8 modelopt modelopt_fp4
        modelopt_fp8 modelopt_mixed modelslim moe_wna16 mxfp4 mxfp8 mxfp_w4a8 nvfp4_online petit_nvfp4 qoq quark
        quark_int4fp8_moe quark_mxfp4 unquant w4afp8 w8a8_fp8 w8a8_int8
    radix_eviction_policy: lfu lru priority slru tlru
    remote_instance_weight_loader_backend: modelexpress nccl transfer_engine
    retraction_policy: length priority
    return_hidden_states_mode: full last
    rl_on_policy_target: fsdp
    sampling_defaults: model openai
    schedule_policy: dfs-weight fcfs hrrn lof lpm priority random routing-key shortest-prefill-first
    speculative_attention_mode: decode prefill
    speculative_draft_kv_cache_dtype: auto bf16 bfloat16 fp8_e4m3 fp8_e5m2
    speculative_moe_a2a_backend: ascend_fuseep ascend_tp deepep deepep_v2 flashinfer megamoe mooncake mori nixl
        none pplx
    speculative_ngram_match_type: BFS PROB
    startup_weight_load_mode: overlap serial
    tokenizer_backend: fastokens huggingface
    tokenizer_mode: auto slow
    unified_cache_external_linker_backend: dynamic mooncake mori
    weight_cache_mode: client daemon off
"""


def _read(rows: str) -> dict[str, frozenset[str]]:
    """`option option: word word` in a line and the deeper ones below it."""
    choices: dict[str, frozenset[str]] = {}
    for row in rows.strip("\n").replace("\n        ", " ").split("\n"):
        options, words = row.split(":")
        choices |= dict.fromkeys(options.split(), frozenset(words.split()))
    return choices


CHOICES = _read(_ROWS)
