"""Regret: no alternative that is drawn and planned without the search is better by the stated objective.

A tenth of the questions in a test run; OOMPH_REGRET=300 asks all of them (`make long`), OOMPH_REGRET_FROM=N
others, whose seeds are N larger. A failure names its seed.
"""

from __future__ import annotations

import os
import random

import pytest
from regret import Alternatives, Question, answer_key, question

from oomph.answers.compare import compare
from oomph.errors import OomphError
from oomph.facts import market
from oomph.facts.gpus import find, rows
from oomph.search.cards import cards
from oomph.search.fit import pick_for
from oomph.search.request import Want
from oomph.sources.gpu import parse_gpus

QUESTIONS = int(os.environ.get("OOMPH_REGRET", "30"))
DRAWN = 500 if QUESTIONS > 30 else 60
PART = 10
FROM = int(os.environ.get("OOMPH_REGRET_FROM", "0"))


@pytest.mark.parametrize("first", range(FROM, FROM + QUESTIONS, PART))
def test_nothing_drawn_is_better_than_what_fit_picks(first: int) -> None:
    met = 0
    for seed in range(first, first + PART):
        asked = question(seed)
        try:
            best = pick_for(asked.model, parse_gpus(asked.gpu), asked.want, asked.engine)
            alternatives = Alternatives(asked)
        except OomphError:  # the engine has no kernels for this card, or ends below this context
            continue
        met += best is not None
        key = answer_key(alternatives, best) if best is not None else (-1.0,) * len(alternatives.objective.order)
        assert not alternatives.better(key, DRAWN, seed), f"seed {seed}: {asked}"
    assert met


@pytest.mark.parametrize("seed", range(FROM + 1000, FROM + 1000 + QUESTIONS // 5))
def test_nothing_drawn_is_better_than_a_line_of_compare(seed: int) -> None:
    asked = question(seed, engines=("vllm",))
    want = Want(asked.want.context or 8192, asked.want.users)
    table = compare(asked.model, gpu=asked.gpu, context=want.context, users=max(1, want.users),
                    engines=("vllm", "sglang", "trtllm"))  # fmt: skip
    for row in table.rows:
        one = Question(asked.model, asked.gpu, row.engine, replace_users(want))
        try:
            best = pick_for(one.model, parse_gpus(one.gpu), one.want, row.engine)
            alternatives = Alternatives(one)
        except OomphError:
            assert not row.fits
            continue
        assert row.fits is (best is not None) or not row.fits
        if best is not None:
            assert row.checkpoint == best.point.arm.model
            assert not alternatives.better(answer_key(alternatives, best), DRAWN // 2, seed), f"seed {seed}: {one}"


def replace_users(want: Want) -> Want:
    """One user is nobody's wish: compare then counts how many there may be."""
    return Want(want.context, want.users if want.users > 1 else 0)


@pytest.mark.parametrize("seed", range(FROM + 2000, FROM + 2000 + QUESTIONS // 5))
def test_nothing_drawn_is_better_than_a_card(seed: int) -> None:
    """The fewest cards of a kind that serve, with the best on them by the objective that is printed: of every engine,
    however the model is divided over all of the cards."""
    asked = question(seed)
    name = asked.gpu.partition("x ")[2] or asked.gpu
    want = Want(asked.want.context or 8192, max(1, asked.want.users))
    try:
        answer = cards(asked.model, want, names=(name,), engine=asked.engine)
    except OomphError:
        return
    serving = answer.cards[0].count if answer.cards else 9
    for count in market.EVERY:
        if count > serving or count > 8:
            break
        alternatives = _alternatives(asked, find(name).name, count, want)
        if alternatives is None:
            continue
        if count < serving:
            assert not _reading(alternatives, seed), f"seed {seed}: {count} of {name} serve {asked.model}"
        else:
            key = alternatives.key_of(answer.cards[0].plan)
            assert not alternatives.better(key, DRAWN, seed), f"seed {seed}: {count} x {name} for {asked.model}"


@pytest.mark.parametrize("seed", range(FROM + 3000, FROM + 3000 + max(2, QUESTIONS // 25)))
def test_no_card_that_is_drawn_comes_before_the_first(seed: int) -> None:
    """The first line is the least that serves: the fewest cards, then the least memory."""
    asked = question(seed)
    want = Want(asked.want.context or 8192, max(1, asked.want.users))
    answer = cards(asked.model, want, engine=asked.engine, most=1)
    first = (answer.cards[0].count, answer.cards[0].nominal_gb) if answer.cards else (99, 0)
    before = [
        (row.name, count)
        for row in rows()
        if row.vendor == "nvidia" and row.capability >= (7, 5) and "Laptop" not in row.name
        for count in market.counts_of(row.name)[: 1 if row.unified else None]
        if (count, count * row.nominal_gb) < first
    ]
    for name, count in random.Random(seed).sample(before, min(5, len(before))):
        alternatives = _alternatives(asked, name, count, want)
        assert alternatives is None or not _reading(alternatives, seed), f"seed {seed}: {count} x {name}, not {first}"


def _alternatives(asked: Question, name: str, count: int, want: Want) -> Alternatives | None:
    """None: the engine has no kernels for this card."""
    try:
        return Alternatives(
            Question(asked.model, f"{count}x {name}", asked.engine, want), layouts=lambda layout: layout.gpus == count
        )
    except OomphError:
        return None


def _reading(alternatives: Alternatives, seed: int) -> list[str]:
    """Alternatives with which people can read along."""
    nothing = (-1.0,) * len(alternatives.objective.order)
    place = next(n for n, measure in enumerate(alternatives.objective.order) if measure.name == "reading")
    return [text for key, text in alternatives.better(nothing, DRAWN, seed) if key[place] == 0]
