"""O01: Ollama: the CPU part does not fit into RAM.

Ollama: the part for the CPU is larger than the host's memory.

What it is: what does not go to the GPU, with its KV cache, must fit into free RAM and swap; Ollama refuses otherwise.

How to recognise it: "model requires more system memory (X) than is available (Y)".

Look-alikes: O02 (the GPU side).

What fixes it: a smaller quantisation or num_ctx; free RAM; more on the GPU.

What does not: num_gpu 0, which moves everything into RAM.

Evidence: ollama server/sched (0.29); issue 8734.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib

_REMEDIES = ("free_host", "context", "sequences", "checkpoint")
_REJECTED = {"layers_on_cpu": "it moves everything into the memory that is short"}


@rule("host_ram")
def match(case: Case) -> Finding | None:
    refusal = case.first("ol_host_refused")
    need, free = case.value("ol_host_refused", "need") or 0, case.value("ol_host_refused", "free") or 0
    if refusal is None and case.failed and case.death.kind == "ol_runner_died" and case.stage == "host_ram":
        refusal = case.first("ol_offload")  # nothing goes to a GPU, and all of it is more than there is
        need, free = case.value("ol_offload", "full") or 0, case.value("ol_offload", "available") or 0
    if refusal is None and case.told_short_at("host_ram") and case.death.kind == "memory_short":
        text = f'The part of the model that stays on the CPU does not fit: "{case.death.quote[:200]}".'
        return Finding(Tier.LIKELY, text, (case.death.line,), _REMEDIES, _REJECTED)
    if refusal is None:
        return None
    text = f"The part of the model that stays on the CPU needs {gib(need)}"
    text += f", {gib(free)} are free." if free else "."
    far = bool(free) and need > 1.5 * free  # no context makes up for half of the model
    text += " That is far more: only a smaller model or quantisation makes up for it." if far else ""
    return Finding(
        Tier.SAID,
        text,
        (refusal.line,),
        _REMEDIES,
        _REJECTED,
    )
