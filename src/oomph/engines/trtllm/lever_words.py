# ruff: noqa: E501 - a row is a line
"""What moves TensorRT-LLM's memory, as its users type it: a rule of the doctor names a lever, this table says the words."""

from __future__ import annotations

from oomph.engines.protocol import LeverWords

OPTIONS = {
    "fraction_down": LeverWords(
        "--kv_cache_free_gpu_memory_fraction {n}   (kv_cache_config.free_gpu_memory_fraction in the options file)",
        "less KV cache",
        1,
        "0.7",
    ),
    "fraction_up": LeverWords(
        "--kv_cache_free_gpu_memory_fraction {n}   (kv_cache_config.free_gpu_memory_fraction in the options file)",
        "less room for the rest",
        1,
        "0.95",
    ),
    "batched_tokens": LeverWords("--max_num_tokens {n}", "long prompts in more steps", 1, "2048"),
    "max_num_seqs": LeverWords("--max_batch_size {n}", "fewer requests at once", 2, "64"),
    "context": LeverWords("--max_seq_len {n}", "shorter requests", 2, "8192"),
    "eager": LeverWords("cuda_graph_config: null in the options file", "slower decoding", 4),
    "kv_dtype": LeverWords("kv_cache_config.dtype: fp8 in the options file", "KV values are kept in 8 bits", 4),
    "tp_up": LeverWords("--tp_size {n}", "needs more GPUs", 8),
    "quant": LeverWords("a smaller quantisation of the same model", "another checkpoint to download", 5),
}
