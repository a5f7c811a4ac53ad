# ruff: noqa: E501 - a row is a line
"""What people say they tried, and what came of it: what did not help is never advised, what helped comes first.

A change and its outcome often stand in two clauses ("I lowered X to 0.8, still the same error"): a clause with an
outcome speaks of the changes before it in its sentence, and of those of the sentence before where it refers back.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct

from oomph.facts.claim_words import ENDED, HELPED, IN_VAIN, NOT, QUESTION, SHORTAGE, SUPPOSED, WENT_WELL, WITHOUT
from oomph.facts.topics import DOWN, FLAG, SHORT_FLAG, UP, VARIABLE, topics_of
from oomph.logs.documents import Sentence, clauses
from oomph.text.late import late_pattern

Result = Literal["in vain", "helped"]


class Attempt(Struct, frozen=True):
    line: int
    topic: str  # facts/topics.py: "share", or a flag
    result: Result
    without: bool  # it was left out, not set
    direction: Literal["up", "down", ""]
    words: str  # as it was written: the flag with its value, else the clause


_BACK: Final = late_pattern(
    r"(?i)^\W{0,4}(?:but|still|it|that|this|same|no\b|none|nothing|neither|unfortunately|then|lowering it|raising it|changing it|with that|with this|both|all of|das|es\b|aber|trotzdem|leider|nichts|damit|beides)|^(?:还是|仍|依|但|也|都|没|同样)"
)

_OFF: Final = frozenset({"graphs", "drafts"})  # topics whose own words say that something is off
_WITHOUT_IT: Final = late_pattern(
    r"(?i)^\W{0,4}(?:\w{1,12} ){0,3}(?:remov|drop|leav|tak|turn|switch|disabl|omit|without|ohne|lass|nehm|schalt|entfern)\w{0,4} (?:ich |man |wir )?(?:it|that|this|them|the (?:flag|option|setting)|es|das|die|den|ihn|sie)\b|^(?:把它|去掉|拿掉|关掉|不加)"
)

# "With 8192 it is fine", "mit 40 geht es", "改成 8192 就好了": another value of what was spoken of
_VALUE: Final = late_pattern(
    r"(?i)^\W{0,4}(?:but |aber |and |und )?(?:with|at|using|set to|(?:back|down) to|mit|bei|(?:zurück )?auf|(?:[改换设调降]|设置|调整|恢复)(?:[成为到回至])?|用)?\s?(\d{1,7}(?:\.\d{1,4})?[kK]?)(?![\w.,-]*\d|\s?(?:[KMGT]i?B|[KMGT]\b|GPUs?|x\b|times|hours?|days?|von|of|layers?|schichten|lagen|cards?|karten|users?|nutzer|层|张|个用户))(.{0,60})$"
)
_SETTING: Final = late_pattern(
    r"(?<![\w-])(--?[a-z][\w-]{0,40}|[a-z]+(?:[_-][a-z]+)+)(?:[ =:]| auf | to | of | 是 ?| ?(?:[改换设调升]|设置|调整)(?:[成为到至]) ?){1,2}(\d{1,7}(?:\.\d{1,4})?[kK]?)(?![\w.]*\d)"
)


def _with_value(clause: str, behind: str, setting: str) -> str:
    """The setting that was spoken of with the value of this clause, where it or the one behind says that it works."""
    match = _VALUE.search(clause) if setting else None
    if match is None or topics_of(clause):
        return ""
    outcome = match[2] if match[2].strip(" .") else behind
    works = (HELPED.search(outcome) or WENT_WELL.search(outcome)) and not NOT.search(outcome)
    return f"{setting} {match[1]}" if works else ""


def read_attempts(sentences: Sequence[Sentence]) -> tuple[Attempt, ...]:
    attempts: list[Attempt] = []
    waiting: list[tuple[int, str]] = []  # clauses with a change whose outcome is not told yet
    setting = ""  # the last one that was named with its value
    failed = left_out = False  # with the settings that wait; and that they were taken away again
    for sentence in sentences:
        if waiting and not _BACK.search(sentence.text) and not _WITHOUT_IT.search(sentence.text):
            waiting, failed, left_out = [], False, False
        parts = clauses(sentence.text)
        for clause, behind in zip(parts, (*parts[1:], ""), strict=True):
            if again := _with_value(clause, behind, setting):
                topics = sorted(topics_of(again))
                attempts += [Attempt(sentence.line, topic, "helped", False, "", again) for topic in topics]
                waiting = []
                continue
            if (named := _SETTING.search(clause)) is not None and topics_of(named[0]):
                setting = named[1]
            if topics_of(clause):
                waiting, failed, left_out = [*waiting, (sentence.line, clause)], _fails(clause), False
            else:
                left_out = left_out or bool(WITHOUT.search(clause))
            result = None if QUESTION.search(sentence.text) else _result(clause)
            if result is None and not topics_of(clause) and _fails(clause):
                failed = True
            if result == "helped" and failed and not topics_of(clause) and not left_out:
                continue  # another setting than those with which it had failed
            if result is not None and waiting:
                meant = waiting[-1:] if result == "helped" else waiting  # "none of it helped" is said of several
                attempts += [one for line, text in meant for one in _attempts(line, text, result, left_out)]
                waiting = []
    return tuple(attempts)


def _result(clause: str) -> Result | None:
    if IN_VAIN.search(clause):
        return "in vain"
    match = HELPED.search(clause)
    if match is None or SUPPOSED.search(clause):
        return None
    return "in vain" if NOT.search(clause[: match.start()][-40:]) else "helped"


def _fails(clause: str) -> bool:
    return bool(SHORTAGE.search(clause) or ENDED.search(clause))


def _attempts(line: int, clause: str, result: Result, is_left_out: bool) -> Iterator[Attempt]:
    """`is_left_out`: as the clause with the outcome says of it ("leave it away and all is fine")."""
    up, down = bool(UP.search(clause)), bool(DOWN.search(clause))
    direction: Literal["up", "down", ""] = "up" if up and not down else "down" if down and not up else ""
    flags = [match[0] for rule in (FLAG, SHORT_FLAG, VARIABLE) for match in rule.finditer(clause)]
    left_out = WITHOUT.search(clause)
    for topic in sorted(topics_of(clause)):
        words = next((flag for flag in flags if topic in topics_of(flag)), clause)
        own = left_out is not None and left_out.start() < max(0, clause.find(words)) + 1
        without = is_left_out or (own and not (topic in _OFF and words == clause))
        yield Attempt(line, topic, result, without, direction, words.strip("`. ")[:120])
