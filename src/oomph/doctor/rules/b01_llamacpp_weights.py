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
from oomph.doctor.rule import Candidate, Remedy, Rule, Tier
from oomph.ir.log_kinds import LogKind
from oomph.units import gib

_KINDS: tuple[LogKind, ...] = ("lc_malloc", "lc_alloc_weights", "lc_no_weights", "lc_load_failed", "ol_runner_died")


def match(case: Case) -> Candidate | None:
    if case.stage != "weights_load" or not case.failed or not case.has(*_KINDS):
        return None
    tried = next((n for kind in ("lc_malloc", "lc_alloc_weights") if (n := case.value(kind, "tried"))), None)
    device, free = case.value("lc_malloc", "device"), case.value("lc_free", "free")
    buffer = next((str(o.values["buffer"]) for o in case.all("lc_alloc_weights") if "buffer" in o.values), "")
    place = f"device {device}" if device is not None else buffer or "a device"
    text = f"The weights meant for {place} do not fit there"
    text += f": {gib(tried)} in one buffer" if tried else ""
    text += f", {gib(free)} free." if free else "."
    if tried and free and tried > 3 * free:
        text += " That is several times the card: tensors meant for the CPU (experts) were not caught by the override."
    if any("exceeds device" in o.text for o in case.all("lc_malloc")):
        text += " It is not the memory that is short, but the largest single buffer that this Vulkan driver allows."
    need, have = case.value("lc_fit_need", "need"), case.value("lc_fit_need", "free")
    if need and have:
        text += f" llama.cpp had foreseen {gib(need)} in all, with {gib(have)} free."
    remedies = (
        Remedy("ngl", "--fit on   (or a lower -ngl)", "flag", costs="layers on the CPU are slow", rank=1),
        Remedy(
            "experts", "--n-cpu-moe N   (or -ot exps=CPU)", "flag", costs="experts on the CPU; MoE models only", rank=2
        ),
        advice.checkpoint(case, "a smaller GGUF quantisation"),
    )
    return Candidate(
        Tier.COMPUTED,
        text,
        case.line(*_KINDS),
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
