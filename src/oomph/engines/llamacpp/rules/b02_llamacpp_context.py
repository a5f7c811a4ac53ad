"""B02: llama.cpp: KV cache or compute buffer does not fit.

What it is: the KV cache grows with the context and with slots; the compute buffer with -ub, without flash attention
with the context too, and is held once per pipeline copy (up to four) on several GPUs.

How to recognise it: the weights are loaded, then "failed to allocate buffer for kv cache", or ggml_gallocr_reserve_n
and "failed to allocate compute buffers". "retrying without pipeline parallelism" is a recovery, not the end. While
serving: "CUDA error: out of memory" or "ROCm error" with "in function alloc", CUBLAS_STATUS_ALLOC_FAILED, on a Mac
kIOGPUCommandBufferCallbackErrorOutOfMemory.

Look-alikes: B01 (weights).

What fixes it: a smaller context, an 8-bit KV cache with flash attention, fewer layers on the GPU that is short (the KV
cache goes with its layer), a smaller micro-batch, one pipeline copy, another split.

What does not: a higher -ngl.

Evidence: llama.cpp issues 26297 and 21690; ollama issue 6860.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.engines.llamacpp.log.context import levers_for
from oomph.ir.log_kinds import LogKind
from oomph.units import gib

_AT_RUN_TIME: tuple[LogKind, ...] = ("cuda_error_oom", "lc_late", "lc_cublas", "lc_malloc")
_KINDS: tuple[LogKind, ...] = ("lc_malloc", "lc_alloc_weights", "lc_alloc_compute", "lc_no_compute", "lc_no_kv",
                               "lc_no_context", "ol_runner_died")  # fmt: skip


@rule("kv_alloc", "sampler_warmup", "runtime_request", engines=("llamacpp", "ollama"))
def match(case: Case) -> Finding | None:
    if case.failed and case.stage in ("runtime_request", "sampler_warmup") and case.has(*_AT_RUN_TIME):
        return _at_run_time(case)
    if case.stage != "kv_alloc" or not case.has(*_KINDS):
        return _told(case)
    tried = next(
        (n for kind in ("lc_malloc", "lc_alloc_compute", "lc_alloc_weights") if (n := case.value(kind, "tried"))), None
    )
    kv = (
        sum(int(observation.values.get("size", 0)) for observation in case.all("lc_kv"))
        or case.value("lc_kv_total", "size")
        or case.value("ol_offload", "kv")
    )
    copies = case.value("lc_copies", "copies")
    compute = case.has("lc_alloc_compute", "lc_no_compute") or (kv and tried and not case.has("lc_no_kv"))
    text = f"The {'compute buffer' if compute else 'KV cache'} did not fit" + (
        f": {gib(tried)} were asked for." if tried else "."
    )
    if kv:
        text += f" The KV cache is {gib(kv)}."
    cells = case.value("lc_kv_cells", "cells")
    if cells:
        text += f" It has {cells:,} cells: context x parallel slots."
    if copies and copies > 1:
        text += f" Pipeline parallelism holds {copies} copies of the compute buffer."
    if case.has("lc_pipeline_retry"):
        text += " llama.cpp tried again without pipeline parallelism and went on."
    # A layer that is moved to the CPU takes its part of the KV cache with it and leaves its weights' room free.
    levers = ["context", *levers_for(case, compute=bool(compute))]
    levers += ["split", "one_copy"] if copies and copies > 1 else []
    return Finding(
        Tier.COMPUTED if case.failed else Tier.LIKELY,
        text,
        case.line(*_KINDS, "lc_kv", "lc_kv_total"),
        tuple(levers),
    )


def _told(case: Case) -> Finding | None:
    """Somebody says that the buffers of the context did not fit."""
    if not case.told_short_at("kv_alloc"):
        return None
    text = "By what you say the weights were loaded, and the KV cache or the compute buffer did not fit beside them."
    return Finding(Tier.LIKELY, text, (case.death.line,), ("context", *levers_for(case, compute=False)))


def _at_run_time(case: Case) -> Finding:
    """Scratch pools are not part of any printed buffer: they grow with the first long prompts."""
    lines = case.line(*_AT_RUN_TIME, "lc_prompt_cache")
    if any("kIOGPU" in observation.text for observation in case.all("lc_late")):
        return _metal(case, lines)
    tried = case.value("lc_malloc", "tried") or case.value("lc_alloc_compute", "tried")
    if tried:
        text = f"The load had ended; while a request was processed {gib(tried)} more were asked for."
    elif case.has("lc_cublas"):
        text = "The buffers had all been allocated; cuBLAS then found no room for its handle and workspace."
    else:
        text = "The buffers had all been allocated; the GPU ran out in the scratch pool while a request was processed."
    remedies = (
        "batch",
        "layers",
        "context",
        "sequences",
        "overhead",
    )
    return Finding(Tier.COMPUTED, text, lines, remedies)


def _metal(case: Case, lines: tuple[int, ...]) -> Finding:
    """Metal allocates lazily: buffers above the recommended working set fail when they are first used."""
    buffers = sum(
        int(observation.values.get("size", 0))
        for kind in ("lc_weights", "lc_kv", "lc_compute")
        for observation in case.all(kind)
    )
    text = "The Mac's memory ran out while the GPU worked: Metal takes buffers first and finds room when they are used."
    text += f" The log shows {gib(buffers)} of them." if buffers else ""
    remedies = (
        *(
            "context",
            "checkpoint",
            "kv_dtype",
        ),
        "wired_limit",
    )
    return Finding(Tier.COMPUTED, text, lines, remedies)
