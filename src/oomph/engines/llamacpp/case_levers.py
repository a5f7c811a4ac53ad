"""What moves llama.cpp's memory, in a log that no plan is made of; and the sliders of LM Studio, which runs it."""

from typing import TYPE_CHECKING

from oomph.engines.common.case_levers import CaseRow
from oomph.engines.llamacpp.log.context import SMALLEST, context_of

if TYPE_CHECKING:
    from oomph.doctor.case import Case


def _context(case: "Case") -> int | None:
    return context_of(case) or None


FLAGS = {
    "layers": CaseRow(
        "-ngl {n}   (fewer layers on the GPU; or --fit on without -ngl)", "layers on the CPU are slow", 2,
        "n_gpu_layers", popular="fewer layers on the GPU",
    ),
    "context": CaseRow(
        "-c {n}", "shorter requests", 3, "ctx_size", 8192, popular="a smaller context", below=_context, least=SMALLEST
    ),
    "kv_dtype": CaseRow("-fa on -ctk q8_0 -ctv q8_0", "8-bit KV values", 3, "cache_type"),
    "flash": CaseRow("-fa on", "", 0, "flash_attn"),
    "batch": CaseRow("-ub 256", "slower prompt processing", 1, "ubatch_size"),
    "draft_layers": CaseRow(
        "-ngld 0   (the draft model on the CPU; or start without -md)", "slower drafts", 1, "n_gpu_layers_draft"
    ),
    "op_offload": CaseRow("--no-op-offload", "what is on the CPU is multiplied there: slower prompts", 1),
    "quant_kv": CaseRow("-ctk q8_0 -ctv q8_0", "8-bit KV values", 3, "cache_type"),
    "sequences": CaseRow("-np 1", "one request at a time", 2, "slots"),
    "experts": CaseRow("--n-cpu-moe {n}   (or -ot exps=CPU)", "experts on the CPU; MoE models only", 3, "n_cpu_moe"),
    "split": CaseRow("-ts with less for the GPU that is short", "more on the others", 2, "tensor_split"),
    "one_copy": CaseRow("GGML_SCHED_MAX_COPIES=1   (a build option in some builds)", "a little less overlap", 1),
    "checkpoint": CaseRow("a smaller GGUF quantisation", "less exact weights", 5, kind="checkpoint"),
    "context_up": CaseRow("-c {n}", "allocated at the start", 1, usual=16384),
    "fit": CaseRow("without {n}", "some layers run on the CPU", 0),
    "fit_on": CaseRow("--fit on", popular="--fit on"),
}  # fmt: skip
SLIDERS = {
    "layers": CaseRow(
        'the "GPU Offload" slider lower: fewer layers on the GPU', "layers on the CPU are slow", 2, "n_gpu_layers",
        popular="fewer layers on the GPU",
    ),
    "context": CaseRow(
        '"Context Length" lower in the load settings ({n})', "shorter requests", 1, "ctx_size", 8192,
        popular="a smaller context", below=_context, least=SMALLEST,
    ),
    "kv_dtype": CaseRow(
        '"Flash Attention" on, "K and V Cache Quantization Type" Q8_0', "8-bit KV values", 3, "cache_type"
    ),
    "flash": CaseRow('"Flash Attention" on', "", 1, "flash_attn"),
    "batch": CaseRow('"Evaluation Batch Size" lower', "slower prompt processing", 3, "ubatch_size"),
    "host_kv": CaseRow('"Offload KV Cache to GPU Memory" off', "slower with long contexts", 4),
    "experts": CaseRow(
        '"Force Model Expert Weights onto CPU" on', "experts on the CPU; MoE models only", 3, "n_cpu_moe"
    ),
    "checkpoint": CaseRow("a smaller GGUF quantisation", "less exact weights", 5, kind="checkpoint"),
    "guardrail": CaseRow(
        'a lower "Model loading guardrails" level, if the estimate is wrong', "the load may fail later", 2
    ),
    "context_up": CaseRow('"Context Length" higher in the load settings', "allocated at the start", 1),
}  # fmt: skip
