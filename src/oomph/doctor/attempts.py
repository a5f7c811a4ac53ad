# ruff: noqa: E501 - a row is a line
"""What the poster tried joins the advice: what did not help is not advised again, what did comes first.

A remedy that was planned and fits stays where it goes further than what was tried; whatever else is about the same thing
is listed as useless, in the poster's own words. The one flag without which it works, or the release in which it did, is
the first thing to do.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from oomph.doctor.case import Case
from oomph.doctor.diagnose import unplanned
from oomph.doctor.explanation import Explanation
from oomph.engines.registry import engine_named
from oomph.facts.topics import FLAG, topics_of
from oomph.ir import Advice, Change, Judged
from oomph.logs.attempts import Attempt
from oomph.logs.claims import Claim
from oomph.logs.deployment import value_of
from oomph.text.late import late_pattern

SAID_USELESS: Final = "you say that it did not help"
MOST: Final = 2  # of what helped
SHORT: Final = 60  # characters in which a change is told
_NUMBER: Final = late_pattern(r"(?<![\w.])\d{1,9}(?:\.\d{1,4})?(?![\w.])")
_RELEASE: Final = late_pattern(
    r"(?<![\w.])v?(\d{1,3}\.\d{1,3}(?:\.\d{1,5})?(?:\.?(?:post|dev|rc|a|b)\d{1,5}){0,3})(?![\w.]|-?\d?[bB]\b)"
)
_WORKED_IN: Final = late_pattern(
    r"(?i)\b(?:regress\w{0,5} (?:vs\.?|from|since|after|between)|work(?:s|ed)|ran|runs|fine|ok|good|funktioniert\w{0,2}|lief|läuft|up (?:to|until)|until|last)\b|正常|可以"
)


def with_attempts(case: Case, explanation: Explanation) -> Explanation:
    vain = _in_vain(case.attempts)
    helped = [one for one in case.attempts if one.result == "helped" and len(one.words) <= SHORT and _is_told(one)]
    first = [*(_as_remedy(case, one) for one in helped[:MOST]), *_good_release(case)]
    if not vain and not first:
        return explanation
    left = [judged for judged in explanation.remedies
            if not _was_tried(judged, vain) and not _is_about(judged.change.label, helped[:MOST])]  # fmt: skip
    listed = {judged.change.label for judged in first}
    rejected = [one for one in explanation.rejected if not _is_about(one.change.label, helped)]
    topics = {topic for one in rejected for topic in topics_of(one.change.label)}
    rejected += [_as_useless(one) for one in _distinct(vain) if one.topic not in topics]
    return replace(
        explanation,
        remedies=(*first, *(one for one in left if one.change.label not in listed)) if case.failed else tuple(left),
        rejected=tuple(rejected),
        advice=advice_without(explanation.advice, case.attempts),
    )


_VALUED: Final = frozenset({"share", "context", "sequences", "batch", "kv_dtype", "gpus", "layers", "offload", "swap"})


def _is_told(attempt: Attempt) -> bool:
    """What helped can be repeated: a setting with its value, or one that was left out."""
    return attempt.without or attempt.topic not in _VALUED or bool(_NUMBER.search(attempt.words))


def _distinct(attempts: Iterable[Attempt]) -> list[Attempt]:
    return list({one.topic: one for one in attempts}.values())


def _was_tried(judged: Judged, vain: list[Attempt]) -> bool:
    """It is about what did not help, and does not go further."""
    label = judged.change.label
    topics = topics_of(label)
    for one in vain:
        if one.topic not in topics or _other_way(one, judged.change):
            continue
        if not judged.verified or not _goes_further(one, label):
            return True
    return False


def _other_way(attempt: Attempt, change: Change) -> bool:
    """Lowering a share does not help, and raising it may."""
    way = "up" if change.lever.endswith("_up") else "down" if change.lever.endswith("_down") else ""
    return bool(attempt.direction and way and attempt.direction != way)


def _goes_further(attempt: Attempt, label: str) -> bool:
    """With another value of what was tried; of a limit with a lower one."""
    own = (match[0] for match in FLAG.finditer(label) if attempt.topic in topics_of(match[0]))
    values, others = _NUMBER.findall(attempt.words), _NUMBER.findall(next(own, label))
    if not values or not others:
        return False
    before, after = float(values[-1]), float(others[-1])
    return after < before if attempt.topic in _LIMITS else after != before


_LIMITS: Final = frozenset({"context", "sequences", "batch", "images", "layers"})


def _is_about(label: str, attempts: list[Attempt]) -> bool:
    return any(one.topic in topics_of(label) for one in attempts)


def _as_useless(attempt: Attempt) -> Judged:
    return Judged(Change(attempt.topic, attempt.words), "nothing", why=SAID_USELESS)


def _as_remedy(case: Case, attempt: Attempt) -> Judged:
    flag, _, value = attempt.words.replace("=", " ", 1).partition(" ")
    is_flag = flag.startswith("-")
    field = flag.lstrip("-").replace("-", "_")
    flags: dict[str, Any] = {}
    if is_flag and attempt.without:
        flags = {field: None}
    elif is_flag:
        flags = {field: value_of(value) if value else True}
    label = f"leave out {flag}" if is_flag and attempt.without else attempt.words
    works = "you say that it works without it" if attempt.without else "you say that it works so"
    return unplanned(case, Change(attempt.topic, label, flags=flags, cost=works, rank=-1))


def _good_release(case: Case) -> list[Judged]:
    """The release in which the poster says that it worked, where another one fails."""
    if not case.failed or not case.rebuilt.engine:
        return []
    own = case.rebuilt.version.partition("+")[0]
    for claim in case.claims:
        match = _RELEASE.search(claim.text)
        if match is None or match[1] == own or not _worked(claim, case.claims):
            continue
        title = engine_named(case.rebuilt.engine).title
        change = Change("release", f"{title} {match[1]}", "release", cost="you say that it works there", rank=-1)
        return [unplanned(case, change)] if _may_be(match[1], own, case.rebuilt.engine) else []
    return []


def _worked(claim: Claim, claims: tuple[Claim, ...]) -> bool:
    """Its clause or the rest of its sentence says that it went well, and nothing of it that it failed."""
    if claim.outcome == "failed":
        return bool(re.search(r"(?i)regress\w{0,5} (?:vs\.?|from|since)", claim.text))
    same = [other for other in claims if other.sentence == claim.sentence]
    if any(other.outcome == "failed" for other in same):
        return claim.outcome == "well" and bool(_WORKED_IN.search(claim.text))
    return any(other.outcome == "well" for other in same)


def _may_be(version: str, own: str, engine: str) -> bool:
    """A release of the same engine: numbered alike and in full (0.4 is a share), not a size, an image or a driver."""
    first = version.split(".")[0]
    majors = {release.split(".")[0] for release in engine_named(engine).releases()}
    return version.count(".") >= 2 and (first == own.split(".")[0] if own else not majors or first in majors)


def _in_vain(attempts: Iterable[Attempt]) -> list[Attempt]:
    return [one for one in attempts if one.result == "in vain" and not one.without]


def advice_without(advice: Advice | None, attempts: Iterable[Attempt]) -> Advice | None:
    """The advice without what was tried in vain."""
    vain = _in_vain(attempts)
    if advice is None or not vain:
        return advice
    fixes = tuple(one for one in advice.fixes if not _was_tried(one, vain))
    helps = tuple(one for one in advice.helps if not _was_tried(one, vain))
    out = [replace(one, effect="nothing", why=SAID_USELESS) for one in (*advice.fixes, *advice.helps)
           if _was_tried(one, vain)]  # fmt: skip
    return replace(advice, fixes=fixes, helps=helps, useless=(*advice.useless, *out))
