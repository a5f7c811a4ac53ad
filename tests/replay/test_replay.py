"""Stored answers are as they were: tools/replay.py says how to look at a difference and how to renew on purpose."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("replay", ROOT / "tools" / "replay.py")
assert _spec is not None and _spec.loader is not None
replay = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(replay)

LEAST = {
    "plan": 2000, "whole_plan": 800, "explain": 400, "rules": 400, "fit": 60, "simulate": 40, "inspect": 100,
    "advice": 100, "what-if": 20, "levers": 50, "models": 10, "gpus": 20,
}  # fmt: skip


# tests of a few seconds each, so that no worker is left with a long one at the end
PARTS = {"plan": 8, "fit": 6, "explain": 3, "simulate": 3, "advice": 3, "whole_plan": 2, "models": 2}


@pytest.mark.parametrize(("kind", "part"), [(kind, n) for kind in replay.KINDS for n in range(PARTS.get(kind, 1))])
def test_answers_are_as_they_were(kind: str, part: int) -> None:
    lines = replay.check([kind], every=int(os.environ.get("REPLAY_EVERY", "1")), part=part, parts=PARTS.get(kind, 1))
    hint = "Fields on both sides: python tools/replay.py compare main; on purpose: python tools/replay.py renew"
    assert not lines, "\n".join([*lines, hint])


@pytest.mark.parametrize("kind", replay.KINDS)
def test_there_are_enough_cases(kind: str) -> None:
    assert len(replay.load(kind)) >= LEAST[kind]


def test_the_store_is_small() -> None:
    assert sum(path.stat().st_size for path in replay.STORE.iterdir() if path.is_file()) < 1_000_000


def test_a_changed_figure_is_named() -> None:
    fields = {"verdict": {"fits": True, "why": "a sentence"}, "kv": {"num_blocks": 3}}
    known = frozenset(("verdict.fits", "kv.num_blocks"))
    before = replay.digest(fields, known)
    assert replay.digest({**fields, "kv": {"num_blocks": 4}}, known)["kv"] != before["kv"]
    assert replay.digest({**fields, "verdict": {"fits": True, "why": "another"}}, known) == before
    assert replay.digest({**fields, "added": 1}, known) == before


def test_of_a_sentence_its_figures_and_flags_count() -> None:
    """Prose may change freely; a figure in it, a flag, or a sentence more or less is a change."""
    fields = {"notes": ["12.5 GiB are left", "use --max-model-len 4096"], "cost": "", "version_from": "--engine"}
    known = frozenset(("notes.*", "cost", "version_from"))
    before = replay.digest(fields, known, True)
    assert replay.digest({**fields, "notes": ["12.5 GiB remain", "take --max-model-len 4096"]}, known, True) == before
    for notes in (["12.6 GiB are left", fields["notes"][1]], fields["notes"][:1], ["12.5 GiB are left", "use 4096"]):
        assert replay.digest({**fields, "notes": notes}, known, True) != before
    assert replay.digest({**fields, "cost": "a sentence"}, known, True) != before
    assert replay.digest({**fields, "version_from": "log"}, known, True) != before


def test_a_log_is_changed_line_by_line() -> None:
    text = "one 1.50 GiB\ntwo 2\nthree"
    assert replay.edited(text, "") == "one 1.50 GiB\ntwo 2\nthree\n"
    assert replay.edited(text, "-2") == "one 1.50 GiB\nthree\n"
    assert replay.edited(text, "<1") == "one 1.50 GiB\n"
    assert replay.edited(text, "*1") == "one 3.00 GiB\ntwo 2\nthree\n"
    assert replay.edited(text, "=1.1:0.9") == "one 0.9 GiB\ntwo 2\nthree\n"
    assert replay.edited(text, "/2") == "one 1.50 GiB\ntwo 1\nthree\n"
