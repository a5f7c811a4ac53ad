"""cards(): which GPUs, the cheapest first."""

from __future__ import annotations

import pytest

from oomph.answers.plan import load, plan, run
from oomph.errors import InputError
from oomph.search.best import plan_speed
from oomph.search.cards import cards
from oomph.search.fit import fit
from oomph.search.request import Want


def test_cheapest_first_and_planned() -> None:
    found = cards("Qwen/Qwen3-8B", Want(8192, 2), names=("RTX 4090", "T4", "RTX 3060 12GB", "H100"))
    sizes = [c.nominal_gb for c in found.cards]
    assert sizes == sorted(sizes)
    assert len({c.name for c in found.cards}) == len(found.cards)
    for c in found.cards:
        d = c.plan.deployment
        assert len(d.gpus) == c.count
        again = run(d, load(d.model))
        assert again.fits
        assert again.kv is not None
        assert again.kv.max_concurrency >= c.users >= 2
        assert c.longest >= 8192
        assert c.headroom_bytes >= 0
    assert "RTX 4090" in found.text(width=100)


def test_every_division_over_all_cards_is_looked_at() -> None:
    """Two stages of four leave room for the engine's own limit of requests; eight ranks do not, but serve the 32 that
    are asked for faster."""
    first = cards("Qwen/Qwen3-14B", Want(16384, 32), names=("T4",)).cards[0]
    assert first.plan.deployment.flags == {"tensor_parallel_size": 8, "max_model_len": 16384, "max_num_seqs": 128}
    staged = plan("vllm serve Qwen/Qwen3-14B -tp 4 -pp 2 --max-model-len 16384", gpu="8x T4", advise=False)
    assert staged.verdict.outcome == "fits"
    slower = plan_speed(staged, load("Qwen/Qwen3-14B"), 32)
    assert first.speed is not None and slower is not None and slower.all_users < 0.95 * first.speed.all_users


def test_a_share_of_what_is_left_after_the_weights_is_no_share_of_the_card() -> None:
    first = cards("meta-llama/Llama-3.3-70B-Instruct", Want(32768, 8), names=("B200",), engine="trtllm").cards[0]
    assert first.count == 1


def test_prices_decide_the_order() -> None:
    prices = {"H100": 25000.0, "RTX 4090": 1600.0, "RTX 3090": 800.0}
    found = cards("Qwen/Qwen3-8B", Want(4096), prices=prices)
    assert [c.name for c in found.cards] == ["RTX 3090", "RTX 4090", "H100 SXM"]
    assert [c.price for c in found.cards] == [800.0, 1600.0, 25000.0]


def test_more_than_the_model_takes() -> None:
    with pytest.raises(InputError):
        cards("Qwen/Qwen3-8B", Want(10_000_000), names=("H100",))


def test_nothing_is_enough() -> None:
    found = cards("openai/gpt-oss-120b", Want(4096), names=("RTX 3050 6GB",), only=True)
    assert not found.cards
    assert "NOTHING FITS" in found.text(width=100)


@pytest.mark.parametrize("engine", ["llamacpp", "ollama", "llamacpp==b5000"])
def test_a_card_serves_the_file_that_fit_picks_there(engine: str) -> None:
    """One deployment, one answer: the file, the cache and the slots of a line are those of fit and of compare."""
    names = ("RTX 3060 12GB", "RTX 4090", "GTX 1070")
    found = cards("Qwen/Qwen3-8B", Want(8192, 2), engine=engine, names=names)
    assert {c.name for c in found.cards} == set(names) or engine == "ollama"
    for c in found.cards:
        pick = fit("Qwen/Qwen3-8B", f"{c.count}x {c.name}", context=8192, users=2, engine=engine).pick
        assert pick is not None and (pick.command, pick.plan.model) == (c.command, c.checkpoint)
        assert c.plan.deployment.engine.version == pick.plan.deployment.engine.version
        assert "b5000" not in engine or c.plan.deployment.engine.version == "b5000"
        assert c.users >= 2 and c.longest >= 8192
