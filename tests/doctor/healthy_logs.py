# ruff: noqa: E501 - a row is a line
"""Logs of servers that came up, in our own words: one per engine and generation."""

LOGS = {
    "vllm V1": (
        "INFO 05-30 01:45:01 [api_server.py:1287] vLLM API server version 0.21.0\n"
        "(EngineCore pid=7) INFO 05-30 01:45:33 [gpu_model_runner.py:4820] Model loading took 15.27 GiB memory and 10.99 seconds\n"
        "(EngineCore pid=7) INFO 05-30 01:45:53 [gpu_worker.py:300] Available KV cache memory: 4.39 GiB\n"
        "(EngineCore pid=7) INFO 05-30 01:45:53 [kv_cache_utils.py:1300] GPU KV cache size: 31,968 tokens\n"
        "(EngineCore pid=7) INFO 05-30 01:46:10 [gpu_model_runner.py:5200] Graph capturing finished in 9 secs, took 0.61 GiB\n"
        "INFO:     Application startup complete.\n"
    ),
    "vllm V0": (
        "INFO 02-05 11:19:12 model_runner.py:1115] Loading model weights took 14.9888 GB\n"
        "INFO 02-05 11:19:20 executor_base.py:111] # cuda blocks: 53965, # CPU blocks: 4681\n"
        "INFO 02-05 11:19:42 llm_engine.py:431] init engine (profile, create kv cache, warmup model) took 54.63 seconds\n"
    ),
    "sglang": (
        "[2025-10-22 20:22:01 TP0] Load weight end. type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=63.20 GB, mem usage=15.30 GB.\n"
        "[2025-10-22 20:22:04 TP0] Memory pool end. avail mem=9.10 GB\n"
        "[2025-10-22 20:22:30 TP0] max_total_num_tokens=371042, chunked_prefill_size=8192, max_running_requests=2048\n"
        "[2025-10-22 20:22:33] The server is fired up and ready to roll!\n"
    ),
    "llama.cpp": (
        "load_tensors:        CUDA0 model buffer size =  4685.30 MiB\n"
        "llama_context:      CUDA0 compute buffer size =   560.00 MiB\n"
        "main: server is listening on http://0.0.0.0:8080 - starting the main loop\n"
    ),
    "ollama": (
        'time=2025-05-01T10:00:00.000Z level=INFO source=server.go:630 msg="llama runner started in 2.51 seconds"\n'
        '[GIN] 2025/05/01 - 10:00:02 | 200 |  1.2s |       127.0.0.1 | POST     "/api/chat"\n'
    ),
}  # fmt: skip
