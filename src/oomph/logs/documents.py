# ruff: noqa: E501 - a row is a line
"""A paste is two documents: lines that programs printed, in the order of time, and sentences that people wrote around
them. Here they are told apart; what the sentences claim is read in claims.py, what the lines say in parse.py."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from oomph.logs.clean import Line
from oomph.text.late import late_pattern

_WORD: Final = late_pattern(r"[A-Za-zÄÖÜäöüß']{2,24}")
_CODE: Final = late_pattern(
    r"^\s{4,}\S|^(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\b|^\s{0,8}(?:File \"|at |Traceback|raise |return |import |from \w+ import|def |class |with |self\.|\$ |> |#!)|"
    r"\w\(\w{0,40}=|[;{}]\s*$|^\W{0,3}[\w.]{1,60}(?:Error|Exception)\b|^\s{0,4}[\w.-]{1,40}=\S|\bpid=\d|0x[0-9a-f]{6}|"
    r"^\[?\d{4}[-/]\d\d|^\w{1,40}: \w{1,40}=|%\||it/s"
)
_COMMAND: Final = late_pattern(
    r"^\W{0,4}(?:[A-Z_]{4,40}=\S{1,80} )*(?:vllm serve|python3?|docker|trtllm-\w|llama-\w|sglang (?:serve|launch)|\./|sudo|mpirun|ollama (?:run|serve)|kubectl|curl)\b"
)
SMALL_WORDS: Final = late_pattern(
    r"(?i)\b(?:i|we|my|our|me|you|your|it|the|an?|this|that|when|while|after|every|and|but|is|are|was|were|has|have|"
    r"ich|wir|mein\w{0,2}|unser\w{0,2}|der|die|das|ein\w{0,2}|wenn|beim|nach|und|aber|ist|sind|war)\b"
)  # of which a sentence has some, and a program's line often none
FEWEST: Final = 4  # words of a sentence
QUOTING, SMALL = 10, 3  # words, and small ones among them, of a sentence that quotes a call
FIRST_IDEOGRAPH: Final = 0x2E80
_IDEOGRAPH: Final = late_pattern("[\u2e80-\U0010ffff]")
IDEOGRAPHS: Final = 6  # of a sentence, at least
_BREAK: Final = late_pattern(r"[.!?:] [A-ZÄÖÜ]")
TITLE_LINES: Final = 5  # in which a title stands, whatever is around the whole
MOST_LINES: Final = 400  # that are looked at, from the beginning of a text
MOST_SENTENCES: Final = 300
OFTEN: Final = 3  # times that a line stands there but for its figures: a program wrote it
_DIGITS: Final = late_pattern(r"[\d.\s]+")
LONGEST: Final = 4000  # characters of a paragraph
_BULLET: Final = late_pattern(r"^\s{0,8}(?:[-*+•·]|\d{1,2}[.)]|#{1,6}|>)\s+")
_SENTENCE: Final = late_pattern(
    r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!z\.B\.)[\s*_]+(?=[^\s])|(?<=[。！？])\s*|(?<=[\u4e00-\u9fff][?!])\s*"
)
_FENCE: Final = late_pattern(r"^\s{0,8}(?:```|~~~)")


class Sentence(Struct, frozen=True):
    line: int  # of its paragraph's beginning
    text: str
    heading: bool = False  # a title: what the whole text is about


def is_prose(line: Line, fewest: int = FEWEST) -> bool:
    """A person wrote it: no header of a log, no code, and words enough for a sentence."""
    text = line.text[:1000]
    if line.file or line.process or line.level or (_is_code(text) and not text.startswith("# ")):
        return False
    if _COMMAND.match(text) and not _goes_on(text):
        return False
    return len(_WORD.findall(text)) >= fewest or has_ideographs(text)


def _goes_on(text: str) -> bool:
    """Behind the command a sentence goes on: "vllm serve MODEL -tp 2 on two cards. It never gets past the shards"."""
    small = len(SMALL_WORDS.findall(text))
    if sum(ord(character) >= FIRST_IDEOGRAPH for character in text) >= IDEOGRAPHS:
        return True
    return small >= (SMALL if " -" in text and not _BREAK.search(text) else 2)


def _is_code(text: str) -> bool:
    """A sentence may quote a call: "llm.sleep(level=1), train for a step, then the ..." has small words beside it."""
    match = _CODE.search(text)
    if match is None:
        return False
    inside = match.start() > 0 and match[0].endswith("=")
    quoted = (inside or match[0].lstrip()[:1].isupper()) and "=" in match[0] and len(_WORD.findall(text)) >= QUOTING
    return not (quoted and len(SMALL_WORDS.findall(text)) >= SMALL)


def quotes(text: str) -> bool:
    """It has as many small words as a sentence that quotes a call."""
    return len(SMALL_WORDS.findall(text)) >= SMALL or sum(ord(one) >= FIRST_IDEOGRAPH for one in text) >= IDEOGRAPHS


def has_ideographs(text: str) -> bool:
    return not text.isascii() and bool(_IDEOGRAPH.search(text))


def is_sentence(text: str) -> bool:
    """It has small words, or is written in ideographs, which no program of ours prints."""
    return bool(SMALL_WORDS.search(text)) or has_ideographs(text)


def sentences(lines: Sequence[Line], printed: frozenset[int] = frozenset()) -> tuple[Sentence, ...]:
    """Whole sentences of what people wrote; `printed` are lines that a program is known to have written."""
    parts: list[Sentence] = []
    looked_at = lines[:MOST_LINES]
    shapes = Counter(_DIGITS.sub("", line.text) for line in looked_at)
    again = {line.number for line in looked_at if shapes[_DIGITS.sub("", line.text)] >= OFTEN}
    for paragraph in _paragraphs(looked_at, printed | again):
        parts += _split(paragraph)
        if len(parts) >= MOST_SENTENCES:
            break
    return tuple(parts[:MOST_SENTENCES])


def _paragraphs(lines: Sequence[Line], printed: frozenset[int]) -> Iterator[Sentence]:
    """People break their lines anywhere; a heading and an item of a list begin anew."""
    begin, words = 0, ""
    inside = False
    for place, line in enumerate(lines):
        text = line.text.strip()[:1000]
        if _FENCE.match(line.text):
            inside, text = not inside, ""
        ours = bool(text) and line.number not in printed and _is_ours(line, inside and place > TITLE_LINES)
        fresh = bool(_BULLET.match(line.text))
        if words and (not ours or fresh or len(words) > LONGEST):
            yield Sentence(begin, words)
            begin, words = 0, ""
        if not ours:
            continue
        if text.startswith("#"):
            yield Sentence(line.number, text.lstrip("# "), heading=text.startswith("# "))
            continue
        begin, words = begin or line.number, f"{words} {_BULLET.sub('', line.text).strip()[:1000]}".strip()
    if words:
        yield Sentence(begin, words)


def _is_ours(line: Line, fenced: bool) -> bool:
    """Between fences stand lines of programs, and now and then a whole post."""
    if not fenced:
        return is_prose(line, 2)
    return is_prose(line) and bool(SMALL_WORDS.search(line.text[:1000]))


def _split(paragraph: Sentence) -> list[Sentence]:
    pieces = (piece.strip(" *_") for piece in _SENTENCE.split(paragraph.text[:LONGEST]))
    return [Sentence(paragraph.line, piece[:1000], paragraph.heading) for piece in pieces if len(piece) > 2]


_CLAUSE: Final = late_pattern(
    r"[,;，；、：]\s*(?!(?<=\d,)\d)|:\s+(?!\d)|\s[-–—→]+\s|[()（）]"
    r"|\s(?:but|however|then|and then|although|though|yet|whereas|aber|doch|jedoch|dann|danach|und dann|obwohl|woraufhin"
    r"|pero|y (?:luego|después)|mais|(?:et )?puis|et ensuite|e (?:poi|depois)|però|но|и потом)\s"
    r"|\s(?:and|und) (?=(?:then|it|now|the (?:very )?next|the step|next|the (?:server|engine|process|pod|worker)|dann|es|der|die|das)\b)"
    r"|但是?|然后|接着|不过|随后|于是",
    re.IGNORECASE,
)


def clauses(sentence: str) -> list[str]:
    return [clause.strip() for clause in _CLAUSE.split(sentence) if clause and len(clause.strip()) > 1]
