# ruff: noqa: E501 - a row is a line
"""What moves memory, as each engine calls it and as it is set there: a rule names levers, this table says the words.

vLLM's own remedies are in doctor/advice.py, because they are planned. A lever that an engine does not have is left out:
nobody gets another engine's flag.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oomph.doctor.case import Case
from oomph.doctor.rule import Kind, Remedy


class Words(NamedTuple):
    change: str  # as it is typed; {n} is a number that the rule may know
    costs: str
    rank: int
    unknown: str = "N"  # what stands for {n} where the rule does not know it


LLAMACPP = {
    "layers": Words("-ngl {n}   (fewer layers on the GPU; or --fit on without -ngl)", "layers on the CPU are slow", 2),
    "context": Words("-c {n}", "shorter requests", 3, "8192"),
    "kv_dtype": Words("-fa on -ctk q8_0 -ctv q8_0", "8-bit KV values", 3),
    "flash": Words("-fa on", "", 0),
    "ubatch": Words("-ub 256", "slower prompt processing", 1),
    "slots": Words("-np 1", "one request at a time", 2),
    "experts": Words("--n-cpu-moe {n}   (or -ot exps=CPU)", "experts on the CPU; MoE models only", 3),
    "split": Words("-ts with less for the GPU that is short", "more on the others", 2),
    "one_copy": Words("GGML_SCHED_MAX_COPIES=1   (a build option in some builds)", "a little less overlap", 1),
    "quant": Words("a smaller GGUF quantisation", "less exact weights", 5),
    "context_up": Words("-c {n}", "allocated at the start", 1, "16384"),
}
_SET = "Modelfile: PARAMETER {0}; chat: /set parameter {0}; API: options"
OLLAMA = {
    "layers": Words(f"num_gpu {{n}}   ({_SET.format('num_gpu {n}')})", "layers on the CPU are slow", 2),
    "context": Words(
        f"num_ctx {{n}}   ({_SET.format('num_ctx {n}')}; server: OLLAMA_CONTEXT_LENGTH={{n}})",
        "shorter requests",
        1,
        "8192",
    ),
    "kv_dtype": Words(
        "OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE=q8_0   (in the server's environment, then restart it)",
        "8-bit KV values",
        3,
    ),
    "flash": Words("OLLAMA_FLASH_ATTENTION=1   (in the server's environment, then restart it)", "", 1),
    "ubatch": Words(f"num_batch 128   ({_SET.format('num_batch 128')})", "slower prompt processing", 3),
    "slots": Words(
        "OLLAMA_NUM_PARALLEL=1   (in the server's environment, then restart it)", "one request at a time", 2
    ),
    "overhead": Words(
        "OLLAMA_GPU_OVERHEAD=1073741824   (bytes per GPU, in the server's environment)", "fewer layers on the GPU", 3
    ),
    "evict": Words("ollama stop the other models, OLLAMA_MAX_LOADED_MODELS=1", "models are loaded one at a time", 2),
    "quant": Words("a tag with a smaller quantisation (or a smaller model)", "less exact weights", 5),
    "context_up": Words(f"num_ctx {{n}}   ({_SET.format('num_ctx {n}')})", "allocated at the start", 1, "16384"),
}
STUDIO = {
    "layers": Words('the "GPU Offload" slider lower: fewer layers on the GPU', "layers on the CPU are slow", 2),
    "context": Words('"Context Length" lower in the load settings ({n})', "shorter requests", 1, "8192"),
    "kv_dtype": Words('"Flash Attention" on, "K and V Cache Quantization Type" Q8_0', "8-bit KV values", 3),
    "flash": Words('"Flash Attention" on', "", 1),
    "ubatch": Words('"Evaluation Batch Size" lower', "slower prompt processing", 3),
    "host_kv": Words('"Offload KV Cache to GPU Memory" off', "slower with long contexts", 4),
    "experts": Words('"Force Model Expert Weights onto CPU" on', "experts on the CPU; MoE models only", 3),
    "quant": Words("a smaller GGUF quantisation", "less exact weights", 5),
    "guardrail": Words(
        'a lower "Model loading guardrails" level, if the estimate is wrong', "the load may fail later", 6
    ),
    "context_up": Words('"Context Length" higher in the load settings', "allocated at the start", 1),
}
SGLANG = {
    "fraction_down": Words("--mem-fraction-static {n}", "less KV cache", 1, "0.8"),
    "fraction_up": Words("--mem-fraction-static {n}", "less room for activations and graphs", 1, "0.92"),
    "chunk": Words("--chunked-prefill-size 2048", "long prompts in more steps", 1),
    "requests": Words("--max-running-requests {n}", "fewer requests at once", 2, "32"),
    "capture": Words("--cuda-graph-max-bs 16", "larger batches run without graphs", 2),
    "eager": Words("--disable-cuda-graph", "slower decoding", 6),
    "context": Words("--context-length {n}", "shorter requests", 3, "32768"),
    "kv_dtype": Words("--kv-cache-dtype fp8_e5m2", "KV values are kept in 8 bits", 4),
    "tp_up": Words("--tp {n}", "needs more GPUs", 8),
    "offload": Words("--cpu-offload-gb {n}", "every step reads them over PCIe", 7, "8"),
    "quant": Words("a smaller quantisation of the same model", "another checkpoint to download", 5),
}
TRTLLM = {
    "fraction_down": Words(
        "--kv_cache_free_gpu_memory_fraction {n}   (kv_cache_config.free_gpu_memory_fraction in the options file)",
        "less KV cache",
        1,
        "0.7",
    ),
    "fraction_up": Words(
        "--kv_cache_free_gpu_memory_fraction {n}   (kv_cache_config.free_gpu_memory_fraction in the options file)",
        "less room for the rest",
        1,
        "0.95",
    ),
    "batched_tokens": Words("--max_num_tokens {n}", "long prompts in more steps", 1, "2048"),
    "max_num_seqs": Words("--max_batch_size {n}", "fewer requests at once", 2, "64"),
    "context": Words("--max_seq_len {n}", "shorter requests", 2, "8192"),
    "eager": Words("cuda_graph_config: null in the options file", "slower decoding", 4),
    "kv_dtype": Words("kv_cache_config.dtype: fp8 in the options file", "KV values are kept in 8 bits", 4),
    "tp_up": Words("--tp_size {n}", "needs more GPUs", 8),
    "quant": Words("a smaller quantisation of the same model", "another checkpoint to download", 5),
}
TABLES = {"llamacpp": LLAMACPP, "ollama": OLLAMA, "studio": STUDIO, "sglang": SGLANG, "trtllm": TRTLLM}


def dialect(case: Case) -> str:
    """Whose words this case needs: LM Studio runs llama.cpp and has sliders instead of flags."""
    engine = case.rebuilt.engine or "vllm"
    return "studio" if engine == "llamacpp" and case.has("lc_guard", "lc_studio") else engine


# what a rule that several engines share says in vLLM's words -> the lever of the others
_SHARED = {"util_down": ("fraction_down",), "util_up": ("fraction_up",), "batched_tokens": ("chunk", "batched_tokens"),
           "max_num_seqs": ("requests", "max_num_seqs"), "max_model_len": ("context",), "eager": ("eager",),
           "kv_dtype": ("kv_dtype",), "offload": ("offload",), "capture": ("capture",)}  # fmt: skip
_VLLM_ONLY = ("--gpu-memory-utilization", "--max-num-batched-tokens", "--max-num-seqs", "--max-model-len",
              "--enforce-eager", "--swap-space", "--max-cudagraph-capture-size", "--kv-offloading-size")  # fmt: skip


def translated(case: Case, remedies: Sequence[Remedy]) -> list[Remedy]:
    """Remedies that a shared rule has put into vLLM's words, in those of the case's engine; or left out."""
    if case.rebuilt.engine in ("", "vllm"):
        return list(remedies)
    kept: list[Remedy] = []
    for remedy in remedies:
        foreign = any(flag in remedy.change for flag in _VLLM_ONLY)
        kept += levers(case, *_SHARED.get(remedy.lever, ())) if foreign else [remedy]
    return kept


def foreign(case: Case, advice: str) -> bool:
    return case.rebuilt.engine not in ("", "vllm") and any(flag in advice for flag in _VLLM_ONLY)


def levers(case: Case, *names: str | tuple[str, float | int | str], first: Sequence[str] = ()) -> tuple[Remedy, ...]:
    """These levers in the words of the case's engine; ("context", 8192) gives a number, `first` are to be tried first."""
    table = TABLES.get(dialect(case), {})
    remedies = []
    for entry in names:
        name, number = entry if isinstance(entry, tuple) else (entry, None)
        words = table.get(name)
        if words is None:
            continue
        shown = words.unknown if number is None else f"{number:g}" if isinstance(number, float) else str(number)
        rank = -len(first) + list(first).index(name) if name in first else words.rank
        change = words.change.replace("{n}", shown)
        kind: Kind = "model" if name == "quant" else "hardware" if name == "tp_up" else "flag"
        remedies.append(Remedy("checkpoint" if name == "quant" else name, change, kind, costs=words.costs, rank=rank))
    return tuple(remedies)
