"""The order of cards that somebody who buys or rents would expect, written down before the search was asked."""

from __future__ import annotations

import pytest

import oomph
from oomph.errors import CommandError, InputError
from oomph.facts.market import COUNTS
from oomph.search.cards import cards
from oomph.search.prices import Api, Load, Prices, against, parse_api, read_prices
from oomph.search.request import Want
from oomph.simulate.speed import Speed

# model -> (count, card) in the order in which they must come, and why. What stands between them does not matter.
EXPECTED: dict[str, tuple[list[tuple[int, str]], str]] = {
    "Qwen/Qwen3-8B": (
        [(1, "RTX 3060 12GB"), (1, "RTX 5070 Ti"), (1, "RTX 4090")],
        "8 billion fit every 12 GB card in four or eight bits: the smallest card is the cheapest",
    ),
    "meta-llama/Llama-3.1-8B-Instruct": ([(1, "RTX 3060 12GB"), (1, "RTX 4090")], "the same size"),
    "openai/gpt-oss-20b": ([(1, "RTX 5070 Ti"), (1, "RTX 4090")], "13 GB of weights: 16 GB cards are enough"),
    "openai/gpt-oss-120b": ([(1, "H100 SXM"), (1, "RTX PRO 6000")], "63 GB of weights: one 80 GB card, not four small"),
    "Qwen/Qwen3.6-27B": ([(1, "RTX 4090"), (1, "RTX 5090")], "four bits on 24 GB, with room on 32 GB"),
    "google/gemma-3-27b-it": ([(1, "RTX 4090"), (1, "RTX 5090")], "the same"),
    "Qwen/Qwen3-32B": ([(1, "RTX 3090"), (1, "RTX 5090")], "four bits on 24 GB"),
    "meta-llama/Llama-3.3-70B-Instruct": (
        [(1, "RTX PRO 5000"), (1, "RTX PRO 6000")], "40 GB in four bits: one 48 GB card before two of 24 GB",
    ),
    "Qwen/Qwen3-235B-A22B": ([(1, "B200"), (2, "H100 SXM")], "130 GB in four bits: one B200, or two of 80 GB"),
    "deepseek-ai/DeepSeek-R1": ([(4, "B200"), (8, "H200")], "671 GB in FP8, half of it in four bits"),
}  # fmt: skip


@pytest.mark.parametrize("model", EXPECTED)
def test_the_order_is_the_expected_one_and_the_cards_are_common(model: str) -> None:
    lines = cards(model, Want(8192, 1), most=0).cards
    names = [(card.count, card.name) for card in lines]
    expected, why = EXPECTED[model]
    places = [names.index(line) if line in names else -1 for line in expected]
    assert -1 not in places, (why, names)
    assert places == sorted(places), (why, names)
    # fewer and smaller cards come first
    assert [(c.count, c.nominal_gb) for c in lines] == sorted((c.count, c.nominal_gb) for c in lines)
    assert all(card.name in COUNTS and card.count in COUNTS[card.name] for card in lines)
    for card in lines[:4]:
        gpu = f"{card.count}x {card.name}"
        assert oomph.plan(card.command, gpu=gpu, advise=False).verdict.outcome == "fits", (gpu, card.command)


def test_sorted_by_speed_and_price() -> None:
    names = ("RTX 3090", "RTX 4090", "RTX 5090")
    fast = cards("Qwen/Qwen3-8B", names=names, sort="speed").cards
    assert fast[0].name == "RTX 5090"
    dear = cards("Qwen/Qwen3-8B", prices=Prices({"RTX 4090": 1.0, "RTX 3090": 2.0}, "2026-11-01", unit="hour"))
    assert [c.name for c in dear.cards] == ["RTX 4090", "RTX 3090"]
    assert dear.prices is not None and dear.prices.rented
    with pytest.raises(CommandError, match="no prices"):
        cards("Qwen/Qwen3-8B", sort="price")


def test_against_an_api() -> None:
    speed = Speed(50.0, 100.0, 2, 1.0, 1000, 1.3, 10)
    bought = against(Api(1.0, 2.0), Load(1000, 500, 10.0), speed, 1000.0, rented=False)
    assert bought is not None
    # each user: one second to the first token, ten for 500 tokens at 50 a second
    requests = 2 * 10 * 3600 * 30.4 / 11
    assert bought.prompt_tokens == pytest.approx(requests * 1000)
    assert bought.api_cost == pytest.approx((requests * 1000 * 1 + requests * 500 * 2) / 1e6)
    assert bought.break_even == pytest.approx(1000 / bought.api_cost)
    rented = against(Api(1.0, 2.0), Load(1000, 500, 10.0), speed, 0.5, rented=True)
    assert rented is not None and rented.machine_cost == pytest.approx(0.5 * 10 * 30.4)
    assert parse_api("0.15/0.60") == Api(0.15, 0.60)
    with pytest.raises(InputError):
        parse_api("cheap")


def test_prices_say_their_date(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "prices.csv"
    file.write_text("# date: 2026-11-01\n# unit: hour\n# source: a shop\nRTX 4090, 0.40\nH100: $2.10\n")
    prices = read_prices(str(file))
    assert (prices.date, prices.unit, prices.source) == ("2026-11-01", "hour", "a shop")
    assert prices.prices["H100"] == 2.10
    file.write_text('{"date": "2026-11-01", "prices": {"RTX 4090": 1599}}')
    assert read_prices(str(file)).date == "2026-11-01"
    for wrong in ("RTX 4090 cheap", '{"RTX 4090": "x"}', "RTX 4090, -1", "# unit: month\nRTX 4090, 1"):
        file.write_text(wrong)
        with pytest.raises(InputError):
            read_prices(str(file))
