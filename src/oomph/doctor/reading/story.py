# ruff: noqa: E501 - a row is a line
"""What the claims of a text say together: whether a failure is told, and in which stages it may have been.

The clause that tells of the failure counts first: the stage that it names, the one behind a stage that it was beyond,
the one before a stage that it did not reach. Where it names none, the clauses beside it do: what was going on, and what
had gone well before. What went well in the same run is over.
"""

from collections.abc import Sequence
from typing import Final

from oomph.doctor.reading.meanings import ORDER
from oomph.doctor.reading.places import place_stage
from oomph.doctor.reading.tracebacks import frame_stage
from oomph.facts.claim_words import ENDED, GONE, IMPERATIVE, NOT_RUN, SHORTAGE, SINCE
from oomph.ir import StageName
from oomph.logs.claims import Claim
from oomph.text.late import late_pattern

Weights = dict[StageName, float]
NAMED, BESIDE, STARTS = 4.0, 2.0, 0.5  # of a stage that the failing clause names, that one beside it does, of a start
NEXT: Final = 0.4  # how much less each further stage counts that may follow one that went well
DISTANCE: Final = 0.9  # how much less each further clause counts
TITLE: Final = 1.5  # what stands in the title is what it is about
# of a failure that is said to be at the start, and no more: how often it was each (tests/truth/field, the labels)
OF_A_START: Final[Weights] = {"weights_load": 1.0, "profile_run": 0.8, "kv_check": 0.4, "kv_alloc": 0.3}
# what an engine without the first calls it
_OWN_NAME: Final[dict[StageName, StageName]] = {"kv_check": "kv_alloc", "cudagraph_profile": "cudagraph_capture"}
# what failed came behind what was just told
_NEXT_STEP: Final = late_pattern(
    r"(?i)\bnext (?:step|thing|moment)|(?:step|thing|stage|moment) after (?:that|it|this)|right after|afterwards|directly after|im nächsten schritt|direkt danach|gleich danach|下一步|接下来|紧接着"
)
# another run than the one that failed
_OTHER_RUN: Final = late_pattern(
    r"(?i)\b(?:without|previous(?:ly)?|earlier|older|last (?:week|month|version|release)|used to|before|with another|other (?:model|engine|card|framework|tool)s?|on (?:another|a different)|instead|same (?:model|config\w{0,8}|command|setup|settings?)|downgrad\w{1,4}|v?\d+\.\d+\.\d+\w{0,8}|ollama|llama\.cpp|sglang|transformers|früher|vorher|ältere[rns]?|mit (?:der |dem )?(?:version|alten)|ohne)\b|之前|以前|旧版|老版本|换成|去掉|不加|关闭"
)


# what was so, and is no more: "it used to crash"
_FORMER: Final = late_pattern(
    r"(?i)\b(?:used to|formerly|previously|in the past)\b|\bfrüher\b|\bdamals\b|^\W*(?:之前|以前)"
)


def failing_claims(claims: Sequence[Claim]) -> list[Claim]:
    """Those that tell of a failure as a fact, the title's first, then those about memory. That another setting fails too
    is not told of this run: `--kv-cache-dtype fp8 on the same configuration fails`; nor is what only used to fail."""
    failing = [claim for claim in claims if claim.outcome == "failed" and claim.factual and not _is_aside(claim)]
    if not any(claim.heading for claim in failing) and all(_FORMER.search(claim.text) for claim in failing):
        return []
    if any(NOT_RUN.search(claim.text) for claim in claims) and not any(claim.ended for claim in failing):
        return []  # somebody plans
    over = _last_of_what_is_over(claims)
    failing = [claim for claim in failing if claim.sentence > over or claim.heading]
    return sorted(failing, key=lambda claim: (not claim.heading, not claim.memory))


def _last_of_what_is_over(claims: Sequence[Claim]) -> int:
    """The sentence that says that the failure is gone, where another says that it has stayed away; -1: none does."""
    texts: dict[int, str] = {}
    for claim in claims:
        texts[claim.sentence] = f"{texts.get(claim.sentence, '')} {claim.text}".strip()
    gone = [number for number, text in texts.items() if GONE.search(text)]
    return gone[-1] if gone and any(SINCE.search(text) for text in texts.values()) else -1


