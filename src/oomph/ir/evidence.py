"""What a diagnosis rests on: how the stage of a failure is known, which stages come into question, and what would tell.

Some grounds assert: an engine's own words, its frames, an exit status, a plan that reproduces the figures, an answer to
the question below, a snapshot of the memory. The others only let one guess: what somebody says, the last line before
the end, figures alone. A guess is named as one, with the next likeliest stage beside it and one question between them.
"""

from typing import Final, Literal

from msgspec import Struct

from oomph.ir.timeline import StageName

StageBasis = Literal[
    "message",  # a program's own words name the stage
    "traceback",
    "status",  # how the process was ended
    "plan",  # the plan of the same command dies there, and nothing in the text speaks against it
    "answer",  # somebody was asked
    "snapshot",  # PyTorch's own record of what was allocated
    "said",  # a sentence of whoever tells of it: a claim
    "milestone",  # the last line that shows how far it had got
    "guess",
    "the log ends here",
    "inferred",  # of a log without an error: where it would have died
    "",
]
Placed = tuple[StageName, StageBasis]  # the stage, and what it rests on
ASSERTING: Final[frozenset[str]] = frozenset({"message", "traceback", "status", "plan", "answer", "snapshot"})


class StageChance(Struct, frozen=True):
    """One stage in which it may have failed."""

    stage: StageName
    probability: float  # two decimals


class Question(Struct, frozen=True):
    """The one question that tells the two likeliest stages apart."""

    text: str  # "Had it printed "Model loading took"?"
    answers: dict[str, StageName]  # "yes" and "no" -> where it failed then
    command: str = ""  # what shows it the next time


def asserts(basis: str) -> bool:
    """Whether a stage that rests on this may be stated as a fact."""
    return basis in ASSERTING
