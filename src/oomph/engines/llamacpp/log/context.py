"""The context that a log of llama.cpp's or Ollama's shows, and the lever that shortens it."""

import re

from oomph.doctor.case import Case

SMALLEST = 2048  # tokens: a shorter context is of no use to anybody
_ON_COMMAND = re.compile(r"--ctx-size (\d{1,9})\b")


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
    return next((int(match[1]) for match in sizes), 0)


def shorter(case: Case) -> tuple[str | tuple[str, int], ...]:
    """Half of the context; nothing where it is short already, and no figure where it is not known."""
    context = context_of(case)
    if not context:
        return ("context",)
    return (("context", max(SMALLEST, context // 2 // 1024 * 1024)),) if context > SMALLEST else ()
