"""What moves TensorRT-LLM's memory, in a log that no plan is made of."""

from oomph.engines.common.case_levers import CaseRow, in_force

_FRACTION = "kv_cache_config.free_gpu_memory_fraction"
_SET_AS = ("kv_cache_free_gpu_memory_fraction", "free_gpu_memory_fraction")

OPTIONS = {
    "share_down": CaseRow(
        "--kv_cache_free_gpu_memory_fraction {n}", "less KV cache", 1, "free_gpu_memory_fraction_down", 0.7, _FRACTION,
        below=in_force(*_SET_AS), popular="a lower free_gpu_memory_fraction",
    ),
    "share_up": CaseRow(
        "--kv_cache_free_gpu_memory_fraction {n}", "less room for the rest", 1, "free_gpu_memory_fraction_up", 0.95,
        _FRACTION, popular="a higher free_gpu_memory_fraction",
    ),
    "batch": CaseRow(
        "--max_num_tokens {n}", "long prompts in more steps", 1, "", 2048, "max_num_tokens",
        below=in_force("max_num_tokens"), popular="a smaller max_num_tokens",
    ),
    "sequences": CaseRow(
        "--max_batch_size {n}", "fewer requests at once", 2, "", 64, "max_batch_size",
        below=in_force("max_batch_size"), popular="a smaller max_batch_size alone",
    ),
    "sequences_alone": CaseRow("", popular="a smaller max_batch_size alone"),
    "context": CaseRow(
        "--max_seq_len {n}", "shorter requests", 2, "", 8192, "max_seq_len",
        below=in_force("context_length", "max_seq_len"), least=2048,
    ),
    "no_graphs": CaseRow(
        "cuda_graph_config: null in the options file", "slower decoding", 4, "cuda_graph_config",
        flags={"cuda_graph_config": "null"},
    ),
    "kv_dtype": CaseRow(
        "kv_cache_config.dtype: fp8 in the options file", "KV values are kept in 8 bits", 4, "kv_cache_dtype",
        flags={"kv_cache_config.dtype": "fp8"},
    ),
    "more_gpus": CaseRow("--tp_size {n}", "needs more GPUs", 8, "more_gpus", kind="hardware"),
    "checkpoint": CaseRow(
        "a smaller quantisation of the same model", "another checkpoint to download", 5, kind="checkpoint"
    ),
    "backend": CaseRow("another attn_backend in the options file", "other kernels", 3),
}  # fmt: skip
