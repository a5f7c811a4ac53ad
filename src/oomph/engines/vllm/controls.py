"""What of vLLM's flags the page lets people move."""

from oomph.engines.values import Control

BATCHES = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
CONTROLS = (
    Control("max_model_len", "Context", "steps"),
    Control("max_num_seqs", "Requests at once", "steps", steps=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)),
    Control("max_num_batched_tokens", "Tokens per step", "steps", steps=BATCHES),
    Control("gpu_memory_utilization", "Share of the GPU", "share"),
    Control("tensor_parallel_size", "Tensor parallel", "choice", choices=("2", "4", "8", "16")),
    Control("pipeline_parallel_size", "Pipeline parallel", "choice", choices=("2", "4")),
    Control("kv_cache_dtype", "KV cache dtype", "choice", choices=("fp8", "fp8_e4m3", "fp8_e5m2")),
    Control("quantization", "Quantise while loading", "choice", choices=("fp8", "bitsandbytes")),
    Control("cpu_offload_gb", "GiB of weights in host memory", "number"),
    Control("enforce_eager", "No CUDA graphs", "switch"),
    Control("language_model_only", "Text only", "switch"),
    Control("enable_expert_parallel", "Expert parallel", "switch"),
)
