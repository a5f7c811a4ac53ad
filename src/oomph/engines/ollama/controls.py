"""What of Ollama's flags the page lets people move."""

from oomph.engines.values import Control

CONTROLS = (
    Control("num_ctx", "Context", "steps"),
    Control("num_parallel", "Requests at once", "steps", steps=(1, 2, 4, 8, 16)),
    Control("num_batch", "Tokens per step", "steps", steps=(64, 128, 256, 512, 1024, 2048)),
    Control("num_gpu", "Layers on the GPUs", "number", "offloaded"),
)
