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

LEAST = {"plan": 2000, "whole_plan": 400, "explain": 200, "fit": 60, "simulate": 40, "inspect": 100}


@pytest.mark.parametrize("kind", replay.KINDS)
def test_answers_are_as_they_were(kind: str) -> None:
    lines = replay.check([kind], every=int(os.environ.get("REPLAY_EVERY", "1")))
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
