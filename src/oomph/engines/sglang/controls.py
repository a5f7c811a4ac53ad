"""What of SGLang's flags the page lets people move."""

from oomph.engines.values import Control

BATCHES = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
CONTROLS = (
    Control("context_length", "Context", "steps"),
    Control("max_running_requests", "Requests at once", "steps", steps=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)),
    Control("chunked_prefill_size", "Tokens per step", "steps", steps=BATCHES),
    Control("mem_fraction_static", "Share of the GPU", "share"),
    Control("tp_size", "Tensor parallel", "choice", choices=("2", "4", "8", "16")),
    Control("kv_cache_dtype", "KV cache dtype", "choice", choices=("fp8_e4m3", "fp8_e5m2")),
    Control("cpu_offload_gb", "GiB of weights in host memory", "number"),
    Control("disable_cuda_graph", "No CUDA graphs", "switch"),
    Control("disable_radix_cache", "No prefix cache", "switch"),
)
