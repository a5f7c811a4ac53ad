# ruff: noqa: E501 - a row is a line
"""A failure that is only told: "However I am running into OutOfMemoryError", "every rank went OOM and the engine died".

Asked last, where no line of a log and no title is a failure (stages.py). People break their lines anywhere, so
that whole paragraphs are read; a sentence that takes it back ("no longer", "fixed") is none, and neither is a question.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from oomph.doctor.reading.prose import is_prose
from oomph.logs.clean import Line
from oomph.logs.shape import shortage
from oomph.text.late import late_pattern

_MEETS: Final = late_pattern(
    r"(?i)\b(?:gets?|getting|got|hits?|hitting|encounter(?:s|ed|ing)?|(?:run(?:s|ning)?|ran) (?:into|out of)|receiv(?:e|es|ed|ing)|fac(?:e|es|ed|ing)|throws?|threw|"
    r"rais(?:e|es|ed|ing)|fail(?:s|ed|ing)?(?: (?:with|due to|because))?|crash(?:es|ed|ing)?(?: (?:with|due to|because))?|die[sd]?(?: (?:with|of|from))?|caus(?:e|es|ed|ing)|trigger(?:s|ed|ing)?|"
    r"leads? to|led to|result(?:s|ed|ing)? in|report(?:s|ed)?|goes|went|OOM(?:s|ed)|(?:it|server|engine|process|then|model) (?:just |always |still |also |will )?OOM|kill(?:s|ed|ing)?|terminat(?:e|es|ed)|exhaust(?:s|ed)|breaks?|broke)\b|报|崩溃|挂掉|失败|卡住|卡死|出现"
)
_ENDS_IT: Final = late_pattern(
    r"(?i)\b(?:crash(?:es|ed|ing)?|die[sd]?|dead|kill(?:s|ed|ing)?|terminat(?:e|es|ed|ing)|abort(?:s|ed)?|EngineDeadError|exit(?:s|ed))\b"
)
_TAKEN_BACK: Final = late_pattern(
    r"(?i)\b(?:no longer|not|never|no|without|avoid\w{0,3}|prevent\w{0,3}|fix(?:es|ed)|solved?|resolved?|instead of|may|might|could|would|should|if|until|unless|why|how|whether|used to|previously|sometimes)\b|n['’]t\b|\?\s*$"
)
_CLAUSE: Final = late_pattern(r"[,;]\s|\bbut\b|\band then\b", re.IGNORECASE)
_SENTENCE: Final = late_pattern(r"(?<=[.!?:。])\s+")
_CAUSED: Final = late_pattern(r"(?i)out[ -]of[ -]memory|\bOOM|OutOfMemory|memory|VRAM|显存|内存")
_PRINTED: Final = late_pattern(
    r"[#|]|\s{0,8}[a-z]\w{0,40}_\w{1,60}(?:\(\))?:"
)  # a title, a table, a function's own line
_AN_ERROR: Final = late_pattern(
    r"(?i)\b(?:errors?|exceptions?|traceback|crash(?:es|ed)?|broken)\b|报错|崩溃|挂掉|失败|卡住|卡死"
)
LONGEST: Final = 400  # lines that are looked at, from the beginning of the text


class Told(Struct, frozen=True):
    line: int
    text: str
    memory: bool
    ended: bool  # that the engine or the server is dead


def sentences_of(lines: Sequence[Line]) -> Iterator[tuple[int, str]]:
    """Whole sentences of the paragraphs that people wrote, and the line in which their paragraph begins."""
    begin, words = 0, []
    for line in (*lines[:LONGEST], Line(0, "")):
        if line.text.strip() and is_prose(line, 2) and not _PRINTED.match(line.text):
            begin = begin or line.number
            words.append(line.text.strip()[:1000])
            continue
        yield from ((begin, sentence) for sentence in _SENTENCE.split(" ".join(words)[:4000]) if sentence)
        begin, words = 0, []


def claims(sentence: str) -> str:
    """Its clauses without those that ask, doubt or take something back."""
    return " , ".join(clause for clause in _CLAUSE.split(sentence) if not _TAKEN_BACK.search(clause))


def find_told(lines: Sequence[Line]) -> Told | None:
    """The first sentence that says that it failed for lack of memory, else the first that announces an error."""
    announced: Told | None = None
    for line, sentence in sentences_of(lines):
        clauses = claims(sentence)
        if not _MEETS.search(clauses):
            continue
        ended = bool(_ENDS_IT.search(sentence))
        if _CAUSED.search(clauses) and (shortage(clauses) is not None or "OutOfMemory" in clauses):
            return Told(line, sentence[:600], True, ended)
        if announced is None and _AN_ERROR.search(clauses):
            announced = Told(line, sentence[:600], False, ended)
    return announced
