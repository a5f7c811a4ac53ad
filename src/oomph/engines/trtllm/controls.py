"""What of TensorRT-LLM's settings the page lets people move."""

from oomph.engines.values import Control

CONTROLS = (
    Control("max_seq_len", "Context", "steps"),
    Control("max_batch_size", "Requests at once", "steps", steps=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)),
    Control("max_num_tokens", "Tokens per step", "steps", steps=(512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)),
    Control("kv_cache_config.free_gpu_memory_fraction", "Share of what is free", "share", "free_gpu_memory_fraction"),
    Control("tensor_parallel_size", "Tensor parallel", "choice", choices=("2", "4", "8", "16")),
)
