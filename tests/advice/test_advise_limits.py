"""How far the advice looks: when another checkpoint is tried, which settings, how many sets (`make mutants`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from oomph.advice.advise import _context, _enough_host_memory, _tokens, advise, judge_lever, longer_context
from oomph.advice.combine import _may_pass, around_a_middle, is_out_of_reach, smallest_combination
from oomph.advice.judge import LEAST_GAIN, Judge, _room, changed, host_weights, is_earlier, together
from oomph.answers.plan import plan
from oomph.ir.advice import KINDS, Change, Kind, Lever
from oomph.ir.deployment import Deployment, Measured
from oomph.ir.ledger import Term
from oomph.ir.plan import Plan
from oomph.ir.timeline import STAGES, Margin
from oomph.units import MIB

SMALL = Change("checkpoint", "a/small", "checkpoint", model="a/small")


@cache
def fitting() -> Plan:
    return plan("vllm serve Qwen/Qwen3-8B --max-model-len 8192", gpu="RTX 4090", engine="vllm==0.21.0", advise=False)


@cache
def failing() -> Plan:
    return plan("vllm serve Qwen/Qwen3-8B", gpu="RTX 4070", engine="vllm==0.21.0", advise=False)


def judge_by(fits: Callable[[Deployment], bool]) -> Judge:
    return Judge(failing(), lambda deployment: fitting() if fits(deployment) else failing(), lambda deployment: "")


def flag(name: str, *values: int, rank: int = 0, two_sided: bool = False) -> Lever:
    changes = tuple(Change(name, f"--{name} {value}", flags={name: value}, rank=rank) for value in values)
    return Lever(name, changes, two_sided=two_sided)


@pytest.mark.parametrize(("flags", "is_tried"), [(0, True), (2, True), (3, False), (4, False)])
def test_another_checkpoint_is_tried_where_fewer_than_three_flags_help(flags: int, is_tried: bool) -> None:
    judge = judge_by(lambda deployment: True)
    levers = [*(flag(f"flag_{number}", 1) for number in range(flags)), Lever("checkpoint", (SMALL,))]
    fixes = advise(judge, levers, ()).fixes
    assert len(fixes) == flags + is_tried
    assert any(fix.change.model for fix in fixes) is is_tried


@pytest.mark.parametrize(("low", "is_named"), [(-1, True), (0, False), (1, False)])
def test_host_memory_is_named_where_the_worst_does_not_fit(low: int, is_named: bool) -> None:
    host = SimpleNamespace(margin=SimpleNamespace(low=low), available_bytes=1 << 30, ram_from="--ram")
    verdict = SimpleNamespace(first_to_break="host_ram")
    gpus: tuple[Any, ...]
    for gpus in ((), (SimpleNamespace(system=None),)):
        named: Any = SimpleNamespace(host=host, verdict=verdict, deployment=SimpleNamespace(gpus=gpus))
        assert bool(_enough_host_memory(named)) is is_named
    shared: Any = SimpleNamespace(
        host=host, verdict=verdict, deployment=SimpleNamespace(gpus=(SimpleNamespace(system=1),))
    )
    assert not _enough_host_memory(shared)


@pytest.mark.parametrize(
    ("works", "two_sided", "value"),
    [
        ({1, 2, 3}, False, 1), ({2, 3}, False, 2), ({3}, False, 3), ({1}, False, 1), ({2}, False, 3), ({2}, True, 2),
        ({1, 2}, True, 1), (set(), True, 3),
    ],
)  # fmt: skip
def test_which_setting_of_a_lever_is_shown(works: set[int], two_sided: bool, value: int) -> None:
    judge = judge_by(lambda deployment: deployment.flags.get("flag") in works)
    assert judge_lever(judge, flag("flag", 1, 2, 3, two_sided=two_sided)).change.flags == {"flag": value}


def test_two_flags_beside_the_smallest_checkpoint_where_one_is_not_enough() -> None:
    judge = judge_by(lambda deployment: deployment.model == "a/small" and {"one", "two"} <= set(deployment.flags))
    levers = [flag("one", 1), flag("two", 1), Lever("checkpoint", (SMALL,))]
    (fix,) = advise(judge, levers, ()).fixes
    assert fix.change.model == "a/small" and set(fix.change.flags) == {"one", "two"}
    judge = judge_by(lambda deployment: deployment.model == "a/small" and "two" in deployment.flags)
    (fix,) = advise(judge, levers, ()).fixes
    assert fix.change.model == "a/small" and set(fix.change.flags) == {"two"}


@pytest.mark.parametrize("number", [0, 27, 28, 47, 48])
def test_so_many_sets_are_planned_and_no_more(number: int) -> None:
    names = [f"flag_{number}" for number in range(8)]
    sets = [{*group} for size in (2, 3) for group in combinations(names, size)]
    every = {*names}
    judge = judge_by(lambda deployment: {*deployment.flags} & every in (sets[number], every))
    answers = list(smallest_combination(judge, [flag(name, 1) for name in names]))
    assert [set(answer.change.flags) for answer in answers] == ([sets[number]] if number < 48 else [])


def test_the_cheapest_set_comes_first_and_its_dearest_flag_is_as_mild_as_it_may_be() -> None:
    dear, cheap = flag("dear", 1, 2, 3, rank=4), flag("cheap", 1, 2, 3, rank=1)

    def fits(deployment: Deployment) -> bool:
        return sum(int(deployment.flags.get(name, 0)) for name in ("dear", "cheap", "other")) >= 5

    (answer,) = smallest_combination(judge_by(fits), [dear, cheap, flag("other", 1, 2, 3, rank=2)])
    assert answer.change.flags == {"other": 2, "cheap": 3}
    (answer,) = smallest_combination(judge_by(fits), [dear, cheap])
    assert answer.change.flags == {"dear": 2, "cheap": 3}


def test_a_flag_that_is_not_read_where_the_changed_plan_dies_is_not_tried() -> None:
    judge = judge_by(lambda deployment: deployment.model == "a/small" and "late" in deployment.flags)
    stage = failing().verdict.stage
    assert stage is not None
    late = Lever("late", flag("late", 1).changes, not_read={stage: "it is read later"})
    assert not list(smallest_combination(judge, [late], SMALL, most=1))
    assert len(list(smallest_combination(judge, [flag("late", 1)], SMALL, most=1))) == 1


@pytest.mark.parametrize("kinds", [KINDS[:1], KINDS[:2], KINDS[2:5], KINDS])
def test_several_changes_cost_what_they_cost_together(kinds: tuple[Kind, ...]) -> None:
    changes = [Change(kind, kind, kind, cost=kind, rank=number, moves=(kind,)) for number, kind in enumerate(kinds)]
    whole = together(changes)
    assert whole.rank == sum(range(len(kinds))) + 2 * (len(kinds) - 1)
    assert (whole.kind, whole.moves, whole.cost) == (kinds[-1], kinds, "; ".join(kinds))


def _short_of(lack: int, rank: int = 0) -> Any:
    terms = {"cudagraph": SimpleNamespace(bytes=5, parts={"full": 2})}
    ranks = [SimpleNamespace(total_bytes=100 + number, requested_bytes=90, terms=terms) for number in (0, 7)]
    verdict = SimpleNamespace(
        stage="kv_check", outcome="fails", margin=SimpleNamespace(expected=-lack), rank=rank, short_bytes=lack
    )
    return SimpleNamespace(verdict=verdict, ranks=ranks)


@pytest.mark.parametrize(
    ("frees", "rank", "most"),
    [
        ((), 0, 0), (("cudagraph",), 0, 5), (("cudagraph.full",), 0, 2), (("cudagraph.none",), 0, 0),
        (("beyond the budget",), 0, 10), (("beyond the budget",), 1, 17), (("beyond the budget",), 5, 17),
        (("beyond the budget", "cudagraph"), 1, 22), (("no such term",), 0, 0),
    ],
)  # fmt: skip
def test_what_levers_could_free_at_the_most(frees: tuple[str, ...], rank: int, most: int) -> None:
    """And 256 MiB for what is cut otherwise."""
    lever = Lever("flag", flag("flag", 1).changes, frees=frees)
    assert not is_out_of_reach(_short_of(most + (256 << 20), rank), [lever])
    assert is_out_of_reach(_short_of(most + (256 << 20) + 1, rank), [lever])
    assert not is_out_of_reach(_short_of(1 << 40, rank), [lever, flag("other", 1)])


def test_a_flag_that_is_read_later_fixes_what_an_earlier_one_lets_the_start_reach() -> None:
    """The first flag leads past the stage at which the plan dies; the second is read behind it."""
    before = failing()
    stage, later = before.verdict.stage, STAGES[-2]
    assert stage is not None and is_earlier(stage, later)
    further = replace(before, verdict=replace(before.verdict, stage=later))

    def planner(deployment: Deployment) -> Plan:
        if "first" not in deployment.flags:
            return before
        return fitting() if "second" in deployment.flags else further

    second = Lever("second", flag("second", 1).changes, not_read={stage: "it is read later"})
    judge = Judge(before, planner, lambda deployment: "")
    (answer,) = smallest_combination(judge, [flag("first", 1), second])
    assert set(answer.change.flags) == {"first", "second"}


@pytest.mark.parametrize("settings", [(1,), (1, 2)])
def test_a_middle_setting_with_one_flag_more(settings: tuple[int, ...]) -> None:
    """Both ends of a two-sided flag fail; a setting between them fits with another flag, whatever settings it has."""
    close = replace(failing(), verdict=replace(failing().verdict, fits=True, stage=None))

    def planner(deployment: Deployment) -> Plan:
        if deployment.flags.get("share") != 2:
            return failing()
        return fitting() if "other" in deployment.flags else close

    judge = Judge(failing(), planner, lambda deployment: "")
    share = flag("share", 1, 2, 3, two_sided=True)
    answers = list(around_a_middle(judge, [share, flag("other", *settings)]))
    assert [answer.change.flags for answer in answers] == [{"share": 2, "other": 1}]


def test_a_refused_plan_has_no_tokens_and_a_stage_with_nothing_before_it_takes_nothing() -> None:
    assert (_tokens("the engine does not take it"), _context("the engine does not take it")) == (0, 0)
    assert _context(replace(failing(), resolved={})) == 0
    bare = replace(failing(), ranks=tuple(replace(rank, stages=()) for rank in failing().ranks))
    assert _room(bare, "weights_load") == bare.ranks[0].total_bytes
    assert _room(replace(bare, ranks=()), "weights_load") == 0


def test_a_budget_above_the_card_leaves_nothing_out() -> None:
    lever = Lever("flag", flag("flag", 1).changes, frees=("beyond the budget",))
    for requested in (100, 101, 120):
        short = _short_of(256 << 20)
        short.ranks[0].requested_bytes = requested
        assert not is_out_of_reach(short, [lever])
        short.verdict.margin.expected -= 1
        assert is_out_of_reach(short, [lever])


@pytest.mark.parametrize(
    ("moved", "gained", "effect"),
    [
        (-1, 0, "worse"), (0, 0, "nothing"), (1, 0, "helps"), (-1, LEAST_GAIN, "helps"), (0, LEAST_GAIN, "helps"),
        (0, -LEAST_GAIN, "worse"), (1, -LEAST_GAIN, "helps"), (2, -LEAST_GAIN, "helps"), (-1, -LEAST_GAIN, "worse"),
        (-1, LEAST_GAIN - 1, "worse"), (0, LEAST_GAIN - 1, "nothing"), (0, 1 - LEAST_GAIN, "nothing"),
    ],
)  # fmt: skip
def test_the_effect_on_a_plan_that_fits_by_its_tokens_and_then_by_its_room(
    moved: int, gained: int, effect: str
) -> None:
    before = fitting()
    assert before.kv is not None
    after = replace(before, kv=replace(before.kv, logged_tokens=before.kv.logged_tokens + moved))
    judge = Judge(before, lambda deployment: after, lambda deployment: "")
    assert judge._effect(after, gained, SMALL, None)[0] == effect


@pytest.mark.parametrize(("gained", "effect"), [(1, "helps"), (0, "nothing"), (-1, "worse")])
def test_the_effect_on_a_plan_that_fails_by_its_room(gained: int, effect: str) -> None:
    judge = judge_by(lambda deployment: False)
    assert judge._effect(failing(), gained * LEAST_GAIN, SMALL, None)[0] == effect


@pytest.mark.parametrize("is_sure", [True, False])
def test_a_plan_that_is_close_may_pass_with_flags_that_are_read_later(is_sure: bool) -> None:
    """Only a plan that dies for certain does so before those flags are read."""
    stage = failing().verdict.stage
    assert stage is not None
    now = replace(failing(), verdict=replace(failing().verdict, sure=is_sure))
    judge = judge_by(lambda deployment: {"first", "second"} <= set(deployment.flags))
    second = Lever("second", flag("second", 1).changes, not_read={stage: "it is read later"})
    assert _may_pass(judge, now, (), [flag("first", 1), second]) is not is_sure
    assert _may_pass(judge, now, (), [flag("first", 1), flag("second", 1)])
    assert not _may_pass(judge, now, (), [flag("first", 1)])


@pytest.mark.parametrize(("before", "is_longer"), [(4 * 2048 - 1, False), (4 * 2048, False), (4 * 2048 + 1, True)])
def test_a_further_fix_keeps_more_of_the_context_where_less_than_a_quarter_is_left(
    before: int, is_longer: bool
) -> None:
    """Alone 2,048 tokens fit, with a smaller cache four times as many."""

    def planner(deployment: Deployment) -> Plan:
        context = int(deployment.flags.get("max_model_len", before))
        most = 8192 if "kv" in deployment.flags else 2048
        whole = fitting() if context <= most else failing()
        kv = replace(fitting().kv, logged_tokens=most)  # type: ignore[type-var]
        return replace(whole, deployment=deployment, kv=kv, resolved={**whole.resolved, "max_model_len": context})

    start = replace(failing(), resolved={**failing().resolved, "max_model_len": before})
    judge = Judge(start, planner, lambda deployment: "")
    shorter = flag("max_model_len", 8192, 4096, 2048)
    fixes = [judge.judge(shorter.changes[-1])]
    answers = list(longer_context(judge, [shorter, flag("kv", 1)], (), fixes, 9))
    assert [dict(answer.change.flags) for answer in answers] == (
        [{"kv": 1, "max_model_len": 8192}] if is_longer else []
    )


@pytest.mark.parametrize(("names", "is_tried"), [("abc", True), ("abcd", True), ("abcde", False)])
def test_eight_pairs_are_planned_without_asking_whether_all_flags_would_do(names: str, is_tried: bool) -> None:
    """One pair starts, all flags together do not; of five flags one pair is out of reach, which leaves nine."""
    sizes = {"a": 900, "b": 900, "c": 900, "d": 1, "e": 1}
    terms = {name: Term(name, size * MIB, size * MIB, size * MIB, "exact") for name, size in sizes.items()}
    rank = failing().ranks[0]
    margin = Margin(-800 * MIB, -800 * MIB, -800 * MIB)
    verdict = replace(failing().verdict, stage="kv_check", margin=margin, short_bytes=800 * MIB)
    before = replace(failing(), ranks=(replace(rank, terms={**rank.terms, **terms}),), verdict=verdict)
    judge = Judge(
        before, lambda deployment: fitting() if {*deployment.flags} & {*names} == {"a", "b"} else before, lambda _: ""
    )
    levers = [Lever(name, flag(name, 1).changes, frees=(name,)) for name in names]
    pairs = [pair for pair in combinations(levers, 2) if not is_out_of_reach(before, pair)]
    assert len(pairs) == {"abc": 3, "abcd": 6, "abcde": 9}[names]
    answers = list(smallest_combination(judge, levers))
    assert [set(answer.change.flags) for answer in answers] == ([{"a", "b"}] if is_tried else [])


def test_a_middle_setting_with_two_flags_more_and_not_with_three() -> None:
    close = replace(failing(), verdict=replace(failing().verdict, fits=True, stage=None))
    names = ("one", "two", "three")

    def answers(needed: int) -> list[dict[str, Any]]:
        def planner(deployment: Deployment) -> Plan:
            if deployment.flags.get("share") != 2:
                return failing()
            return fitting() if sum(name in deployment.flags for name in names) >= needed else close

        judge = Judge(failing(), planner, lambda deployment: "")
        levers = [flag("share", 1, 2, 3, two_sided=True), *(flag(name, 1) for name in names)]
        return [dict(answer.change.flags) for answer in around_a_middle(judge, levers)]

    assert [len(flags) for flags in answers(1)] == [2]
    assert [len(flags) for flags in answers(2)] == [3]
    assert answers(3) == []


def test_a_plan_without_weights_on_the_host_has_none_there() -> None:
    bare = replace(fitting(), resolved={})
    for resolved, size in (({}, 0), ({"host": {}}, 0), ({"host": {"weights": 7}}, 7)):
        assert host_weights(replace(bare, resolved=resolved)) == size


def test_what_a_change_moves_is_planned_again_and_the_rest_stays_pinned() -> None:
    size = Measured(1, 1, 1, 2)
    before = replace(
        fitting().deployment, given={"weights": 1, "context": 2}, measured={"weights": size, "context": size}
    )
    after = changed(before, Change("flag", "--flag 1", flags={"flag": 1}, moves=("weights",)))
    assert (after.given, after.measured) == ({"context": 2}, {"context": size})
    gone = changed(before, Change("flag", "", flags={"max_model_len": None}))
    assert gone.flags == {} and (gone.given, gone.measured) == (before.given, before.measured)
    other = changed(before, Change("release", "", version="1.0", model="a/small", environment={"A": "1"}))
    assert (other.engine.version, other.engine.version_from, other.model) == ("1.0", "--engine", "a/small")
    assert other.environment == {**before.environment, "A": "1"} and other.gpus == before.gpus
