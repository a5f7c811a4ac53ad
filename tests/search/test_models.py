"""What should I run? Every line is planned, none is dominated, and a search that stops early says what one that does
not would say."""

from __future__ import annotations

import json
from itertools import pairwise

import msgspec
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

import oomph
from oomph.catalog import facts as catalogue
from oomph.cli.commands.fit import command as fit_command
from oomph.cli.commands.models import command
from oomph.errors import CommandError, InputError
from oomph.search import candidates
from oomph.search.picks import Pick, ranked
from oomph.search.quality import Quality, _family, decides, quality_of
from oomph.simulate.speed import Speed

CARDS = ("GTX 1660 Ti", "RTX 3060 12GB", "RTX 3090", "2x RTX 5070 Ti", "8x B200")


def worth(pick: Pick) -> tuple[float, ...]:
    return (pick.quality.rank, pick.speed.one_user if pick.speed else 0.0, pick.context, pick.capacity)


@pytest.mark.parametrize("card", CARDS)
def test_what_is_picked_for_a_card(card: str) -> None:
    """The first five fit from their printed command, so do the other engines', and no line stands behind one that it
    beats in everything."""
    picks = oomph.models(card).picks
    for pick in picks[:5]:
        plan = oomph.plan(pick.command, gpu=card, advise=False)
        assert plan.verdict.outcome == "fits", pick.command
        assert plan.resolved["max_model_len"] == pick.context
    for other in picks[0].others:
        assert oomph.plan(other.command, gpu=card, advise=False).verdict.outcome == "fits", other.command
    for place, first in enumerate(picks):
        for second in picks[place + 1 :]:
            if first.quality.published and not second.quality.published:
                continue  # an estimate stands behind a published figure of its grade, however high it is
            better = all(x >= y for x, y in zip(worth(second), worth(first), strict=True))
            assert not better or worth(first) == worth(second), (first.checkpoint, second.checkpoint)


