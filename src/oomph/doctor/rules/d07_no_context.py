"""D07: Not even a CUDA context can be created.

What it is: the GPU is full before the engine starts, or the host is so short of memory that CUDA cannot allocate.

How to recognise it: "CUDA error: out of memory" without PyTorch's breakdown, in set_device, the first .cuda() or the
first collective; "CUDA-capable device(s) is/are busy or unavailable".

Look-alikes: R04 and run-time scratch pools (the same words after the engine was ready).

What fixes it: free the GPU; look at the host's memory and at ulimit -l; exclusive compute mode off.

What does not: any flag of the engine.

Evidence: llama.cpp issue 7366 (host shortage), vllm issue 188.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule


@rule("startup_free_memory", "other", engines=("vllm", "sglang", "llamacpp", "trtllm", "ollama"))
def match(case: Case) -> Finding | None:
    if case.oom is not None or not case.has("cuda_error_oom", "cuda_busy") or not case.failed:
        return None
    if case.stage not in ("startup_free_memory", "other") or (case.stage == "other" and case.death.basis == "guess"):
        return None  # the traceback, or ggml, names what was refused
    if "get_response" in case.death.functions:
        return None  # an answer to the executor: the worker had its device and its weights
    if case.before("weights", "available_kv", "serving", "lc_prompt_cache", "lc_compute", "sg_weights"):
        return None
    text = (
        "CUDA itself was refused, before the engine had taken anything: the GPU is full, in exclusive use, or the host"
        " has no memory left."
    )
    first = case.in_traceback("set_device", "init_device", "_lazy_init", "cuda_init") or case.has(
        "cuda_busy", "lc_where"
    )
    return Finding(
        Tier.COMPUTED if first or case.death.basis != "guess" else Tier.POSSIBLE,
        text,
        case.line("cuda_error_oom", "cuda_busy"),
        ("look_at_both",),
        {"gpu_flags": "no flag of the engine has been applied yet"},
        settle="nvidia-smi and free -h at the moment of the start",
    )
