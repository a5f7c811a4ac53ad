"""The three logs that oomph was started for, re-typed: the engine's own lines that matter, nothing else."""

GEMMA = """\
vllm serve --model nvidia/Gemma-4-31B-IT-NVFP4 --max_num_batched_tokens 1024 --language-model-only --max_num_seqs 1 \
--max-model-len 1024 --kv-cache-dtype fp8 --gpu-memory-utilization 0.9 --tensor_parallel_size 2
(APIServer pid=17897) INFO 05-30 01:45:33 [utils.py:240] non-default args: \
{‘model_tag’: ‘nvidia/Gemma-4-31B-IT-NVFP4’, \
‘model’: ‘nvidia/Gemma-4-31B-IT-NVFP4’, ‘max_model_len’: 1024, ‘tensor_parallel_size’: 2, \
‘gpu_memory_utilization’: 0.9, \
‘kv_cache_dtype’: ‘fp8’, ‘language_model_only’: True, ‘max_num_batched_tokens’: 1024, ‘max_num_seqs’: 1}
(APIServer pid=17897) WARNING 05-30 01:45:34 [modelopt.py:1024] Detected ModelOpt NVFP4 checkpoint (quant_algo=NVFP4).
(EngineCore pid=17968) INFO 05-30 01:45:41 [core.py:109] Initializing a V1 LLM engine (v0.21.0) with config: \
model=‘nvidia/Gemma-4-31B-IT-NVFP4’, speculative_config=None, dtype=torch.bfloat16, max_seq_len=1024, \
tensor_parallel_size=2, pipeline_parallel_size=1, quantization=modelopt_fp4, enforce_eager=False, kv_cache_dtype=fp8
(Worker_TP0 pid=18031) INFO 05-30 01:45:47 [gpu_model_runner.py:4857] Starting to load model \
nvidia/Gemma-4-31B-IT-NVFP4…
(Worker_TP0 pid=18031) ERROR 05-30 01:45:48 [gpu_model_runner.py:4957] Failed to load model - not enough GPU memory. \
Try lowering --gpu-memory-utilization to free memory for weights, increasing --tensor-parallel-size, or using \
--quantization. (original error: CUDA out of memory. Tried to allocate 56.00 MiB. GPU 0 has a total capacity of \
15.47 GiB of which 62.25 MiB is free. Process 5949 has 56.53 MiB memory in use. Process 6282 has 216.98 MiB memory in \
use. Including non-PyTorch memory, this process has 14.55 GiB memory in use. Of the allocated memory 14.01 GiB is \
allocated by PyTorch, and 104.58 MiB is reserved by PyTorch but unallocated.)
"""

QWEN = r"""
Model: cyankiwi/Qwen3.6-27B-AWQ-INT4
(EngineCore pid=258) INFO 04-24 10:21:03 \[default_loader.py:384\] Loading weights took 0.65 seconds
(EngineCore pid=258) INFO 04-24 10:21:03 \[gpu_model_runner.py:4820\] Model loading took 18.47 GiB memory and 10.99 seconds
(EngineCore pid=258) INFO 04-24 10:22:26 \[monitor.py:76\] Initial profiling/warmup run took 54.05 s
(EngineCore pid=258) WARNING 04-24 10:22:36 \[kv_cache_utils.py:1059\] Add 3 padding layers, may waste at most 6.25% KV cache memory
(EngineCore pid=258) INFO 04-24 10:22:36 \[kv_cache_utils.py:829\] Overriding num_gpu_blocks=0 with num_gpu_blocks_override=512
(EngineCore pid=258) ERROR 04-24 10:22:36 \[core.py:1108\] EngineCore failed to start.
(EngineCore pid=258) ERROR 04-24 10:22:36 \[core.py:1108\]   File "/usr/lib/vllm/v1/engine/core.py", line 848, in **init**
(EngineCore pid=258) ERROR 04-24 10:22:36 \[core.py:1108\]   File "/usr/lib/vllm/v1/worker/gpu_worker.py", line 381, in determine_available_memory
(EngineCore pid=258) ERROR 04-24 10:22:36 \[core.py:1108\]   File "/usr/lib/vllm/v1/worker/gpu_model_runner.py", line 5864, in profile_cudagraph_memory
(EngineCore pid=258) ERROR 04-24 10:22:36 \[core.py:1108\]   File "/usr/lib/vllm/v1/worker/gpu_model_runner.py", line 6529, in \_allocate_kv_cache_tensors
(EngineCore pid=258) ERROR 04-24 10:22:36 \[core.py:1108\] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.56 GiB. GPU 0 has a total capacity of 31.36 GiB of which 1.37 GiB is free. Including non-PyTorch memory, this process has 29.98 GiB memory in use. Of the allocated memory 24.95 GiB is allocated by PyTorch, and 758.67 MiB is reserved by PyTorch but unallocated.

        --gpu-memory-utilization 0.8
        --enable-prefix-caching
        --language-model-only
        --max-model-len 16384
        --kv-cache-dtype fp8
        --speculative-config '{"method": "mtp","num_speculative_tokens":2}'
"""  # noqa: E501

TOKENS = """\
/models/cyankiwi/gemma-4-31B-it-AWQ-4bit
  --tensor-parallel-size 2
  --max-num-seqs 1
  --gpu-memory-utilization 0.96
  --max-model-len 131072
INFO [gpu_model_runner.py:4820]  Model loading took 10.46 GiB memory and 2.480848 seconds
INFO [gpu_worker.py:436]  Available KV cache memory: 11.54 GiB
INFO [kv_cache_utils.py:1319] GPU KV cache size: 25,200 tokens
INFO [kv_cache_utils.py:1324] Maximum concurrency for 131,072 tokens per request: 1.87x
with --kv-cache-dtype fp8_e5m2: raise ValueError("fp8_e5m2 kv-cache is not supported with fp8 checkpoints.")
with --kv-cache-dtype fp8_e4m3: ValueError("type fp8e4nv not supported in this architecture.")
"""
