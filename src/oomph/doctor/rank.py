"""Which of the rules that speak is right: the better tier first, and inside a tier the one that says more."""

from collections.abc import Sequence
from typing import Final

from oomph.doctor.case import Case
from oomph.doctor.reading.failure import UNSAID
from oomph.doctor.reading.meanings import TROUBLES
from oomph.doctor.rule import Finding, Rule, Tier
from oomph.doctor.rules import rules
from oomph.engines.registry import engine_named
from oomph.facts.topics import topics_of

Ranked = tuple[Rule, Finding]


def candidates(case: Case, engine: str) -> list[Ranked]:
    """Every rule that speaks, the best first."""
    speaking = []
    for rule in rules():
        if case.speaker is not None and len(rule.engines) == 1:
            continue  # one engine's own mechanism, and this is not its text
        if engine not in rule.engines or (rule.dated and case.version and case.within(rule.since, rule.until) is False):
            continue
        if case.death.kind in TROUBLES and rule.failure and rule.about_memory:
            continue  # what ended it is known, and it is not memory
        candidate = rule.speak(case)
        if candidate is not None:
            speaking.append((rule, candidate))
    return _humble(case, ordered(speaking))


# stages in which several things take memory: a load is about weights, a warm-up of the sampler about its buffers
_SEVERAL: Final = ("profile_run", "runtime_request", "kv_alloc")
GUESSED: Final = ("guess", "said")
HALF: Final = 0.5


def _humble(case: Case, ranked: list[Ranked]) -> list[Ranked]:
    """Where the stage is only guessed, a cause that rests on the stage alone is no better than that memory ran out;
    where nobody speaks of memory, what is said stands before what memory could have been."""
    if case.death.kind in UNSAID and not case.memory:
        return sorted(ranked, key=lambda pair: pair[0].about_memory or pair[1].tier < Tier.LIKELY)
    if (
        not ranked
        or case.death.basis not in GUESSED
        or not _is_shared(case)
        or case.speaker is not None
        or ranked[0][1].tier >= Tier.COMPUTED
        or _is_told(case)
        or case.oom_value("pools")  # torch's own figures: graphs exist, so that it served
        or _names_lever(case, ranked[0])
    ):
        return ranked
    return sorted(ranked, key=lambda pair: pair[0].id != LAST)


def _is_told(case: Case) -> bool:
    """That it served is told, not guessed; so is any stage that the written rules read and what is learned agrees to,
    and one that is more likely than all others together."""
    death = case.death
    agreed = death.ruled == death.stage and bool(death.learned)
    if death.basis == "said":
        return death.stage == "runtime_request" or agreed
    return dict(death.learned).get(death.stage or "other", 0.0) > HALF


def _is_shared(case: Case) -> bool:
    """Buffers that are placed one by one have one cause behind the load: the cache and its compute buffer (B02)."""
    placed = bool(case.rebuilt.engine) and engine_named(case.rebuilt.engine).layout == "placed"
    return case.stage in _SEVERAL and not (placed and case.stage == "kv_alloc")


def _names_lever(case: Case, best: Ranked) -> bool:
    """Whoever tells of it names what this cause is about, or says that less of it was the cure."""
    topics = {one.topic for one in case.attempts if one.result == "helped"}
    topics |= {topic for claim in case.claims for topic in topics_of(claim.text)}
    return any((lever[0] if isinstance(lever, tuple) else lever) in topics for lever in best[1].levers)


LAST: Final = "M01"  # memory ran out, and only the stage is known


def ordered(speaking: Sequence[Ranked]) -> list[Ranked]:
    """By tier; of one tier a rule stands before those it is `over`, otherwise in the order of the files."""
    ranked: list[Ranked] = []
    for tier in sorted({candidate.tier for _, candidate in speaking}, reverse=True):
        rest = [pair for pair in speaking if pair[1].tier is tier]
        while rest:
            first = next((p for p in rest if not any(outranks(q, p) for q in rest)), rest[0])
            rest.remove(first)
            ranked.append(first)
    return ranked


def outranks(one: Ranked, other: Ranked) -> bool:
    return other[0].id in one[0].over or (other[0].fallback and not one[0].fallback)


def undecided(best: Ranked, other: Ranked) -> bool:
    """Neither is better founded than the other; what the engine itself has said is decided."""
    same = best[1].tier is other[1].tier and best[1].tier < Tier.COMPUTED
    return same and not outranks(best, other)
