"""What people claim about a run: that it failed or went well, in which stage, before or after what.

A claim is a clause. Its words say what it speaks of, the words before and behind a stage whether it was in it, before
it or beyond it, and the clauses around it what went well first. Claims never assert a stage (ir/evidence.py): they give
candidates, they keep an all-clear from being said, and what was tried in vain is not advised.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct

from oomph.facts.claim_words import (
    AFTER,
    AFTERWARDS,
    BEFORE,
    BEFOREHAND,
    COMPLETE,
    ENDED,
    ERROR,
    ERROR_IN_TITLE,
    HELPS,
    IN_A_CASE,
    KEPT_AWAY,
    NONE,
    NOT,
    NOT_BEHIND,
    NOT_YET,
    PHASES,
    QUESTION,
    SHORTAGE,
    STARTING,
    SUPPOSED,
    SUPPOSES_IT,
    UNTIL,
    WENT_WELL,
    WISH,
)
from oomph.facts.loglines import compiled
from oomph.ir import StageName
from oomph.logs.amounts import tells_cache_check, tells_free_check, tells_shortage
from oomph.logs.documents import Sentence, clauses
from oomph.text.late import late_pattern

Relation = Literal["during", "after", "before"]
Outcome = Literal["failed", "well", ""]


class Mention(Struct, frozen=True):
    """A stage that a clause speaks of."""

    stage: StageName
    relation: Relation


class Claim(Struct, frozen=True):
    line: int
    text: str
    outcome: Outcome
    memory: bool  # a lack of memory is said
    ended: bool  # that a process died, hangs or does not start
    mentions: tuple[Mention, ...]
    starting: bool  # it speaks of a start, and of no stage of it
    factual: bool  # it says what happened; not asked, wished or feared
    heading: bool
    sentence: int  # which sentence of the text it is a part of

    def named(self, relation: Relation) -> tuple[StageName, ...]:
        return tuple(mention.stage for mention in self.mentions if mention.relation == relation)


# what is no word of a sentence: flags, variables, addresses, figures with a unit
_NOT_WORDS: Final = late_pattern(
    r"(?i:mixed prefill-decode)|(?<![\w-])--?[A-Za-z][\w.-]*|\bhttps?://\S+|\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b"
)


def read_claims(sentences: Sequence[Sentence]) -> tuple[Claim, ...]:
    return tuple(claim for number, sentence in enumerate(sentences) for claim in _claims(number, sentence))


def _claims(number: int, sentence: Sentence) -> Iterator[Claim]:
    whole = _is_asked(sentence.text)
    wish = bool(WISH.search(sentence.text))
    parts = clauses(sentence.text)
    outcomes = [_outcome(clause, sentence.heading) for clause in parts]
    failing = any(outcome == "failed" for outcome, _ in outcomes)
    if not any(memory for _, memory in outcomes) and tells_shortage(sentence.text, failing):
        for place in _of_figures(parts, outcomes):
            outcomes[place] = ("failed", True)
    checked = _checked(sentence.text) if any(memory for _, memory in outcomes) else None
    for clause, (outcome, memory) in zip(parts, outcomes, strict=True):
        mentions = _mentions(clause)
        if checked and memory and not mentions:
            mentions = (Mention(checked, "during"),)
        advised = bool(IN_A_CASE.search(clause)) and any(HELPS.search(part) for part in parts if part is not clause)
        supposed = (advised or _is_supposed(clause, memory)) and not sentence.heading
        yield Claim(
            sentence.line,
            clause,
            outcome=outcome,
            memory=memory,
            ended=outcome == "failed" and bool(ENDED.search(clause)),
            mentions=mentions,
            starting=not mentions and bool(STARTING.search(clause)),
            factual=not supposed and not wish and not (not sentence.heading and (whole or _is_asked(clause))),
            heading=sentence.heading,
            sentence=number,
        )


def _is_asked(text: str) -> bool:
    """It asserts nothing: a question, and none that supposes what it asks about."""
    return bool(QUESTION.search(text)) and not SUPPOSES_IT.search(text)


def _checked(sentence: str) -> StageName | None:
    """The check whose two figures the sentence gives."""
    if tells_free_check(sentence):
        return "startup_free_memory"
    return "kv_check" if tells_cache_check(sentence) else None


def _is_supposed(clause: str, memory: bool) -> bool:
    """ "It might run out of memory" supposes; "there is not enough memory and X should be increased" does not."""
    match = SUPPOSED.search(clause)
    short = SHORTAGE.search(clause) if match is not None and memory else None
    advice = match is not None and short is not None and match[0].lower() == "should" and match.start() > short.end()
    return match is not None and not advice


_A_SIZE: Final = late_pattern(r"\d ?[KMGT]i?B?(?![A-Za-z])")


def _of_figures(parts: Sequence[str], outcomes: Sequence[tuple[Outcome, bool]]) -> set[int]:
    """Which clauses tell of the shortage that their sentence's figures show: the last that ends a run, and the last
    with a figure that names a stage."""
    failing = [place for place, (outcome, _) in enumerate(outcomes) if outcome == "failed"]
    sized = [place for place, clause in enumerate(parts) if _A_SIZE.search(clause)]
    staged = [place for place in sized if any(one.relation == "during" for one in _mentions(parts[place]))]
    return {*failing[-1:], *(staged or sized or [len(parts) - 1])[-1:]}


def _outcome(clause: str, heading: bool) -> tuple[Outcome, bool]:
    words = _NOT_WORDS.sub(" ", clause)
    negated = False
    errors = ((ERROR, False), (ERROR_IN_TITLE, False)) if heading else ((ERROR, False),)
    for pattern, memory in ((SHORTAGE, True), (ENDED, False), *errors):
        for match in pattern.finditer(words):
            behind = words[match.end() :]
            kept_away = KEPT_AWAY.search(behind[:40])
            if not NOT.search(words[: match.start()][-40:]) and not NONE.search(behind[:16]) and not kept_away:
                return "failed", memory or bool(SHORTAGE.search(words))
            negated = True
    well = WENT_WELL.search(words)
    if well is not None and _is_until(words):
        return "", False
    if well is not None:
        taken_back = NOT.search(words[: well.start()][-40:]) or NOT_BEHIND.search(words[well.end() :][:80])
        return ("failed" if taken_back else "well"), False
    return ("well" if negated else ""), False


def _is_until(words: str) -> bool:
    """It went well until a stage: that stage was not passed."""
    stages = (compiled(pattern).search(words) for _, pattern in PHASES)
    return any(match is not None and UNTIL.search(words[: match.start()][-40:]) for match in stages)


# what the cache is called in full
_KV: Final = late_pattern(r"(?i)\b(?:k/v|keys?(?: ?[-/&] ?| and | und )values?|schlüssel(?:-| und |/)werte?)\b|键值对?")


def _mentions(clause: str) -> tuple[Mention, ...]:
    """The more particular name of a stage first; what one name covers is no other stage's."""
    text = _NOT_WORDS.sub(lambda match: " " * len(match[0]), _KV.sub("KV", clause))
    spans: dict[StageName, tuple[int, int]] = {}
    left = text
    for stage, pattern in PHASES:
        match = compiled(pattern).search(left)
        if match is None:
            continue
        left = f"{left[: match.start()]}{' ' * len(match[0])}{left[match.end() :]}"
        spans.setdefault(stage, match.span())
    return tuple(
        Mention(stage, _relation(_own_words(text, start, spans), text[end:], text[start:end]))
        for stage, (start, end) in spans.items()
    )


def _own_words(text: str, start: int, spans: dict[StageName, tuple[int, int]]) -> str:
    """What stands before a mention and speaks of it: "after loading it tries the encoder" is not after the encoder."""
    last = max((end for _, end in spans.values() if end <= start), default=0)
    return text[last:start] if _VERB.search(text[last:start]) else text[:start]


_VERB: Final = late_pattern(r"(?i)\b(?!(?:and|und|the|die|der|das|its|then)\b)[^\W\d_]{3,}|[\u4e00-\u9fff]{2}")


def _relation(before: str, behind: str, words: str) -> Relation:
    if (
        AFTER.search(before[-40:])
        or AFTERWARDS.search(behind[:40])
        or words.lower().startswith("after the sleep")
        or words.endswith("完")
    ):
        return "after"
    if (NOT_YET.search(words) and not words.startswith(("权重", "模型"))) or NOT_YET.match(behind[:16].lstrip()):
        return "before"
    if COMPLETE.search(behind[:24]):
        return "during"  # "before the tensors are all in"
    return "before" if BEFORE.search(before[-40:]) or BEFOREHAND.search(behind[:12]) else "during"
