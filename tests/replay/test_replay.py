"""Stored answers are as they were: tools/replay.py says how to look at a difference and how to renew on purpose."""

from __future__ import annotations

import json
import os

import pytest
from stored_answers import ABSENT, STORE, Difference, changes_of, told

import replay

LEAST = {
    "plan": 2000, "whole_plan": 800, "explain": 400, "rules": 400, "fit": 60, "simulate": 40, "inspect": 100,
    "advice": 100, "what-if": 20, "levers": 50, "models": 10, "gpus": 20,
}  # fmt: skip


# tests of a few seconds each, so that no worker is left with a long one at the end
PARTS = {"plan": 8, "fit": 6, "explain": 3, "simulate": 3, "advice": 3, "whole_plan": 2, "models": 2}


@pytest.mark.parametrize(("kind", "part"), [(kind, n) for kind in replay.KINDS for n in range(PARTS.get(kind, 1))])
def test_answers_are_as_they_were(kind: str, part: int) -> None:
    parts = PARTS.get(kind, 1)
    changed = replay.differences_of(kind, replay.numbers(kind, int(os.environ.get("REPLAY_EVERY", "1")), part, parts))
    assert not changed, told(changed)


@pytest.mark.parametrize("kind", replay.KINDS)
def test_there_are_enough_cases(kind: str) -> None:
    assert len(replay.cases(kind)) >= LEAST[kind]


def test_no_file_of_the_store_is_large() -> None:
    assert max(path.stat().st_size for path in STORE.rglob("*") if path.is_file()) < 1_000_000


@pytest.mark.parametrize("kind", sorted({*replay.KINDS} - {"inspect", "explain", "rules"}))
def test_every_case_names_its_release(kind: str) -> None:
    """One that does not would be another answer with every new release."""
    assert not [case for case in replay.cases(kind) if not any("==" in word for word in case)]


def test_a_log_that_is_planned_is_of_a_known_release() -> None:
    explained = {question: json.loads(answer) for question, answer in replay.load("explain").items()}
    assert not [
        question for question, answer in explained.items() if "advice" in answer and not answer["engine"]["version"]
    ]


def test_both_values_of_a_field_are_printed() -> None:
    one = Difference("plan", "a question", '{"kv":{"blocks":3},"fits":true}', '{"kv":{"blocks":4},"fits":true}')
    assert [*changes_of(one)] == [(("kv", "blocks"), 3, 4)]
    assert "kv.blocks: 3 -> 4" in told([one])
    assert told([one]).endswith("python tools/replay.py renew plan")


def test_of_lists_what_was_put_in_and_taken_out() -> None:
    one = Difference("explain", "a question", '["a","b","c"]', '["a","c","d","e"]')
    assert [(path, old, new) for path, old, new in changes_of(one) if isinstance(old, str)] == [(("1",), "b", ABSENT)]
    assert [new for _, old, new in changes_of(one) if old is ABSENT] == ["d", "e"]


def test_what_is_printed_is_bounded() -> None:
    before, now = (str([one] * 5000) for one in (1, 2))
    text = told([Difference("plan", "q" * 9999, before, now)] * 1000)
    assert len(text) < 20_000 and "and 992 more" in text


def test_a_sentence_may_change_and_its_figures_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a thorough kind its flags count too, and a sentence more or less is a change; of others no prose counts."""
    known = frozenset(("notes.*", "cost", "version_from", "blocks"))
    monkeypatch.setattr(replay, "known_fields", lambda kind: known)
    fields = {"notes": ["12.5 GiB are left", "use --max-model-len 4096"], "cost": "", "version_from": "--engine"}
    stored = replay.kept("explain", fields)
    assert replay.kept("explain", {**fields, "notes": ["12.5 GiB remain", "take --max-model-len 4096"]}) == stored
    for notes in (["12.6 GiB are left", fields["notes"][1]], fields["notes"][:1], ["12.5 GiB are left", "use 4096"]):
        assert replay.kept("explain", {**fields, "notes": notes}) != stored
    assert replay.kept("explain", {**fields, "cost": "a sentence"}) != stored
    assert replay.kept("explain", {**fields, "version_from": "log"}) != stored
    assert replay.kept("explain", {**fields, "added": 1}) == stored
    assert replay.kept("plan", {**fields, "blocks": 3}) == {"blocks": 3}


def test_a_log_is_changed_line_by_line() -> None:
    text = "one 1.50 GiB\ntwo 2\nthree"
    assert replay.edited(text, "") == "one 1.50 GiB\ntwo 2\nthree\n"
    assert replay.edited(text, "-2") == "one 1.50 GiB\nthree\n"
    assert replay.edited(text, "<1") == "one 1.50 GiB\n"
    assert replay.edited(text, "*1") == "one 3.00 GiB\ntwo 2\nthree\n"
    assert replay.edited(text, "=1.1:0.9") == "one 0.9 GiB\ntwo 2\nthree\n"
    assert replay.edited(text, "/2") == "one 1.50 GiB\ntwo 1\nthree\n"
