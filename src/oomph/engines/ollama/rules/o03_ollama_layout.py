"""O03: Ollama: no layout of the layers could be allocated.

What it is: releases 0.11 to 0.29 measure the layers, place them, and try to allocate what they placed. With num_gpu
given the placement is fixed and is tried once; without it Ollama leaves more and more of the GPU free (backoff) and
gives up when nothing is left.

How to recognise it: "memory layout cannot be allocated", with or without "with num_gpu = N"; "failed to commit memory
for model"; before it "model layout did not fit, applying backoff".

Look-alikes: O01 (refused before anything is allocated), B05 (the failing buffer is the CPU's).

What fixes it: no num_gpu; a smaller num_ctx; other programs off the GPU; a release with llama-server (0.30 and later).

What does not: a higher num_gpu.

Evidence: ollama llm/server.go (0.12); issues 14980 and 12580.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib


@rule("weights_load")
def match(case: Case) -> Finding | None:
    if not case.failed or not case.has("ol_layout") or case.stage == "host_ram":
        return None
    layers = case.value("ol_layout", "num_gpu")
    text = (
        f"num_gpu = {layers} was asked for, so Ollama tried that one placement, and it cannot be allocated."
        if layers is not None
        else "Ollama tried smaller and smaller placements, and none could be allocated."
    )
    available, context = case.value("ol_gpu", "available"), case.value("ol_request", "cells")
    text += f" {gib(available)} were available on the GPU." if available else ""
    text += f" The context is {context:,} tokens." if context else ""
    remedies = [
        *(
            "context",
            "overhead",
            "evict",
            "checkpoint",
        )
    ]
    if layers is not None:
        remedies.insert(0, "layers_auto")
    rejected = {"more_layers": "the placement that was tried is too large already"}
    return Finding(Tier.SAID, text, case.line("ol_layout", "ol_backoff", "ol_gpu"), tuple(remedies), rejected)
