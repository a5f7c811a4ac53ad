"""Which rules speak on which fixture, and in which tier: a flipped comparison in a rule changes a stored line.

`python tools/replay.py renew ranks` stores them again; a commit that does says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from stored_answers import Row, check_table

from oomph.doctor.explain import read_case
from oomph.doctor.rank import candidates, ordered
from oomph.doctor.rule import Finding, Rule, Tier

FIXTURES = Path(__file__).parent / "fixtures"


def ranks(log: Path) -> list[str]:
    """ "K02 computed": every rule that speaks, the best first."""
    case = read_case([log])
    engine = case.rebuilt.engine or "vllm"
    return [f"{rule.id} {candidate.tier.name.lower()}" for rule, candidate in candidates(case, engine)]


def verdict(log: Path) -> str:
    """ "failed kv_check by message": the reading that the rules rest on."""
    death = read_case([log]).death
    failed = {True: "failed", False: "did not fail", None: "unclear"}[death.failed]
    return f"{failed} {death.stage or '-'} by {death.basis}"


def rows(letter: str) -> Iterator[Row]:
    return ((log.stem, [verdict(log), *ranks(log)]) for log in sorted(FIXTURES.glob(f"{letter}*.log")))


TABLES: dict[str, Callable[[], Iterator[Row]]] = {
    letter: partial(rows, letter) for letter in sorted({log.name[0] for log in FIXTURES.glob("*.log")})
}


@pytest.mark.parametrize("letter", TABLES)
def test_every_fixture_is_ranked_as_stored(letter: str) -> None:
    check_table("ranks", letter, TABLES[letter]())


def _rule(name: str, *over: str) -> Rule:
    return Rule(name, name, (), lambda case: None, over=over)


def test_the_better_tier_is_first_and_inside_a_tier_the_rule_that_says_more() -> None:
    said, likely = Finding(Tier.SAID, "a."), Finding(Tier.LIKELY, "b.")
    ranked = ordered([(_rule("A"), likely), (_rule("B", "A"), likely), (_rule("C"), said)])
    assert [rule.id for rule, _ in ranked] == ["C", "B", "A"]


def test_a_circle_of_precedence_ends() -> None:
    likely = Finding(Tier.LIKELY, "b.")
    assert len(ordered([(_rule("A", "B"), likely), (_rule("B", "A"), likely)])) == 2
