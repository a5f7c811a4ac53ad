"""Regret: no alternative that is drawn and planned without the search is better by the stated objective.

A tenth of the questions in a test run; OOMPH_REGRET=300 asks all of them (`make long`). A failure names its seed.
"""

from __future__ import annotations

import os

import pytest
from regret import Alternatives, Question, answer_key, question

from oomph.answers.compare import compare
from oomph.errors import OomphError
from oomph.facts import market
from oomph.facts.gpus import find
from oomph.search.cards import cards
from oomph.search.fit import pick_for
from oomph.search.request import Want
from oomph.sources.gpu import parse_gpus

QUESTIONS = int(os.environ.get("OOMPH_REGRET", "30"))
DRAWN = 500 if QUESTIONS > 30 else 60
PART = 10


@pytest.mark.parametrize("first", range(0, QUESTIONS, PART))
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


@pytest.mark.parametrize("seed", range(1000, 1000 + QUESTIONS // 5))
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


@pytest.mark.parametrize("seed", range(2000, 2000 + QUESTIONS // 5))
def test_nothing_drawn_is_better_than_a_card(seed: int) -> None:
    """The fewest cards of a kind that serve, with the best on them."""
    asked = question(seed, engines=("vllm",))
    name = asked.gpu.partition("x ")[2] or asked.gpu
    want = Want(asked.want.context or 8192, max(1, asked.want.users))
    try:
        answer = cards(asked.model, want, names=(name,), engine="vllm")
    except OomphError:
        return
    serving = answer.cards[0].count if answer.cards else 9
    for count in market.EVERY:
        if count > serving or count > 8:
            break
        gpu = f"{count}x {find(name).name}"
        try:
            alternatives = Alternatives(
                Question(asked.model, gpu, "vllm", want),
                layouts=lambda layout, count=count: layout.gpus == count and layout.tp in (1, count),
            )
        except OomphError:
            continue
        nothing = (-1.0,) * len(alternatives.objective.order)
        if count < serving:
            assert not _reading(alternatives, nothing, seed), f"seed {seed}: {count} of {name} serve {asked.model}"
        elif answer.cards[0].engine == "vllm":  # below what its checkpoints need, a GGUF file serves with llama.cpp
            key = alternatives.key_of(answer.cards[0].plan)
            assert not alternatives.better(key, DRAWN, seed), f"seed {seed}: {gpu} for {asked.model}"


def _reading(alternatives: Alternatives, nothing: tuple[float, ...], seed: int) -> list[str]:
    """Alternatives with which people can read along."""
    place = next(n for n, measure in enumerate(alternatives.objective.order) if measure.name == "reading")
    return [text for key, text in alternatives.better(nothing, DRAWN, seed) if key[place] == 0]
