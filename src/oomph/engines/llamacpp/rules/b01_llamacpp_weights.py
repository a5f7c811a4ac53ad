"""B01: llama.cpp: the model buffer does not fit.

Llama.cpp: the model buffer does not fit on a device.

What it is: the layers that -ngl, -ot and -ts put on a device are larger than what is free there.

How to recognise it: "cudaMalloc failed: out of memory" followed by alloc_tensor_range or "unable to allocate ...
buffer".

Look-alikes: B02 (KV or compute buffers; the line behind the failure tells).

What fixes it: fewer layers on the GPU (-ngl, num_gpu, LM Studio's slider); experts on the CPU (--n-cpu-moe, -ot
exps=CPU); another -ts; a smaller quantisation; a draft model on the CPU (-ngld 0) where it is what does not fit. Where
the log shows enough room on the card and little on the host: host memory.

What does not: -c: the context comes later.

Evidence: llama.cpp ggml-cuda.cu alloc_buffer; issue 20431.
"""

import re

from oomph.doctor.reading.meanings import TROUBLES
from oomph.doctor.writing import Case, Finding, Named, Tier, rule
from oomph.facts.loglines import convert
from oomph.ir.log_kinds import LogKind
from oomph.units import gib

_KINDS: tuple[LogKind, ...] = ("lc_malloc", "lc_alloc_weights", "lc_no_weights", "lc_load_failed", "ol_runner_died",
                               "lc_metal_full")  # fmt: skip
_LACK = re.compile(r"(?i)out of memory|alloc|(?:enough|insufficient) .{0,20}memory")
_TRIED: tuple[LogKind, ...] = ("lc_malloc", "lc_alloc_weights")


@rule("weights_load", at_stage=True, engines=("llamacpp", "ollama"))
def match(case: Case) -> Finding | None:
    if case.death.kind in TROUBLES or (not case.has(*_KINDS) and not case.memory):
        return None
    if (
        not case.memory
        and case.death.kind != "lc_metal_full"
        and not any(_LACK.search(o.text) for kind in _KINDS for o in case.all(kind))
    ):
        return None  # a load that failed, of whatever it was
    tried = next((n for kind in _TRIED if (n := case.value(kind, "tried"))), None)
    device, free = case.value("lc_malloc", "device"), _free(case)
    buffer = next(
        (
            str(observation.values["buffer"])
            for observation in case.all("lc_alloc_weights")
            if "buffer" in observation.values
        ),
        "",
    )
    place = f"device {device}" if device is not None else buffer or "a device"
    if tried and free and tried < 0.95 * free and (short := _host(case, tried)):
        return _host_short(case, place, tried, free, short)
    draft = _is_draft(case)
    text = f"The {'draft model' if draft else 'weights'} meant for {place} {'does' if draft else 'do'} not fit there"
    text += f": {gib(tried)} in one buffer" if tried else ""
    text += f", {gib(free)} free." if free else "."
    if tried and free and tried > 3 * free:
        text += " That is several times the card: tensors meant for the CPU (experts) were not caught by the override."
    if any("exceeds device" in observation.text for observation in case.all("lc_malloc")):
        text += " It is not the memory that is short, but the largest single buffer that this Vulkan driver allows."
    need, have = case.value("lc_fit_need", "need"), case.value("lc_fit_need", "free")
    if need and have:
        text += f" llama.cpp had foreseen {gib(need)} in all, with {gib(have)} free."
    layers = _layers(case, tried, free)
    experts = ["experts"] if case.value("lc_experts", "count") != 0 else []
    first = ["draft_layers", "context"] if draft else []  # the main model's cache is there by then
    remedies: tuple[Named, ...] = (*first, ("layers", layers or None), *experts, "overhead", "evict", "checkpoint")
    return Finding(
        Tier.COMPUTED if case.has(*_KINDS) else Tier.LIKELY,
        text,
        case.line(*_KINDS, "memory_short"),
        remedies,
        {} if draft else {"context": "the KV cache is allocated after the weights"},
    )


def _is_draft(case: Case) -> bool:
    """The model itself is loaded: "failed to load draft model" is said of the second file alone."""
    return any("draft model" in observation.text for observation in case.all("lc_load_failed"))


def _free(case: Case) -> int | None:
    """What the log says was free on one card: llama.cpp's device line, or the least of Ollama's list."""
    cards = [
        str(observation.values["cards"]) for observation in case.all("ol_offload") if "cards" in observation.values
    ]
    sizes = (
        [convert("n__size", size).get("n") for size in re.findall(r"[\d.]{1,20} [KMGT]iB", cards[0])] if cards else []
    )
    numbers = [int(n) for n in sizes if n]
    return case.value("lc_free", "free") or (min(numbers) if numbers else None)


def _host(case: Case, tried: int) -> int:
    """Free host memory, where it is less than the buffer that failed."""
    free = case.value("ol_system", "free") or case.value("lc_host", "free")
    return free if free is not None and free < tried else 0


def _host_short(case: Case, place: str, tried: int, free: int, host: int) -> Finding:
    text = (
        f"{gib(tried)} were refused on {place}, although {gib(free)} were free there: the card is not what is short."
        f" The host has {gib(host)} left, and CUDA needs host memory for what it maps."
    )
    remedies = ("more_host_memory",)
    more = (
        "context",
        "layers",
        "checkpoint",
    )
    return Finding(Tier.COMPUTED, text, case.line(*_KINDS, "ol_system", "ol_offload"), (*remedies, *more))


def _layers(case: Case, tried: int | None, free: int | None) -> int:
    """So many layers as there is room for, by the share of the buffer that fits; a tenth is left for the context."""
    on_gpu = case.value("lc_layers", "on_gpu") or case.value("ol_offload", "on_gpu")
    if not on_gpu or not tried or not free or tried <= free:
        return 0
    return max(1, int(on_gpu * 0.9 * free / tried))
