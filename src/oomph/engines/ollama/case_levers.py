"""What moves Ollama's memory, in a log that no plan is made of."""

from oomph.engines.common.case_levers import CaseRow
from oomph.engines.llamacpp.log.context import SMALLEST, context_of

_SET = "Modelfile: PARAMETER {0}; chat: /set parameter {0}; API: options"
_RESTART = "(in the server's environment, then restart it)"

SETTINGS = {
    "layers": CaseRow(
        f"num_gpu {{n}}   ({_SET.format('num_gpu {n}')})", "layers on the CPU are slow", 2, "n_gpu_layers",
        popular="fewer layers on the GPU",
    ),
    "context": CaseRow(
        f"num_ctx {{n}}   ({_SET.format('num_ctx {n}')}; server: OLLAMA_CONTEXT_LENGTH={{n}})", "shorter requests", 1,
        "num_ctx", 8192, popular="a smaller context", below=lambda case: context_of(case) or None, least=SMALLEST,
    ),
    "kv_dtype": CaseRow(
        f"OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE=q8_0   {_RESTART}", "8-bit KV values", 3, "kv_cache_type"
    ),
    "flash": CaseRow(f"OLLAMA_FLASH_ATTENTION=1   {_RESTART}", "", 1, "flash_attn"),
    "batch": CaseRow(f"num_batch 128   ({_SET.format('num_batch 128')})", "slower prompt processing", 3, "ubatch_size"),
    "sequences": CaseRow(f"OLLAMA_NUM_PARALLEL=1   {_RESTART}", "one request at a time", 2, "slots"),
    "overhead": CaseRow(
        "OLLAMA_GPU_OVERHEAD=1073741824   (bytes per GPU, in the server's environment)", "fewer layers on the GPU", 3
    ),
    "evict": CaseRow("ollama stop the other models, OLLAMA_MAX_LOADED_MODELS=1", "models are loaded one at a time", 2),
    "checkpoint": CaseRow(
        "a tag with a smaller quantisation (or a smaller model)", "less exact weights", 5, kind="checkpoint"
    ),
    "context_up": CaseRow(f"num_ctx {{n}}   ({_SET.format('num_ctx {n}')})", "allocated at the start", 1, usual=16384),
    "layers_auto": CaseRow("without num_gpu", "Ollama chooses the layers", 0),
}  # fmt: skip
