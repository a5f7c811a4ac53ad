"""The context that a log of llama.cpp's or Ollama's shows, and what else is set, so that it is not advised."""

import re
from typing import Any

from oomph.doctor.case import Case

SMALLEST = 2048  # tokens: a shorter context is of no use to anybody
_ON_COMMAND = re.compile(r"--ctx-size (\d{1,9})\b")


def told_flags(case: Case) -> dict[str, Any]:
    """Of the command beside the log, else of the one in its text."""
    from oomph.doctor.rebuild import command_in_text
    from oomph.engines.registry import engine_named

    command = case.command_beside or command_in_text(case, engine_named("llamacpp"))
    return dict(command.flags) if command is not None else {}


def context_of(case: Case) -> int:
    """Tokens of all slots together; 0 where no line says it."""
    cells = case.value("lc_kv_cells", "cells") or case.value("ol_request", "cells")
    cells = cells or case.value("lc_old_context", "context")
    if cells:
        return cells
    for observation in case.all("lc_param"):
        value = str(observation.values.get("value", ""))
        if observation.values.get("name") == "n_ctx" and value.isdigit():
            return int(value)
    commands = (str(o.values.get("command", "")) for kind in ("ol_server", "ol_runner") for o in case.all(kind))
    sizes = (match for command in commands if (match := _ON_COMMAND.search(command)))
    context = told_flags(case).get("ctx_size", 0)
    return next((int(match[1]) for match in sizes), context if isinstance(context, int) else 0)


def setting(case: Case, flag: str, printed: str) -> str:
    """What the command or the log says of a setting; empty where neither does."""
    if flag in (flags := told_flags(case)):
        return str(flags[flag])
    lines = (o for o in case.all("lc_param") if o.values.get("name") == printed)
    return next((str(o.values.get("value", "")) for o in lines), "")


def is_on_cpu(case: Case) -> bool | None:
    """Whether layers or experts are on the CPU; None where nothing says so."""
    if told_flags(case).get("override_tensor"):
        return True
    on_gpu, layers = case.value("lc_layers", "on_gpu"), case.value("lc_layers", "layers")
    if on_gpu is None or not layers:
        return None
    if on_gpu < layers:
        return True
    sizes = {True: 0, False: 0}
    for line in case.all("lc_weights"):
        size = line.values.get("size")
        sizes[str(line.values.get("buffer", "")).startswith("CPU")] += size if isinstance(size, int) else 0
    return sizes[True] > sizes[False]  # more than an embedding stays there


def levers_for(case: Case, *, compute: bool) -> list[str]:
    """Beside a shorter context, what is not set already: of the compute buffer, or of the cache."""
    names = ["layers"]
    if setting(case, "flash_attn", "flash_attn") in ("off", "disabled", "0", "false"):
        names.append("flash")
    quantised = setting(case, "cache_type_k", "type_k")
    if not quantised.startswith("q"):
        names.append("quant_kv" if case.has("lc_param") or told_flags(case) else "kv_dtype")
    if setting(case, "parallel", "n_seq_max") != "1":
        names.append("sequences")
    if not compute:
        return names
    micro_batch = setting(case, "ubatch_size", "n_ubatch")
    if not micro_batch.isdigit() or int(micro_batch) > 256:
        names.append("batch")
    offloads = setting(case, "op_offload", "op_offload") != "False"
    return [*names, "op_offload"] if offloads and is_on_cpu(case) else names
