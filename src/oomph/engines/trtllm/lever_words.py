# ruff: noqa: E501 - a row is a line
"""What moves TensorRT-LLM's memory, as its users type it: a rule of the doctor names a lever, this table says the words."""

from oomph.engines.protocol import LeverWords

_FRACTION = "kv_cache_config.free_gpu_memory_fraction"

OPTIONS = {
    "fraction_down": LeverWords("--kv_cache_free_gpu_memory_fraction {n}", "less KV cache", 1, "0.7", _FRACTION),
    "fraction_up": LeverWords(
        "--kv_cache_free_gpu_memory_fraction {n}", "less room for the rest", 1, "0.95", _FRACTION
    ),
    "batched_tokens": LeverWords("--max_num_tokens {n}", "long prompts in more steps", 1, "2048", "max_num_tokens"),
    "max_num_seqs": LeverWords("--max_batch_size {n}", "fewer requests at once", 2, "64", "max_batch_size"),
    "context": LeverWords("--max_seq_len {n}", "shorter requests", 2, "8192", "max_seq_len"),
    "eager": LeverWords(
        "cuda_graph_config: null in the options file", "slower decoding", 4, "null", "cuda_graph_config"
    ),
    "kv_dtype": LeverWords(
        "kv_cache_config.dtype: fp8 in the options file",
        "KV values are kept in 8 bits",
        4,
        "fp8",
        "kv_cache_config.dtype",
    ),
    "tp_up": LeverWords("--tp_size {n}", "needs more GPUs", 8),
    "quant": LeverWords("a smaller quantisation of the same model", "another checkpoint to download", 5),
}
