"""Where people's own words say that a run failed: probabilities learned from labelled texts, beside the written rules.

prose.json holds what tools/learn_prose.py learned: for each of 4,096 hashes of words, pairs of words and groups of 3 to
5 characters one weight per stage, and one for each of what a text is about: a lack of memory, another failure, none.
No text can be read back from it. It counts as much as the rules, and only where no program's line says the stage: on
texts that neither had seen both together were right more often than either alone (docs/accuracy.md has the figures).
"""

import base64
import json
import math
import re
import zlib
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Final, Literal

from oomph.doctor.reading.meanings import ORDER
from oomph.ir import StageName
from oomph.ir.evidence import StageBasis
from oomph.logs.clean import Line
from oomph.logs.documents import is_prose

Chances = dict[StageName, float]
About = Literal["memory", "other", "none"]  # of a text: a lack of memory, another failure, nothing that failed

HASHES: Final = 1 << 12
LONGEST: Final = 4000  # characters of a text
FEWEST: Final = 16  # words of a text that tells something; an ideograph is one
HALF: Final = 0.5  # what the rules count beside what is learned
# How often a stage that rests on each was right: 128 public reports of 16 Nov 2026 at first sight together with an
# earlier set of 66, both labelled before they were explained.
RIGHT: Final[dict[StageBasis, tuple[int, int]]] = {
    "message": (66, 72), "traceback": (39, 40), "plan": (1, 1), "said": (11, 15), "milestone": (11, 17),
    "the log ends here": (5, 9), "guess": (15, 28),
}  # fmt: skip
_WORD: Final = re.compile(r"[a-zäöüß_]+|0|[\u4e00-\u9fff]")
_DIGITS: Final = re.compile(r"\d+")


def words_of(lines: Sequence[Line]) -> str:
    """The beginning of a text, lines of programs with it: what people quote tells as much as what they say."""
    words: list[str] = []
    length = 0
    for line in lines:
        if length > LONGEST:
            break
        words.append(line.text[: LONGEST - length + 1])
        length += len(words[-1]) + 1
    return " ".join(words)


def hashed_grams(text: str) -> frozenset[int]:
    """Figures are all alike: a size says nothing of a stage."""
    text = " ".join(_DIGITS.sub("0", text[:LONGEST].lower()).split())
    words = _WORD.findall(text)
    if len(words) < FEWEST:
        return frozenset()
    grams = {*words, *(f"{one} {other}" for one, other in pairwise(words))}
    grams |= {f"{size}:{text[at : at + size]}" for size in (3, 4, 5) for at in range(len(text) - size + 1)}
    return frozenset(zlib.crc32(gram.encode()) % HASHES for gram in grams)


@cache
def _learned(head: str) -> tuple[tuple[str, ...], float, memoryview]:
    """The names, what a weight of 1 counts, and a row of weights per hash; the last row is that of every text."""
    stored = json.loads(files("oomph.doctor.reading").joinpath("prose.json").read_text(encoding="utf-8"))[head]
    return tuple(stored["names"]), stored["unit"], memoryview(base64.b85decode(stored["weights"])).cast("b")


def _shares(head: str, text: str, missing: Collection[str] = ()) -> dict[str, float]:
    """The probability of each name; {} where the text is too short."""
    hashes = hashed_grams(text)
    if not hashes:
        return {}
    names, unit, weights = _learned(head)
    wide = len(names)
    rows = [weights[at * wide : (at + 1) * wide] for at in hashes]
    always = weights[HASHES * wide :]
    each = unit / math.sqrt(len(hashes))
    scores = {
        name: each * sum(row[place] for row in rows) + unit * always[place]
        for place, name in enumerate(names)
        if name not in missing
    }
    highest = max(scores.values())
    shares = {name: math.exp(score - highest) for name, score in scores.items()}
    return {name: share / sum(shares.values()) for name, share in shares.items()}


def learned_chances(text: str, missing: Collection[str] = ()) -> Chances:
    """The probability of each stage. `missing`: what the engine does not have."""
    shares = _shares("stage", text, missing)
    return {stage: shares[stage] for stage in ORDER if stage in shares}


def is_about(lines: Sequence[Line] | str, least: float) -> About | None:
    """What people's own sentences are about, where that is at least so likely; None where they do not tell."""
    text = lines if isinstance(lines, str) else words_of([line for line in lines if is_prose(line)])
    shares = _shares("about", text)
    names: tuple[About, ...] = ("memory", "other", "none")
    return next((name for name in names if shares.get(name, 0.0) >= least), None)


def probability(basis: StageBasis) -> float:
    """By Laplace's rule, so that nothing is certain."""
    right, number = RIGHT.get(basis, (1, 1))
    return round((right + 1) / (number + 2), 2)


def mixed(rules: Mapping[StageName, float], learned: Mapping[StageName, float]) -> Chances:
    """Both count alike; what the rules do not name shares what they leave over."""
    rest = max(0.0, 1 - sum(rules.values())) / max(1, sum(stage not in rules for stage in learned))
    return {
        stage: HALF * rules.get(stage, rest) + (1 - HALF) * learned.get(stage, 0.0)
        for stage in ORDER
        if stage in learned or stage in rules
    }