def _is_aside(claim: Claim) -> bool:
    return not (claim.heading or claim.memory or claim.ended) and bool(_OTHER_RUN.search(claim.text))


def asserted(claims: Sequence[Claim]) -> str | None:
    """What a text asserts, where a part of it only asks, wishes, denies or advises for a case that may come; None: all
    of it."""
    feared = {claim.sentence for claim in claims if claim.outcome == "failed" and not claim.factual}
    parts = [claim for claim in claims if claim.factual and not _denies(claim) and not IMPERATIVE.search(claim.text)]
    parts = [claim for claim in parts if claim.sentence not in feared or claim.outcome == "failed"]
    return None if len(parts) == len(claims) else " ".join(claim.text for claim in parts)


def _denies(claim: Claim) -> bool:
    """It has the words of a failure, and none is told."""
    return claim.outcome != "failed" and bool(SHORTAGE.search(claim.text) or ENDED.search(claim.text))


def speaks_of_failure(claims: Sequence[Claim]) -> Claim | None:
    """Any clause that speaks of one, also as a question or a fear: an all-clear does not stand above it."""
    return next(iter(failing_claims(claims)), None) or next((c for c in claims if c.outcome == "failed"), None)


def told_stages(claims: Sequence[Claim], missing: Sequence[str] = ()) -> Weights:
    """Stages in which it may have failed, weighed; `missing`: those that the engine does not have."""
    order = [stage for stage in ORDER if stage not in ("other", "host_ram") and stage not in missing]
    over = passed_stages(claims, order)
    weights: Weights = {}
    for claim in failing_claims(claims):
        own = _of_clause(claim, order, NAMED) or _beside(claim, claims, order)
        for name, weight in own.items():
            stage = _OWN_NAME.get(name, name) if name in missing else name
            if stage in over or stage in missing:
                continue
            counts = weight * (TITLE if claim.heading else 1) * (1 if claim.memory else 0.5)
            weights[stage] = weights.get(stage, 0) + counts
    if max(weights.values(), default=0) < BESIDE / 2:  # that it failed is all they say of it
        for stage, weight in _around(claims, order).items():
            if stage not in over and stage not in missing:
                weights[stage] = weights.get(stage, 0) + weight
    return weights


def _around(claims: Sequence[Claim], order: Sequence[StageName]) -> Weights:
    """What else they tell: what was going on, and what had gone well."""
    weights: Weights = {}
    for claim in claims:
        if not claim.factual or claim.outcome == "failed" or _OTHER_RUN.search(claim.text):
            continue
        if claim.outcome == "well":
            for stage in (*claim.named("during"), *claim.named("after")):
                served = stage == "runtime_request"
                own = {stage: BESIDE / 2} if served else _following(stage, order, BESIDE / 2)
                weights |= {name: max(weight, weights.get(name, 0)) for name, weight in own.items()}
            continue
        for stage, weight in _of_clause(claim, order, BESIDE / 2).items():
            weights[stage] = max(weight, weights.get(stage, 0))
    return weights


def told_stage(claims: Sequence[Claim], missing: Sequence[str] = ()) -> tuple[StageName | None, float]:
    """The likeliest, and its weight; of two alike the one that comes first in a run."""
    weights = told_stages(claims, missing)
    if not weights:
        return None, 0.0
    best = max(weights, key=lambda stage: (weights[stage], -ORDER.index(stage)))
    return best, weights[best]


def passed_stages(claims: Sequence[Claim], order: Sequence[StageName]) -> frozenset[StageName]:
    """What is said to have gone well in the run that failed, with everything before it."""
    over: set[StageName] = set()
    telling = {claim.sentence for claim in claims if claim.outcome == "failed"}
    for claim in claims:
        behind = claim.named("after") if claim.outcome == "failed" or claim.sentence in telling else ()
        if claim.outcome == "well" and not _OTHER_RUN.search(claim.text):
            behind = (*claim.named("after"), *claim.named("during"))
        for stage in behind:
            if stage in order and stage != "runtime_request":
                over |= set(order[: order.index(stage) + 1])
            elif stage in order and _served_first(claim, claims):
                over |= set(order[: order.index(stage)])
    return frozenset(over)