@pytest.fixture(name="a_tenth")
def keep_a_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue of every tenth model: what is asked of all of them is asked of fewer."""
    whole = catalogue.facts()
    kept = [n for n, m in enumerate(whole.models) if n % 10 == 0]
    reduced = replace(
        whole,
        models=tuple(whole.models[n] for n in kept),
        checkpoints=tuple(
            msgspec.structs.replace(c, model=kept.index(c.model)) for c in whole.checkpoints if c.model in kept
        ),
    )
    monkeypatch.setattr(candidates, "facts", lambda: reduced)


@pytest.mark.usefixtures("a_tenth")
@pytest.mark.parametrize("card", ("RTX 3060 12GB", "2x RTX 5070 Ti"))
def test_a_search_that_stops_early_agrees_with_one_of_everything(card: str) -> None:
    early, everything = oomph.models(card, limit=3), oomph.models(card, limit=0)
    names = [(p.checkpoint, p.quantization, p.engine, p.context) for p in everything.picks]
    assert names[:3] == [(p.checkpoint, p.quantization, p.engine, p.context) for p in early.picks]
    assert not everything.more
    assert early.plans <= everything.plans + 40  # the other engines' lines aside


def test_bounds_put_nothing_aside_that_fits() -> None:
    """On a card where a model fits at its best quantisation, the bounds must have let it through."""
    from oomph.sources.gpu import parse_gpus

    looked = candidates.wanted("chat", candidates.Filters(words=("qwen3-8b",)))
    left = candidates.candidates(looked, parse_gpus("RTX 4060"), 8192, 1, ("vllm", "llamacpp"))
    tags = {c.tag for group in left.values() for c in group}
    assert "Q4_K_M" in tags
    plan = oomph.plan("llama-server -hf Qwen/Qwen3-8B:Q4_K_M -c 8192 -np 1 -ngl 99", gpu="RTX 4060", advise=False)
    assert plan.fits


def test_filters() -> None:
    some = oomph.models("RTX 4090", words=("qwen",), limit=4)
    assert some.picks
    assert all("qwen" in p.model.lower() for p in some.picks)
    assert all(p.engine == "vllm" for p in oomph.models("RTX 4090", engines=("vllm",), limit=3).picks)
    assert all(p.licence == "mit" for p in oomph.models("RTX 4090", licence="mit", limit=3).picks)
    assert all(p.date >= "2026" for p in oomph.models("RTX 4090", since="2026", limit=3).picks)
    assert all(p.parameters <= 9e9 for p in oomph.models("RTX 4090", largest=9, limit=3).picks)
    asked = oomph.models("RTX 4090", context=32768, users=2, limit=3)
    assert all(p.context == 32768 and p.capacity >= 2 for p in asked.picks)


def test_preferences_are_grades_first() -> None:
    fast = oomph.models("RTX 4090", prefer="speed", limit=5).picks
    assert [p.quality.grade for p in fast] == sorted(p.quality.grade for p in fast)
    best = [p for p in fast if p.quality.grade == fast[0].quality.grade and p.speed]
    assert [p.speed.one_user for p in best if p.speed] == sorted(
        (p.speed.one_user for p in best if p.speed), reverse=True
    )


def pick(name: str, value: float, rate: float, source: str = "table", published: bool = True) -> Pick:
    quality = Quality(value, value - 1, value + 1, published, "C", source)
    speed = Speed(rate, rate, 1, 0.1, 2048, 1.3, 10)
    plan = oomph.plan("vllm serve Qwen/Qwen3-0.6B", gpu="H100", advise=False)
    return Pick(name, name, "BF16", "vllm", 8192, 1, 1, speed, quality, 0, "", plan, 1, 1, "", "")


def test_a_difference_inside_the_interval_does_not_decide_against_half_the_speed() -> None:
    slow, near, far = pick("slow", 20, 30), pick("near", 18, 70), pick("far", 10, 300)
    assert [p.model for p in ranked([slow, near, far], "")] == ["near", "slow", "far"]
    assert "2.3 times as fast as slow" in ranked([slow, near, far], "")[0].traded
    assert [p.model for p in ranked([slow, pick("near", 18, 50)], "")] == ["slow", "near"]  # not twice as fast
    assert [p.model for p in ranked([slow, pick("near", 18, 70, "other table")], "")] == ["slow", "near"]


def test_quantisation_is_an_interval() -> None:
    model = next(m for m in catalogue.facts().models if m.plain == "Qwen/Qwen3-8B")
    eight, four, two = (quality_of(model, tag, False) for tag in ("Q8_0", "Q4_K_M", "Q2_K"))
    assert decides(eight, four, True)
    assert decides(four, two, True)
    assert not decides(quality_of(model, "BF16", True), quality_of(model, "FP8", False), True)


def test_the_facts_agree_with_the_models() -> None:
    from oomph.sources.load import load_once

    whole = catalogue.facts()
    for model in whole.models[::9]:
        built = load_once(model.plain)
        assert model.context == built.max_position
        assert model.active <= model.parameters
    for one in whole.checkpoints[::17]:
        stored = load_once(one.id).stored
        assert one.weights == sum(s.nbytes for s in stored if s.role not in ("multimodal", "other"))
        assert whole.sources[one.source]


def test_the_command_prints_and_refuses() -> None:
    run = CliRunner().invoke(command, ["--gpu", "RTX 3060 12GB", "--limit", "2"], standalone_mode=False)
    assert run.return_value == 0
    assert "BEST" in run.output
    run = CliRunner().invoke(command, ["--gpu", "RTX 3060 12GB", "--limit", "2", "--json"], standalone_mode=False)
    answer = json.loads(run.output)
    assert answer["schema"] == 1
    assert [p["outcome"] for p in answer["picks"]] == ["fits", "fits"]
    assert oomph.plan(answer["picks"][0]["args"], gpu="RTX 3060 12GB", advise=False).fits
    run = CliRunner().invoke(fit_command, ["--gpu", "RTX 3060 12GB"], standalone_mode=False)
    assert run.return_value == 0
    assert "BEST" in run.output
    for wrong, kind in (({"since": "soon"}, InputError), ({"engines": ("trtllm",)}, CommandError)):
        with pytest.raises(kind):
            oomph.models("RTX 3090", **wrong)  # type: ignore[arg-type]


def test_an_interrupt_gives_the_best_so_far() -> None:
    def stop(what: str, done: int, total: int) -> None:
        if done == 12:
            raise KeyboardInterrupt

    answer = oomph.models("RTX 3090", limit=0, progress=stop)
    assert answer.interrupted
    assert answer.picks


@pytest.mark.usefixtures("a_tenth")
@pytest.mark.parametrize("card", CARDS[1:])
def test_published_figures_stand_before_estimates_of_their_grade(card: str) -> None:
    picks = oomph.models(card, limit=0).picks
    assert any(pick.quality.published for pick in picks)
    for first, second in pairwise(picks):
        same = first.quality.grade == second.quality.grade
        assert not (same and second.quality.published and not first.quality.published), (first.model, second.model)


def test_an_estimate_is_never_above_its_sister_of_twice_the_size() -> None:
    sizes: dict[str, list[tuple[int, Quality]]] = {}
    for model in catalogue.facts().models:
        sizes.setdefault(_family(model.plain), []).append((model.parameters, quality_of(model, "BF16", True)))
    pairs = 0
    for sisters in sizes.values():
        for small, quality in sisters:
            for large, other in sisters:
                if not quality.published and large >= 2 * small:
                    pairs += 1
                    assert quality.rank <= other.rank
    assert pairs > 20


def test_a_first_line_has_32k_and_room_for_a_screen() -> None:
    answer = oomph.models("RTX 4090")
    assert answer.picks[0].context >= 32768
    assert answer.picks[0].room_bytes >= 500_000_000
    assert "for a screen" in answer.text() and "Order: best grade" in answer.text()


@pytest.mark.parametrize("card", ("M4 Pro 64GB", "M2 Ultra 192GB", "RX 7900 XTX"))
def test_a_speed_follows_from_a_known_bandwidth(card: str) -> None:
    assert all(pick.speed is not None for pick in oomph.models(card).picks)


def test_what_fit_serves_models_finds() -> None:
    """C1: Qwen3-14B on one RTX 3060."""
    assert [pick.model for pick in oomph.models("RTX 3060", words=("Qwen3-14B",)).picks][:1] == ["Qwen/Qwen3-14B"]


def test_experts_may_be_on_the_cpu_where_the_card_holds_no_file_of_a_model() -> None:
    answer = oomph.models("RTX 3060 12GB", words=["qwen3-30b-a3b"], engines=["llama.cpp"], context=16384)
    first = answer.picks[0]
    assert first.on_cpu.endswith("of experts on the CPU") and "-ngl" not in first.command
    assert oomph.plan(first.command, gpu="RTX 3060 12GB").verdict.outcome == "fits"
    assert any("experts on the CPU" in note for note in answer.notes)
    whole = oomph.models("RTX 4090", words=["qwen3-30b-a3b"], engines=["llama.cpp"], context=16384).picks[0]
    assert not whole.on_cpu and whole.speed is not None and first.speed is not None
    assert first.speed.one_user < whole.speed.one_user
