"""What `explain` answers: the stage, the cause, the ledger, what fixes it, what does not, and what each rests on."""

import msgspec
from msgspec import Struct

from oomph.doctor.ledger import Entry
from oomph.ir import Advice, Engine, Judged
from oomph.ir.evidence import Question, StageBasis, StageChance
from oomph.ir.printed import Printed


class Cause(Struct, frozen=True):
    id: str
    title: str
    text: str
    sure: bool = True
    score: int = 0  # the tier's number
    tier: str = ""  # "said", "computed", "likely", "possible", "remark"; "" where no rule speaks


class Possible(Struct, frozen=True):
    id: str
    title: str
    score: int
    text: str
    settle: str = ""
    tier: str = ""


class Evidence(Struct, frozen=True):
    line: int
    text: str


class Explanation(Printed, frozen=True):
    """What `oomph explain` prints: where and why a run died, what fixes it and what does not."""

    engine: Engine
    failed: bool | None  # None: the text does not tell; `settle` says what would
    stage: str | None
    cause: Cause
    ledger: tuple[Entry, ...] = ()
    unaccounted_bytes: int | None = None
    remedies: tuple[Judged, ...] = ()  # what was planned and fits first; what no plan can judge has no outcome
    rejected: tuple[Judged, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    candidates: tuple[Possible, ...] = ()
    settle: str = ""  # what would decide between the candidates, or whether it failed at all
    stage_basis: StageBasis = ""
    model: str = ""
    command: str = ""
    total_bytes: int = 0
    notes: tuple[str, ...] = ()
    inferred_stage: str | None = None  # of a log without an error: where it would have died, never a failure
    inferred_reason: str = ""
    advice: Advice | None = None  # planned; `remedies` has its fixes
    gpu: str = ""  # the card, where it was given or the text names it
    stages: tuple[StageChance, ...] = ()  # the stage that is asserted, or the two likeliest
    question: Question | None = None  # what tells the two apart
    also: "tuple[Explanation, ...]" = ()  # another attempt in the same text that ended of something else
    speaker: str = ""  # a program that oomph does not plan: "LMDeploy, another engine"

    def in_short(self) -> str:
        died = {True: "failed", False: "did not fail", None: "cannot tell"}[self.failed]
        return f"{died}{f' at {self.stage}' if self.stage else ''}: {self.cause.title} ({self.cause.id})"


def noted(explanation: Explanation, *notes: str) -> Explanation:
    """With these notes behind those it has."""
    more = tuple(note for note in notes if note and note not in explanation.notes)
    return msgspec.structs.replace(explanation, notes=(*explanation.notes, *more)) if more else explanation
