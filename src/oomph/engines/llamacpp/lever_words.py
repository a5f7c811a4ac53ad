# ruff: noqa: E501 - a row is a line
"""What moves llama.cpp's memory, as its users type it: a rule of the doctor names a lever, this table says the words."""

from oomph.engines.protocol import LeverWords

FLAGS = {
    "layers": LeverWords(
        "-ngl {n}   (fewer layers on the GPU; or --fit on without -ngl)", "layers on the CPU are slow", 2
    ),
    "context": LeverWords("-c {n}", "shorter requests", 3, "8192"),
    "kv_dtype": LeverWords("-fa on -ctk q8_0 -ctv q8_0", "8-bit KV values", 3),
    "flash": LeverWords("-fa on", "", 0),
    "ubatch": LeverWords("-ub 256", "slower prompt processing", 1),
    "op_offload": LeverWords("--no-op-offload", "what is on the CPU is multiplied there: slower prompts", 1),
    "quant_kv": LeverWords("-ctk q8_0 -ctv q8_0", "8-bit KV values", 3),
    "slots": LeverWords("-np 1", "one request at a time", 2),
    "experts": LeverWords("--n-cpu-moe {n}   (or -ot exps=CPU)", "experts on the CPU; MoE models only", 3),
    "split": LeverWords("-ts with less for the GPU that is short", "more on the others", 2),
    "one_copy": LeverWords("GGML_SCHED_MAX_COPIES=1   (a build option in some builds)", "a little less overlap", 1),
    "quant": LeverWords("a smaller GGUF quantisation", "less exact weights", 5),
    "context_up": LeverWords("-c {n}", "allocated at the start", 1, "16384"),
}
# LM Studio runs llama.cpp and has sliders instead of flags.
SLIDERS = {
    "layers": LeverWords('the "GPU Offload" slider lower: fewer layers on the GPU', "layers on the CPU are slow", 2),
    "context": LeverWords('"Context Length" lower in the load settings ({n})', "shorter requests", 1, "8192"),
    "kv_dtype": LeverWords('"Flash Attention" on, "K and V Cache Quantization Type" Q8_0', "8-bit KV values", 3),
    "flash": LeverWords('"Flash Attention" on', "", 1),
    "ubatch": LeverWords('"Evaluation Batch Size" lower', "slower prompt processing", 3),
    "host_kv": LeverWords('"Offload KV Cache to GPU Memory" off', "slower with long contexts", 4),
    "experts": LeverWords('"Force Model Expert Weights onto CPU" on', "experts on the CPU; MoE models only", 3),
    "quant": LeverWords("a smaller GGUF quantisation", "less exact weights", 5),
    "guardrail": LeverWords(
        'a lower "Model loading guardrails" level, if the estimate is wrong', "the load may fail later", 2
    ),
    "context_up": LeverWords('"Context Length" higher in the load settings', "allocated at the start", 1),
}
