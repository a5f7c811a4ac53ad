"""What the rules declare of themselves: one that is about no failure must not end as one (`make mutants`)."""

from __future__ import annotations

import pytest

from oomph.doctor.rule import Rule
from oomph.doctor.rules import rules

PLAIN = Rule("id", "title", (), lambda case: None)
# attribute -> the rules in which it is not what it mostly is
OTHERS = {
    "dated": "C02 D01 K02 K03 K05 K07 L03 P05 P10 R04 R10 X01",
    "failure": "B04 B07 D10 H02 K04 K05 P10 R01 R10 T04 T06",
    "fallback": "M01",
    "names_cause": "R13",
    "plan_adds": "K05 L01 L02",
}


@pytest.mark.parametrize("name", OTHERS)
def test_which_rules_declare_something_else(name: str) -> None:
    usual = getattr(PLAIN, name)
    assert sorted(rule.id for rule in rules() if getattr(rule, name) != usual) == OTHERS[name].split()


def test_what_is_not_about_memory_has_an_n() -> None:
    assert {rule.id for rule in rules() if not rule.about_memory} == {rule.id for rule in rules() if rule.id[0] == "N"}


def test_a_plain_rule_is_of_vllm_and_about_a_failure() -> None:
    assert (PLAIN.engines, PLAIN.dated, PLAIN.failure, PLAIN.about_memory) == (("vllm",), True, True, True)
    assert (PLAIN.fallback, PLAIN.names_cause, PLAIN.plan_adds) == (False, True, "")
