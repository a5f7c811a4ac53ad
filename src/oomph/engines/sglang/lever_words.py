"""What moves SGLang's memory, as its users type it: a rule of the doctor names a lever, this table says the words."""

from oomph.engines.protocol import LeverWords

FLAGS = {
    "fraction_down": LeverWords("--mem-fraction-static {n}", "less KV cache", 1, "0.8"),
    "fraction_up": LeverWords("--mem-fraction-static {n}", "less room for activations and graphs", 1, "0.92"),
    "chunk": LeverWords("--chunked-prefill-size 2048", "long prompts in more steps", 1),
    "requests": LeverWords("--max-running-requests {n}", "fewer requests at once", 2, "32"),
    "capture": LeverWords("--cuda-graph-max-bs 16", "larger batches run without graphs", 2),
    "eager": LeverWords("--disable-cuda-graph", "slower decoding", 6),
    "context": LeverWords("--context-length {n}", "shorter requests", 3, "32768"),
    "kv_dtype": LeverWords("--kv-cache-dtype fp8_e5m2", "KV values are kept in 8 bits", 4),
    "tp_up": LeverWords("--tp {n}", "needs more GPUs", 8),
    "offload": LeverWords("--cpu-offload-gb {n}", "every step reads them over PCIe", 7, "8"),
    "quant": LeverWords("a smaller quantisation of the same model", "another checkpoint to download", 5),
}