def says_loaded(claims: Sequence[Claim]) -> bool:
    """Somebody says that the weights were on the card before it failed."""
    behind = any("weights_load" in one.named("after") and not _OTHER_RUN.search(one.text) for one in claims)
    return behind or "weights_load" in passed_stages(claims, ORDER)


def _served_first(claim: Claim, claims: Sequence[Claim]) -> bool:
    """The run that failed had answered before: nothing between the two speaks of another start."""
    behind = [other for other in claims if 0 <= other.sentence - claim.sentence <= 1 and other is not claim]
    if claim.outcome != "well" or any(_NEW_START.search(other.text) for other in (claim, *behind)):
        return False
    return any(other.outcome == "failed" for other in behind)


_NEW_START: Final = late_pattern(
    r"(?i)\b(?:since|updat\w{1,3}|upgrad\w{1,3}|reboot\w{0,3}|restart\w{0,3}|(?:at|on|during|while) (?:the )?(?:start|load)\w{0,4}|now (?:it|the)|seit\w{0,3}|neustart|beim (?:start|laden))\b|更新|升级|重启|启动|加载"
)
_FUNCTION: Final = late_pattern(r"\b_?[a-z][a-z0-9]{1,30}(?:_[a-z0-9]{1,30}){1,8}\b")


def _of_clause(claim: Claim, order: Sequence[StageName], weight: float) -> Weights:
    functions = _FUNCTION.findall(claim.text)[:8]
    by_function = frame_stage(functions) or place_stage(functions, ()) if functions else None
    weights: Weights = {by_function: weight} if by_function else {}
    for place, stage in enumerate(claim.named("during")):
        weights[stage] = max(weights.get(stage, 0), weight if place == 0 else weight / 2)
    within = 0.5 if weights else 1.0  # what it was in counts before what it was behind
    for stage in claim.named("after"):
        own = {stage: weight} if stage == "runtime_request" else _following(stage, order, within * weight)
        weights |= {name: max(more, weights.get(name, 0)) for name, more in own.items()}
    for stage in claim.named("before"):
        if stage in order[1:]:
            weights.setdefault(order[order.index(stage) - 1], weight / 2)
    return weights


def _following(stage: StageName, order: Sequence[StageName], weight: float) -> Weights:
    """What comes behind a stage that is over: most likely the next."""
    if stage not in order:
        return {}
    behind = order[order.index(stage) + 1 :]
    return {name: weight * NEXT**place for place, name in enumerate(behind[:3])}


def _beside(claim: Claim, claims: Sequence[Claim], order: Sequence[StageName]) -> Weights:
    """Of a failure whose clause names no stage: the clauses around it, the nearest first."""
    same = [other for other in claims if other.sentence == claim.sentence and other is not claim]
    before = [other for other in claims if other.sentence == claim.sentence - 1]
    for near in (same, before):
        weights: Weights = {}
        for other in near:
            counts = BESIDE * DISTANCE ** max(0, abs(claims.index(claim) - claims.index(other)) - 1)
            passed = other.outcome == "well" or (not other.outcome and bool(_NEXT_STEP.search(claim.text)))
            own: Weights = {}
            if passed and not _OTHER_RUN.search(other.text):
                for stage in (*other.named("during"), *other.named("after")):
                    served = stage == "runtime_request"
                    own |= {stage: counts} if served else _following(stage, order, counts)
                if other.starting:
                    own["runtime_request"] = counts
            elif not other.outcome:
                own = _of_clause(other, order, counts)
            weights |= {name: max(weight, weights.get(name, 0)) for name, weight in own.items()}
        if weights:
            return weights
    if claim.starting or any(other.starting for other in same if other.outcome != "well"):
        return {stage: STARTS * weight for stage, weight in OF_A_START.items() if stage in order}
    return {}
