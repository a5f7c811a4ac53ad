"""What every rule says of random cases, as stored: when it speaks, in which tier, with which figures and remedies.

toys.json holds two digests for each rule, of what it says and of whole explanations, and the kinds of lines and values
that the cases are made of, so that one fixture more changes none; `python tests/doctor/test_toy_rules.py` writes the
digests again, and a commit that changes them says why. Of a sentence only its figures and flags count.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from toy_cases import FIGURES, STORED, case, explained, values_by_kind

from oomph.doctor.rule import Rule
from oomph.doctor.rules import rules

CASES = 200  # for each rule
EXPLAINED = 8  # whole explanations for each rule


def answer(rule: Rule, seed: int) -> Any:
    try:
        candidate = rule.speak(case(rule, seed))
    except (ArithmeticError, LookupError, StopIteration, TypeError, ValueError) as error:
        return type(error).__name__  # no log gives such values together
    if candidate is None:
        return None
    remedies = [(one.lever, one.change, one.flags, one.rank, one.gains_bytes) for one in candidate.remedies]
    rejected = [one.lever for one in candidate.rejected]
    return candidate.tier.name, FIGURES.findall(candidate.text), candidate.lines, remedies, rejected


def digest(rule: Rule) -> str:
    return hashed([answer(rule, seed) for seed in range(CASES)])


def whole(rule: Rule) -> str:
    return hashed([explained(case(rule, seed)) for seed in range(EXPLAINED)])


def hashed(value: Any) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=4).hexdigest()


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.id)
def test_a_rule_says_what_it_said(rule: Rule) -> None:
    known = json.loads(STORED.read_text())["rules"].get(rule.id)
    assert digest(rule) == known, "on purpose, or a new rule: python tests/doctor/test_toy_rules.py"


@pytest.mark.parametrize("part", range(4))
def test_an_explanation_says_what_it_said(part: int) -> None:
    known = json.loads(STORED.read_text())["whole"]
    changed = [rule.id for rule in list(rules())[part::4] if whole(rule) != known.get(rule.id)]
    assert not changed, "on purpose, or a new rule: python tests/doctor/test_toy_rules.py"


if __name__ == "__main__":
    stored = {
        "rules": {rule.id: digest(rule) for rule in rules()}, "whole": {rule.id: whole(rule) for rule in rules()},
        "kinds": values_by_kind(),
    }  # fmt: skip
    STORED.write_text(json.dumps(stored, indent=0) + "\n")
