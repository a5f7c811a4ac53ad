"""B05: llama.cpp: a buffer in host memory cannot be allocated.

Llama.cpp or Ollama: a buffer in host memory cannot be allocated.

What it is: the CPU's share (layers that are not on a GPU, their KV cache, compute buffers of the CPU, pinned buffers)
asks for more than the host has. Without -c the context is the model's whole trained length: the KV cache of a small
model at 131,072 tokens is larger than its weights.

How to recognise it: ggml_backend_cpu_buffer_type_alloc_buffer, "failed to allocate CPU buffer", "unable to allocate
CUDA_Host buffer", std::bad_alloc; Ollama: "insufficient memory - required allocations" with a size that ends in F.

Look-alikes: O01 (Ollama refuses before it tries), H03 (the kernel ends the process), B01 and B02 (a GPU's buffer).

What fixes it: a smaller -c (num_ctx), fewer slots, flash attention, a smaller quantisation; more layers on the GPU.

What does not: a lower -ngl or num_gpu: it moves more into the memory that is short.

Evidence: llama.cpp issues 8101 and 10251; ollama issue 11790.
"""

import re

from oomph.doctor.rules.h03_killed_by_the_host import KILLED
from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.engines.llamacpp.log.context import context_of
from oomph.ir.log_kinds import LogKind
from oomph.units import gib

_KINDS: tuple[LogKind, ...] = (
    "lc_cpu_malloc",
    "lc_alloc_weights",
    "lc_alloc_compute",
    "lc_no_weights",
    "lc_no_output",
    "ol_panic",
)


@rule("host_ram", at_stage=True, engines=("llamacpp", "ollama"))
def match(case: Case) -> Finding | None:
    if not case.has(*_KINDS, "ol_runner_died"):
        return _told(case)
    if case.has("sigkill", "host_kill", "container_kill"):
        return None  # H03
    tried = _tried(case)
    text = "Host memory ran out"
    text += f": {gib(tried)} were asked for in one buffer" if tried else ""
    free = case.value("ol_system", "free") or case.value("lc_host", "free")
    text += f", {gib(free)} were free." if free else "."
    if case.has("lc_no_kv"):
        text += " It was the KV cache of the layers on the CPU."
    elif case.has("lc_alloc_compute", "lc_no_compute"):
        text += " It was the compute buffer: without flash attention it grows with context x micro-batch x heads."
    cells = context_of(case)
    text += f" The context is {cells:,} tokens." if cells else ""
    remedies = (
        *(
            "context",
            "flash",
            "sequences",
            "checkpoint",
        ),
        "free_host",
    )
    rejected = {"layers": "it moves more into the memory that is short"}
    return Finding(Tier.COMPUTED, text, case.line(*_KINDS), remedies, rejected)


def _told(case: Case) -> Finding | None:
    """Somebody says that the host's memory was short; O01 says more of an Ollama that refused, H03 of a kill."""
    is_kill = any(KILLED.search(claim.text) for claim in case.claims)
    if not case.told_short_at("host_ram") or case.rebuilt.engine == "ollama" or is_kill:
        return None
    text = "By what you say the part that runs on the CPU asks for more memory than the host has."
    useless = {"layers": "it moves more into the memory that is short"}
    return Finding(Tier.LIKELY, text, (case.death.line,), ("context", "checkpoint", "free_host"), useless)


def _tried(case: Case) -> int:
    panic = case.first("ol_panic")
    if panic is not None:
        return sum(int(n) for n in re.findall(r"(\d{1,15})F", str(panic.values.get("map", ""))))
    return next((n for kind in _KINDS if (n := case.value(kind, "tried"))), 0)
