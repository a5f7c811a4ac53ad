"""Choices of the searches that no other test noticed when one was turned round (`make mutants`)."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from oomph.answers.plan import plan
from oomph.facts.gpus import rows
from oomph.search.candidates import Filters
from oomph.search.cards import _candidates
from oomph.search.models import SEARCHED, Ask, Search
from oomph.search.neighbours import _without
from oomph.search.picks import Pick, displaces
from oomph.search.quality import Quality
from oomph.search.request import Arm
from oomph.simulate.speed import Speed

FLAGS = {
    "kv_dtype": "fp8",
    "eager": True,
    "few_graphs": True,
    "text_only": True,
    "drafts": 2,
    "prefix_off": True,
    "tokens": 64,
}


@pytest.mark.parametrize("name", FLAGS)
def test_a_pick_without_one_of_its_flags_has_the_others_as_they_were(name: str) -> None:
    """Each flag alone, and all of them: leaving one out sets that one back to the engine's default, and no other."""
    alone = Arm("a/model", **{name: FLAGS[name]})  # type: ignore[arg-type]
    assert [arm for _, arm in _without(alone)] == [Arm("a/model")]
    every = Arm("a/model", **FLAGS)  # type: ignore[arg-type]
    assert replace(every, **{name: getattr(Arm("a/model"), name)}) in [arm for _, arm in _without(every)]


def test_a_plain_pick_has_nothing_to_leave_out() -> None:
    assert not _without(Arm("a/model"))


@cache
def pick(rate: float, context: int = 8192, capacity: int = 1) -> Pick:
    planned = plan("vllm serve Qwen/Qwen3-8B --max-model-len 8192", gpu="RTX 4090", advise=False)
    quality = Quality(20.0, 18.0, 22.0, True, "B", "a source")
    speed = Speed(rate, rate, 1, 0.1, 100, 1.2, 0)
    return Pick("a", "a/b", "FP8", "vllm", context, 1, capacity, speed, quality, 0, "", planned, 8, 8, "", "")


@pytest.mark.parametrize(
    ("prefer", "better"), [("speed", pick(10.1)), ("context", pick(9, 8193)), ("users", pick(9, 8192, 2))]
)
def test_a_variant_displaces_another_by_what_is_preferred_alone(prefer: str, better: Pick) -> None:
    plain = pick(10)
    assert displaces(better, plain, prefer)
    assert not displaces(plain, better, prefer)
    assert not displaces(plain, plain, prefer)  # of equals the first stays


def test_cards_begin_with_those_that_have_just_enough() -> None:
    card = next(row for row in rows() if row.name == "RTX 4090")
    enough = list(_candidates({}, ("RTX 4090",), card.total_bytes, (7, 0), False))
    short = list(_candidates({}, ("RTX 4090",), card.total_bytes + 1, (7, 0), False))
    assert (enough[0][2], short[0][2]) == (1, 2)


def search(**options: Any) -> Search:
    return Search(pick(1).plan.deployment.gpus, Ask(**options))


def test_only_the_engines_that_are_named_are_searched_in_the_release_that_is_named() -> None:
    some = search(filters=Filters(engines=("llamacpp", "vllm==0.21.0")))
    assert some.engines == ("vllm", "llamacpp") and some.trial.releases == {"vllm": "vllm==0.21.0"}
    assert search().engines == SEARCHED and not search().trial.releases


def candidate(value: float = 20.0, recovery: float = 1.0, read: int = 10) -> Any:
    quality = Quality(value, value, value, True, "B", "another source", (recovery, recovery))
    return SimpleNamespace(quality=quality, read=read)


@pytest.mark.parametrize(("prefer", "least"), [("context", 0.97), ("users", 0.97), ("speed", 0.95)])
def test_a_variant_is_tried_where_it_keeps_enough_of_the_quality(prefer: str, least: float) -> None:
    looked = search(prefer=prefer)
    assert looked._may_displace(pick(1), 11, candidate(recovery=least))
    assert not looked._may_displace(pick(1), 11, candidate(recovery=least - 0.001))


def test_the_search_ends_where_no_further_model_can_be_shown() -> None:
    """One line is shown, of the best of two: a model between them cannot change it, a better one can."""
    ranks = [replace(pick(1), quality=replace(pick(1).quality, value=value)) for value in (10.0, 60.0)]
    one = search(limit=1)
    assert one._enough(ranks, [candidate(30.0)])
    assert not one._enough(ranks, [candidate(61.0)])
    assert not search(limit=3)._enough(ranks, [candidate(30.0)])
