"""What moves Ollama's memory, as its users type it: a rule of the doctor names a lever, this table says the words."""

from oomph.engines.protocol import LeverWords

_SET = "Modelfile: PARAMETER {0}; chat: /set parameter {0}; API: options"
SETTINGS = {
    "layers": LeverWords(f"num_gpu {{n}}   ({_SET.format('num_gpu {n}')})", "layers on the CPU are slow", 2),
    "context": LeverWords(
        f"num_ctx {{n}}   ({_SET.format('num_ctx {n}')}; server: OLLAMA_CONTEXT_LENGTH={{n}})",
        "shorter requests",
        1,
        "8192",
    ),
    "kv_dtype": LeverWords(
        "OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE=q8_0   (in the server's environment, then restart it)",
        "8-bit KV values",
        3,
    ),
    "flash": LeverWords("OLLAMA_FLASH_ATTENTION=1   (in the server's environment, then restart it)", "", 1),
    "ubatch": LeverWords(f"num_batch 128   ({_SET.format('num_batch 128')})", "slower prompt processing", 3),
    "slots": LeverWords(
        "OLLAMA_NUM_PARALLEL=1   (in the server's environment, then restart it)", "one request at a time", 2
    ),
    "overhead": LeverWords(
        "OLLAMA_GPU_OVERHEAD=1073741824   (bytes per GPU, in the server's environment)", "fewer layers on the GPU", 3
    ),
    "evict": LeverWords(
        "ollama stop the other models, OLLAMA_MAX_LOADED_MODELS=1", "models are loaded one at a time", 2
    ),
    "quant": LeverWords("a tag with a smaller quantisation (or a smaller model)", "less exact weights", 5),
    "context_up": LeverWords(f"num_ctx {{n}}   ({_SET.format('num_ctx {n}')})", "allocated at the start", 1, "16384"),
}
