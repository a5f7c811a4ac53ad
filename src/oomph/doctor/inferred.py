"""A log without an error: where the run would have died, if it did, and the figures that say so.

Nothing here makes a run a failed one: `failed` stays false, and what is inferred has a field and a sentence of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from oomph.doctor import inferred_llamacpp, inferred_vllm
from oomph.doctor.case import Case
from oomph.ir.timeline import StageName


class Inferred(Struct, frozen=True):
    stage: StageName | None = None
    reason: str = ""


Rule = Callable[[Case], tuple[StageName | None, str] | None]
# a stage of None: the figures are told, and what is missing to say more
ENGINES: Final[dict[str, Rule]] = {
    "llamacpp": inferred_llamacpp.inferred, "ollama": inferred_llamacpp.inferred,
    "vllm": inferred_vllm.inferred, "sglang": inferred_vllm.inferred,
}  # fmt: skip


def inferred(case: Case) -> Inferred:
    rule = ENGINES.get(case.rebuilt.engine)
    if case.failed:
        found = inferred_vllm.reached(case)
    else:
        found = rule(case) if rule is not None else None
    return Inferred(*found) if found else Inferred()
