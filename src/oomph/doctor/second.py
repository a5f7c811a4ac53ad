"""Two deaths in one text: what people paste of two attempts, each with its own error, gets two answers.

Of a log in the order of time the last failure counts, and what follows from it is no other. Around sentences of people
an engine's message of another kind is another attempt; each is explained without the words of the other.
"""

from msgspec.structs import replace

from oomph.doctor.case import Case
from oomph.doctor.reading.failure import ENDS
from oomph.doctor.reading.meanings import FAILURES
from oomph.ir.log_kinds import LogKind
from oomph.ir.observation import Observation
from oomph.logs.reader import RawLog

APART = 2  # lines between two messages of which the second does not follow from the first
LONGEST = 600  # lines of a text that people wrote around their errors
# a parent's report, and what only mentions a lack of memory, are no deaths of their own
_FOLLOW: frozenset[LogKind] = frozenset(
    {"secondary", "engine_dead", "engine_failed", "oom_mentioned", "memory_short", "said_failed", "exception"}
)


def two_deaths(raw: RawLog, case: Case) -> tuple[RawLog, RawLog] | None:
    """The text of the failure that counts, and that of the other one; None where there is only one."""
    if not case.failed or not case.has_story or len(raw.lines) > LONGEST or case.death.kind in _FOLLOW:
        return None
    other = next((one for one in case.observations if _is_another(case, one)), None)
    if other is None or any(one.kind in ("frame", "traceback") for one in case.observations):
        return None
    own_lines = {one.line for one in case.observations if one.kind == case.death.kind}
    others_lines = {one.line for one in case.observations if one.kind == other.kind}
    return _without(raw, others_lines), _without(raw, own_lines)


def _without(raw: RawLog, numbers: set[int]) -> RawLog:
    return replace(raw, lines=tuple(line for line in raw.lines if line.number not in numbers))


def _is_another(case: Case, one: Observation) -> bool:
    ends = one.kind in FAILURES and one.kind not in _FOLLOW and one.kind not in ENDS
    return ends and one.kind != case.death.kind and abs(one.line - case.death.line) >= APART


def is_second(first: Case, second: Case) -> bool:
    """It tells of a failure of its own."""
    return bool(second.failed) and second.death.kind in FAILURES and second.death.kind != first.death.kind
