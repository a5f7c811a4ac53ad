"""Every rule: its fixture log, made of the engine's own lines, yields it first; its page says all it has to."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from oomph.doctor.explain import explain as full_explain, explain_case, read_case
from oomph.doctor.rule import Rule
from oomph.doctor.rules import page, rules
from oomph.ir.timeline import STAGES

FIXTURES = Path(__file__).parent / "fixtures"
RULES = {rule.id: rule for rule in rules()}
SECTIONS = ("What it is:", "How to recognise it:", "Look-alikes:", "What fixes it:", "What does not:", "Evidence:")
explain = partial(full_explain, plan=False)  # the rules alone; planning is tested in tests/doctor/test_verify.py


def test_all_are_there() -> None:
    assert len(RULES) >= 72
    logs = {file.stem for file in FIXTURES.glob("*.log")}
    assert not (without := set(RULES) - logs), f"each rule wants a log that ends in it: {FIXTURES}/{without}.log"
    assert not (nobodys := logs - set(RULES)), f"no rule has the id of {nobodys}"


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_fixture_yields_its_rule_first(rule: Rule) -> None:
    case = read_case([FIXTURES / f"{rule.id}.log"])
    if rule.id == "L09":  # the number of KV heads is the model's, not the log's
        from msgspec.structs import replace

        case = replace(case, kv_heads=4)
    result = explain_case(case)
    assert result.cause.id == rule.id, [(c.id, c.score) for c in result.candidates]
    assert bool(result.failed) is rule.failure
    assert result.evidence
    if result.stage:
        assert result.stage in rule.stages or not rule.failure


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_page(rule: Rule) -> None:
    text = page(rule.id)
    assert text.startswith(f"{rule.id}: ")
    for section in SECTIONS:
        assert f"\n{section}" in text, section
    assert set(rule.stages) <= set(STAGES)
    assert rule.title and "\nEvidence: " in rule.page


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_no_remedy_is_rejected_advice(rule: Rule) -> None:
    result = explain([FIXTURES / f"{rule.id}.log"])
    rejected = {r.change.lever for r in result.rejected}
    assert not [r.change.label for r in result.remedies if r.change.lever in rejected]
    assert all(not r.verified for r in result.remedies)  # nothing was planned here


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_text_is_prose(rule: Rule) -> None:
    text = explain([FIXTURES / f"{rule.id}.log"]).cause.text
    assert text == text.strip() and text.endswith((".", ")")) and "  " not in text
    assert not re.search(r"None|\bnan\b", text)
