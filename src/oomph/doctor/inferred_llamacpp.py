"""llama.cpp and Ollama without an error line: what stays in host memory, and whether there is room for it."""

from __future__ import annotations

from oomph.doctor.case import Case
from oomph.ir.timeline import StageName


def inferred(case: Case) -> tuple[StageName | None, str] | None:
    return None
