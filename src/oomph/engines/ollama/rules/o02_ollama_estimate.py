"""O02: Ollama: context and slots need more than there is.

Ollama: the runner died, the estimate was too low or the context too large.

What it is: num_ctx x OLLAMA_NUM_PARALLEL of KV cache, and a graph that is larger than estimated. Normally Ollama puts
fewer layers on the GPU and gets slow instead.

How to recognise it: "llama runner process has terminated" with an allocation failure; memory.required.kv in the
offload line.

Look-alikes: B01 and B02 in its log name the buffer.

What fixes it: a smaller num_ctx, OLLAMA_NUM_PARALLEL=1, OLLAMA_GPU_OVERHEAD in bytes, an explicit num_gpu.

What does not: waiting for an OOM as a sign: partial offload shows as slowness.

Evidence: ollama issues 9181, 8447, 11090.
"""

import re

from oomph.doctor.reading.meanings import TROUBLES
from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib

_LACK = re.compile(r"(?i)memory|alloc|context|kv cache")


@rule(
    "kv_alloc",
    "weights_load",
    "sampler_warmup",
    "runtime_request",
    over=(
        "B01",
        "B02",
    ),
)
def match(case: Case) -> Finding | None:
    kv, full = case.value("ol_offload", "kv"), case.value("ol_offload", "full")
    available, cells = case.value("ol_offload", "available"), case.value("lc_kv_cells", "cells")
    died = case.has("ol_runner_died")
    if not case.failed or case.stage not in match.stages or case.death.kind in TROUBLES:
        return None
    if case.stage == "weights_load" and not died:
        return None  # B01
    running = case.stage in ("sampler_warmup", "runtime_request")
    if running and not case.memory and not case.has("lc_late", "lc_alloc_compute"):
        return None
    if running and any("kIOGPU" in observation.text for observation in case.all("lc_late")):
        return None  # a Mac's (B02)
    if died and not case.memory and not any(_LACK.search(o.text) for o in case.all("ol_runner_died")):
        return None  # a runner that ended, of whatever it was
    text = "The runner could not get the memory that context and parallel slots ask for."
    if running:
        tried = case.value("lc_malloc", "tried") or case.value("lc_alloc_compute", "tried")
        more = gib(tried) if tried else "more"
        text = f"While the model ran {more} was asked for that Ollama had not foreseen: scratch grows with the prompt."
    if kv and full:
        text += f" KV cache {gib(kv)} of {gib(full)} in all" + (f", {gib(available)} on the GPU." if available else ".")
    if cells:
        text += f" {cells:,} cells: num_ctx x parallel slots."
    parallel = case.value("ol_parallel", "parallel")
    names = (
        ("layers", "overhead", "batch", "sequences") if running else ("layers", "sequences", "overhead", "checkpoint")
    )
    remedies = (
        "context",
        *names,
    )
    tier = Tier.COMPUTED if running or (died and (kv or parallel)) else Tier.LIKELY
    return Finding(tier, text, case.line("ol_runner_died", "ol_offload", "lc_kv_cells"), remedies)
