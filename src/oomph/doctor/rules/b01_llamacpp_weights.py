"""B01: llama.cpp: the model buffer does not fit on a device.

What it is: the layers that -ngl, -ot and -ts put on a device are larger than what is free there.

How to recognise it: "cudaMalloc failed: out of memory" followed by alloc_tensor_range or "unable to allocate ...
buffer".

Look-alikes: B02 (KV or compute buffers; the line behind the failure tells).

What fixes it: a lower -ngl or --fit on; experts on the CPU (--n-cpu-moe, -ot exps=CPU); another -ts; a smaller
quantisation.

What does not: -c: the context comes later.

Evidence: llama.cpp ggml-cuda.cu alloc_buffer; issue 20431.
"""

from __future__ import annotations

from oomph.doctor import advice
from oomph.doctor.advice import reject
from oomph.doctor.case import Case
from oomph.doctor.rule import Candidate, Remedy, Rule
from oomph.units import gib


def match(case: Case) -> Candidate | None:
    if not case.has("lc_alloc_weights", "lc_no_weights", "lc_load_failed") or case.stage != "weights_load":
        return None
    tried = (
        case.value("lc_malloc", "tried")
        or case.value("lc_alloc_weights", "tried")
        or case.value("lc_no_weights", "tried")
    )
    device, free = case.value("lc_malloc", "device"), case.value("lc_free", "free")
    text = "The weights meant for " + (f"device {device}" if device is not None else "a device") + " do not fit there"
    text += f": {gib(tried)} in one buffer" if tried else ""
    text += f", {gib(free)} free." if free else "."
    if tried and free and tried > 3 * free:
        text += " That is several times the card: tensors meant for the CPU (experts) were not caught by the override."
    remedies = (
        Remedy("ngl", "--fit on   (or a lower -ngl)", "flag", costs="layers on the CPU are slow", rank=1),
        Remedy(
            "experts", "--n-cpu-moe N   (or -ot exps=CPU)", "flag", costs="experts on the CPU; MoE models only", rank=2
        ),
        advice.checkpoint(case, "a smaller GGUF quantisation"),
    )
    return Candidate(
        92,
        text,
        case.line("lc_malloc", "lc_alloc_weights", "lc_no_weights"),
        remedies,
        (reject("context", "the KV cache is allocated after the weights"),),
    )


RULE = Rule(
    "B01",
    "llama.cpp: the model buffer does not fit",
    ("weights_load",),
    match,
    engines=("llamacpp", "ollama"),
    evidence=("llama.cpp issue 20431",),
)
