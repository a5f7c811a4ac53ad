"""What Ollama passes to the llama-server inside it, 0.30 and later (llm/, server/sched.go, envconfig at 0.33.0-rc2)."""

from typing import Final

from oomph.units import GIB, MIB

NEWEST: Final = "0.33.0"
LOOKED_AT: Final = "2026-11-15"  # the day on which it was the newest
SINCE: Final = (0, 30)  # "Remove CGO engines, use llama-server exclusively for GGML models"

# default num_ctx: memory of all GPUs together, each less OLLAMA_GPU_OVERHEAD
CONTEXT_TIERS: Final = ((47 * GIB, 262_144), (23 * GIB, 32_768), (0, 4_096))
MIN_CONTEXT: Final = 4
MIN_CONTEXT_VISION: Final = 2048

# num_batch by num_ctx x parallel
BATCH_TIERS: Final = ((32_768, 2048), (4_096, 1024), (-1, 512))
# a batch is kept where the prediction leaves this much: batch -> (share of free memory, surcharge)
BATCH_ROOM: Final = {2048: (0.60, 2 * GIB), 1024: (0.75, 768 * MIB)}
SHARE: Final = 0.80  # of free memory that a prediction may take

MARGIN: Final = 1 * GIB  # what a projector needs beside its weights to stay on the GPU

# one request at a time whatever OLLAMA_NUM_PARALLEL says; GGUF architectures
NO_PARALLEL: Final = frozenset(
    ("mllama", "qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe", "qwen3next", "lfm2", "lfm2moe", "nemotron_h",
     "nemotron_h_moe", "nemotron_h_omni")
)  # fmt: skip
# the same models by Hugging Face's model_type
NO_PARALLEL_HF: Final = frozenset(
    ("mllama", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_next", "lfm2", "lfm2_moe",
     "nemotron_h")
)  # fmt: skip


def default_context(memory: int) -> int:
    return next(n for least, n in CONTEXT_TIERS if memory >= least)


def default_batch(tokens: int) -> int:
    return next(n for least, n in BATCH_TIERS if tokens > least)
