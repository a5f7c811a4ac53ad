"""A log without an error: where the run would have died, if it did, and the figures that say so.

Nothing here makes a run a failed one: `failed` stays false, and what is inferred has a field and a sentence of its own.
"""

from msgspec import Struct

from oomph.doctor import inferred_vllm
from oomph.doctor.case import Case
from oomph.engines.registry import engine_named
from oomph.ir import StageName


class Inferred(Struct, frozen=True):
    stage: StageName | None = None
    reason: str = ""


def inferred(case: Case) -> Inferred:
    """A stage of None: the figures are told, and what is missing to say more."""
    if case.failed:
        guess = inferred_vllm.reached(case)
    else:
        guess = engine_named(case.rebuilt.engine).inferred(case) if case.rebuilt.engine else None
    return Inferred(*guess) if guess else Inferred()
