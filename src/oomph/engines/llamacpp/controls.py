"""What of llama.cpp's flags the page lets people move."""

from oomph.engines.values import Control

CONTROLS = (
    Control("ctx_size", "Context", "steps", "n_ctx"),
    Control("parallel", "Slots", "steps", "n_seq_max", steps=(1, 2, 4, 8, 16, 32, 64)),
    Control("ubatch_size", "Tokens per step", "steps", "n_ubatch", steps=(64, 128, 256, 512, 1024, 2048, 4096)),
    Control("n_gpu_layers", "Layers on the GPUs", "number", "offloaded"),
    Control("cache_type_k", "Keys", "choice", "type_k", choices=("q8_0", "q5_1", "q4_0")),
    Control("cache_type_v", "Values", "choice", "type_v", choices=("q8_0", "q5_1", "q4_0")),
    Control("flash_attn", "Flash attention", "choice", choices=("on", "off")),
    Control("swa_full", "Whole windows in the cache", "switch"),
)
