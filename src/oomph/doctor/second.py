# ruff: noqa: E501 - a row is a line
"""Two deaths in one text: what people paste of two attempts, each with its own error, gets two answers.

Of a log in the order of time the last failure counts, and what follows from it is no other. A sentence of a person that
speaks of another attempt cuts the text in two, whatever stands in its parts. Without one an engine's message of another
kind around sentences is another attempt, and each is explained without the words of the other.
"""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from oomph.doctor.case import Case
from oomph.doctor.reading.failure import ENDS
from oomph.doctor.reading.meanings import FAILURES
from oomph.ir.log_kinds import LogKind
from oomph.ir.observation import Observation
from oomph.logs.clean import Line, lines as clean_lines
from oomph.logs.documents import SMALL_WORDS, is_prose
from oomph.logs.parse import printed_lines
from oomph.logs.reader import RawLog
from oomph.text.late import late_pattern

APART = 2  # lines between two messages of which the second does not follow from the first
LONGEST = 600  # lines of a text that people wrote around their errors
# a parent's report, and what only mentions a lack of memory, are no deaths of their own
_FOLLOW: frozenset[LogKind] = frozenset(
    {"secondary", "engine_dead", "engine_failed", "oom_mentioned", "memory_short", "said_failed", "exception"}
)
# how people pass from one attempt to the next: they count them, or say what was different or what came then
_COUNTED: Final = late_pattern(
    r"(?i)\b(?:(?:second|2nd|third|3rd|next|another|other|new) (?:\w{1,12} )?(?:attempt|try|run|time|start|error|failure|log|case|machine|server|card|setup)|zweite\w{0,2}|dritte\w{0,2}|nächste\w{0,2}|andere\w{0,2} (?:versuch|start|lauf|fehler|karte))\b|第[二三]|另一"
)
_PASSED: Final = late_pattern(
    r"(?i)\b(?:then|afterwards|now|instead|when (?:i|we)|with|without|after (?:i|we|that|\w{3,12}ing)|so (?:i|we)|changed|lowered|raised|tried|danach|dann|jetzt|mit|ohne|wenn ich|nachdem)\b|再|然后|后来|改|换|现在"
)

_BEGINS: Final = late_pattern(r"^\s{0,8}[\"'“„*>#-]{0,3}\s?[^\W\d_]")  # no bracket, no date
_QUOTE: Final = late_pattern(r"[\"“„`「]")


def two_deaths(raw: RawLog, case: Case) -> tuple[RawLog, RawLog] | None:
    """The text of the failure that counts, and that of the other one; None where there is only one."""
    if not case.failed or len(raw.lines) > LONGEST or case.death.kind in _FOLLOW:
        return None
    deaths = [one for one in case.observations if _is_death(one)]
    if parts := next(_cut_apart(raw, case, deaths), None):
        return parts
    other = next((one for one in deaths if _is_another(case, one)), None) if case.has_story else None
    if other is None or any(one.kind in ("frame", "traceback") for one in case.observations):
        return None
    own_lines = {one.line for one in case.observations if one.kind == case.death.kind}
    others_lines = {one.line for one in case.observations if one.kind == other.kind}
    return _without(raw, others_lines), _without(raw, own_lines)


def _without(raw: RawLog, numbers: set[int]) -> RawLog:
    return replace(raw, lines=tuple(line for line in raw.lines if line.number not in numbers))


def _cut_apart(raw: RawLog, case: Case, deaths: list[Observation]) -> Iterator[tuple[RawLog, RawLog]]:
    """The parts before and from a sentence between two deaths; what introduces the whole belongs to both."""
    printed = printed_lines(case.observations) | {one.line for one in deaths}
    lines = clean_lines(raw.lines) if len({one.line for one in deaths}) > 1 else ()
    people = [line for line in lines if _is_of_people(line, line.number in printed)]
    for other in deaths:
        low, high = sorted((case.death.line, other.line))
        turn = next((line for line in people if low < line.number <= high and _passes(line, case)), None)
        if turn is None:
            continue
        before, behind = _parts(raw, people, low, turn)
        yield (before, behind) if case.death.line == low else (behind, before)


def _is_of_people(line: Line, is_printed: bool) -> bool:
    """Of a line that quotes an engine's words, what stands before them."""
    head = _QUOTE.split(line.text[:1000])[0]
    return (
        is_prose(replace(line, text=head)) if is_printed and head != line.text else is_prose(line, 2) and not is_printed
    )


def _passes(line: Line, case: Case) -> bool:
    """A sentence, or a quotation that one leads to; beside no sentence at all only what counts the attempts."""
    is_sentence = is_prose(line) and bool(SMALL_WORDS.search(line.text)) and bool(_PASSED.search(line.text))
    story = case.has_story or line.text != _QUOTE.split(line.text)[0]
    return bool(_BEGINS.match(line.text)) and ((is_sentence and story) or bool(_COUNTED.search(line.text)))


def _parts(raw: RawLog, people: list[Line], low: int, turn: Line) -> tuple[RawLog, RawLog]:
    introduces = max((line.number for line in people if line.number <= low), default=0)
    before = tuple(line for line in raw.lines if line.number < turn.number)
    behind = tuple(line for line in raw.lines if line.number < introduces or line.number >= turn.number)
    return replace(raw, lines=before), replace(raw, lines=behind)


def _is_death(one: Observation) -> bool:
    return one.kind in FAILURES and one.kind not in _FOLLOW and one.kind not in ENDS


def _is_another(case: Case, one: Observation) -> bool:
    return one.kind != case.death.kind and abs(one.line - case.death.line) >= APART


def is_second(first: Case, second: Case) -> bool:
    """It tells of a failure of its own."""
    other = (second.death.kind, second.death.stage) != (first.death.kind, first.death.stage)
    return bool(second.failed) and second.death.kind in FAILURES and other
