"""llama.cpp and Ollama without an error line: what stays in host memory, and whether there is room for it.

A run that went on (a runner that started, a server that listens, requests) has nothing inferred. Where a log stops
before that, the figures of its last lines are told; a stage is named only where they show what was being filled, or
that something is too large for where it goes.
"""

import re

from oomph.doctor.case import Case
from oomph.facts.loglines import convert
from oomph.ir import StageName
from oomph.ir.log_kinds import LogKind
from oomph.units import GIB, gib

_WENT_ON: tuple[LogKind, ...] = ("lc_serving", "lc_request", "lc_prompt_cache", "lc_slots", "lc_compute", "ol_started",
                                 "ol_graph", "ol_total")  # fmt: skip
# The token embedding is always in host memory: at most 262,144 words of 3,840 numbers at 16 bits.
EMBEDDING = 2 * GIB

Told = tuple[StageName | None, str]


def inferred(case: Case) -> Told | None:
    if case.has(*_WENT_ON):
        return None
    return _host_share(case) or _planned(case) or _fit(case) or _moved(case) or _context(case)


def _free(case: Case) -> int | None:
    """Free host memory, with swap where the log tells it."""
    free = case.value("ol_system", "free") or case.value("lc_host", "free")
    return free + (case.value("ol_system", "swap") or 0) if free else None


def _against(need: int, free: int | None) -> str:
    return f"it needs {gib(need)}, {gib(free)} are free" if free is not None else f"it needs {gib(need)}"


def _host_share(case: Case) -> Told | None:
    """Weights that have been put into host memory, by the last lines there are."""
    sizes = [
        int(observation.values.get("size", 0))
        for kind in ("ol_weights", "lc_weights") for observation in case.all(kind)
        if re.fullmatch(r"CPU(?:_REPACK|_AARCH64)?", str(observation.values.get("buffer", "")))
    ]  # fmt: skip
    resident = sum(sizes)
    if resident <= EMBEDDING:
        return None
    layers = case.value("lc_layers", "layers") or 0
    rest = layers - (case.value("lc_layers", "on_gpu") or 0)
    part = f" ({rest} of {layers} layers)" if rest > 0 else ""
    free = _free(case)
    reason = (
        f"No error in this log. {gib(resident)} of weights{part} are in host memory, and it ends there: if the run "
        f"died, host memory is what ran out ({_against(resident, free)}); if it lives, these layers run "
        "on the CPU, slowly."
    )
    return "host_ram", reason


def _planned(case: Case) -> Told | None:
    """Ollama's placement before it loads: what does not go to the GPU, and what passes through host memory."""
    offload = case.first("ol_offload")
    full, partial = case.value("ol_offload", "full"), case.value("ol_offload", "partial")
    if offload is None or not full:
        return None
    free = _free(case)
    on_gpu, layers = case.value("ol_offload", "on_gpu") or 0, case.value("ol_offload", "layers") or 0
    cards = _sum(str(offload.values.get("cards", ""))) or case.value("ol_offload", "available") or 0
    rest = full - (partial or 0) if offload.values.get("library") != "cpu" else full
    if not layers or on_gpu < layers:
        counted = f"{on_gpu} of {layers} layers" if layers else f"{on_gpu} layers"
        where = f"{counted} go to the GPU ({gib(full)} are needed, {gib(cards)} are there)"
        sentence = f"No error in this log. {where}; {gib(rest)} stay in host memory"
        if free is None:
            return None, f'{sentence}: how much is free there is not in this log (msg="system memory").'
        if rest > free:
            return "host_ram", f"{sentence}, where {gib(free)} are free: if the run died, it died of that."
        return None
    weights = (case.value("ol_offload", "weights") or 0) + (case.value("ol_offload", "projector") or 0)
    host = case.value("ol_system", "free")
    if weights and host and weights > host:
        reason = (
            f"No error in this log. All {layers} layers go to the GPU, where they fit ({gib(full)} of {gib(cards)}); "
            f"on their way {gib(weights)} of weights pass through host memory, which has {gib(host)} free: if the run "
            "died, it died of that. Reading with mmap needs less of it at once."
        )
        return "host_ram", reason
    return None


def _sum(cards: str) -> int:
    """ "22.0 GiB 21.5 GiB" """
    sizes = (convert("x__size", size).get("x") for size in re.findall(r"[\d.]{1,20} [KMGT]?i?B", cards))
    return sum(int(n) for n in sizes if isinstance(n, int))


def _fit(case: Case) -> Told | None:
    """--fit found too little and was not allowed to move anything: what follows is loaded as it was asked for."""
    abort = case.first("lc_fit_abort")
    need, free, short = (
        case.value("lc_fit_need", "need"), case.value("lc_fit_need", "free"), case.value("lc_fit_short", "short")
    )  # fmt: skip
    figures = f": {gib(need)} are needed, {gib(free)} are free" if need and free else ""
    if abort is not None and not (need and free and need < free):
        what = str(abort.values.get("what", ""))
        value = f" {abort.values['value']}" if "value" in abort.values else ""
        reason = (
            f"No error in this log. --fit found that the model does not fit{figures} and changed nothing, because of "
            f"{what}{value}: it is loaded as asked for, and where that fails, it fails at the weights."
        )
        return "weights_load", reason
    if need and free and need > free:
        less = f"; it looks for {gib(short)}" if short else ""
        return None, f"No error in this log. --fit measures{figures}{less}: what it then does is not in this log."
    if need and free:
        return None, (
            f"No error in this log. --fit foresees no shortage{figures}: if the load failed, the lines that say so are"
            " missing here, and GPU memory is not what these show to be short."
        )
    return None


def _moved(case: Case) -> Told | None:
    observation = case.first("lc_layer_moved")
    if observation is None:
        return None
    reason = (
        f"No error in this log. Layer {observation.values['layer']} is on the CPU while the GPU could do its "
        f"{observation.values['what']}: the model as a whole does not fit on the GPU, or -ngl keeps it off. "
        "If the load failed, it was the weights."
    )
    return "weights_load", reason


def _context(case: Case) -> Told | None:
    """The context's parameters are printed right before its KV cache is allocated."""
    tokens = next(
        (
            str(observation.values["value"])
            for observation in case.all("lc_param")
            if observation.values.get("name") == "n_ctx"
        ),
        "",
    )
    if not tokens.isdigit() or case.has("lc_kv", "lc_kv_total", "lc_kv_cells"):
        return None
    reason = (
        f"No error in this log. It ends where a context of {int(tokens):,} tokens is set up, after the weights: if the"
        " run died, it died of the KV cache or the compute buffers. The lines behind it name the buffer."
    )
    return "kv_alloc", reason
