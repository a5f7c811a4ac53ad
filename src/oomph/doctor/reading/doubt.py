"""Whether a run without a failure may be called healthy.

An all-clear is earned: a line proves that the server was up and nothing went wrong behind it, or there is no sign of an
error anywhere.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from oomph.doctor.reading.failure import STOPPED, is_harmless, is_heading, last_ready
from oomph.doctor.reading.meanings import FAILURES, MILESTONES, NOT_FATAL, READY, SIGNS
from oomph.ir.observation import Observation
from oomph.logs.claims import Claim
from oomph.logs.clean import Line
from oomph.logs.documents import is_sentence
from oomph.logs.parse import printed_lines
from oomph.text.late import late_pattern


class Doubt(Struct, frozen=True):
    """The text does not tell whether it failed."""

    line: int
    text: str
    settle: str
    by_people: bool = False  # somebody tells it beside the lines


def find_doubt(observations: Sequence[Observation]) -> Doubt | None:
    """Of a run without a failure: the sign of one that nothing behind it takes back."""
    up = last_ready(observations)
    kinds = {observation.kind for observation in observations}
    other_run = {
        observation.line
        for observation in observations
        if observation.kind in FAILURES and is_harmless(observation, kinds)
    }
    for observation in observations:
        if observation.line in other_run:
            continue
        mark = observation.kind in SIGNS or observation.kind == "memory_short"
        if (
            not mark
            or (observation.line <= up and not is_heading(observation))
            or (observation.kind == "exception" and observation.values.get("type") in NOT_FATAL and up)
        ):
            continue
        if observation.kind == "sign_exit" and observation.values.get("status") in STOPPED:
            continue
        return Doubt(observation.line, observation.text, SETTLES)
    return None


SETTLES: Final = (
    "a line behind it that shows the server answering requests, or the process's exit status"
    " (docker inspect, kubectl describe pod, echo $?)"
)
# words of an end that no row has; said of other things in a healthy log ("0 failed", "error rate", "if it fails")
_BAD_END: Final = late_pattern(
    r"(?i)(?<![\w-])(?:died|dead|killed|crash(?:ed|es|ing)?|abort(?:ed|ing)|terminated|unreachable|unhealthy|evicted|hung|"
    r"stuck|fatal|panic|exited|failed|fails|failure|failing|dumped|system_error|unrecoverable|corrupt(?:ed|ion)?|"
    r"unresponsive|OOM(?:s|ed)?|out of memory|exception|error|segmentation fault|\w{0,40}Error)(?![\w-])"
)
# a report about something that went wrong, in words of its title
_BAD_TITLE: Final = late_pattern(
    r"(?i)\[bug\]|\[issue\]|\bbug\b|\bfail|crash|\bcan(?:not|'t)\b|\bunable\b|\bwon't\b|n't (?:work|load|start|run)|"
    r"\bnot work|"
    r"\bstop(?:s|ped)\b|too (?:large|big)|\bleak|\bbroken\b|\bregression\b|\bcorrupt"
)
_NOT_BAD: Final = late_pattern(
    r"(?i)\b(?:0|no|zero|without|ignor\w{1,3}|not an?|any|if|may|might|could|avoid\w{0,3}|prevent\w{0,3}|warn\w{0,4})"
    r" (?:\w{1,12} ){0,2}(?:error|fail|exception|crash|OOM|out of memory|unhealthy)|"
    r"(?:error|failure|exception|OOM)s?[ _-](?:rate|handler|handling|count|page|code 0)|"
    r"(?:errors?|failed|failures?)\W{1,3}0\b|deprecat|fall\w{0,3} back"
)
# a sentence that only hands the log over, and the terms that a container prints of itself
_HANDS_OVER: Final = late_pattern(
    r"(?i)^\W{0,4}(?:[\w'-]{1,16} ){0,6}(?:logs?|output|ausgabe|startlog|protokoll)\b(?: [\w'-]{1,12}){0,5}\W{0,4}$"
    r"|^.{0,8}日志.{0,6}$"
    r"|^\W{0,4}(?:hi|hello|hallo|thanks|thank you|danke|你好|谢谢)\b.{0,40}$"
    r"|\blicen[cs]e|\bcopyright\b|\bterms\b|All rights reserved|Various files include|documentation"
)


def unread_sentence(
    claims: Sequence[Claim], observations: Sequence[Observation], lines: Sequence[Line]
) -> Doubt | None:
    """Beside a healthy log somebody tells something that no word here is known for: it may be of a failure."""
    printed = printed_lines(observations)
    if not printed:
        return None
    first, last = min(printed), max(printed)
    begun = min((one.line for one in observations if one.kind in MILESTONES or one.kind in READY), default=0)
    for line in lines[:BEGINNING]:
        bad = _BAD_END.search(line.text[:1000]) if line.number < begun and not line.level else None
        if bad and not _NOT_BAD.search(line.text[:1000]):
            return Doubt(line.number, line.text[:1000], SETTLES, by_people=True)
    for number in dict.fromkeys(claim.sentence for claim in claims if not first < claim.line < last):
        own = [claim for claim in claims if claim.sentence == number]
        if _PROGRAMS.search(own[0].text):
            continue
        text = " ".join(claim.text for claim in own)
        unread = any(claim.factual and not claim.outcome and _is_clause(claim.text) for claim in own)
        if unread and is_sentence(text) and not _HANDS_OVER.search(text):
            return Doubt(own[0].line, text, SETTLES, by_people=True)
    return None


# how programs begin a line: a time, the function that prints it
_PROGRAMS: Final = late_pattern(
    r"^\W{0,3}(?:\d[\d.:,TZ/-]{3,40}\s|(?:\w{1,40}\s+)?(?:main|srv|slot|que|init|\w{1,40}_\w{1,40})\s{0,8}:|\w{1,20}\s{2,})"
)
BEGINNING: Final = 5  # lines in which people say what a log is about
_CLAUSE: Final = late_pattern(r"\w\W+\w+\W+\w|[\u4e00-\u9fff]{4}")  # a verb has room in it


def _is_clause(text: str) -> bool:
    return bool(_CLAUSE.search(text))


LAST: Final = 6  # lines at the end of a text in which such a word counts


def unworded_doubt(lines: Sequence[Line], up: int) -> Doubt | None:
    """A bad end in words that no row has: in the last lines behind the last one of a running server, or in the title
    that people put over a log."""
    ends = [line for line in lines if line.text.strip()][-LAST:]
    for line in (*(line for line in lines[:3] if line.text.startswith("# ")), *(e for e in ends if e.number > up)):
        text = line.text[:1000]
        if line.level in ("INFO", "DEBUG") and not line.text.startswith("# "):
            continue
        bad = _BAD_END.search(text) or (text.startswith("# ") and _BAD_TITLE.search(text))
        if bad and not _NOT_BAD.search(text):
            return Doubt(line.number, text, SETTLES)
    return None
