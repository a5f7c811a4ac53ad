"""The searches where two figures are equal, where there is nothing, and what they say then (`make mutants`)."""

from __future__ import annotations

from functools import cache
from inspect import signature
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from oomph.answers.plan import load, plan
from oomph.engines.registry import engine_of
from oomph.errors import OomphError
from oomph.facts.gpus import find
from oomph.ir.ledger import Term
from oomph.ir.model import Block, Experts, Linear, Part, Scheme
from oomph.ir.plan import Plan
from oomph.search import card, cards, fit, models, neighbours, offer, outcome, picks, quality, request, score
from oomph.search.best import Best
from oomph.search.candidates import Candidate
from oomph.search.models import Ask, Models, Search
from oomph.search.prices import read_prices
from oomph.search.request import Arm, Layout, Spaces, Want
from oomph.search.solve import Point, Solver
from oomph.search.trial import Trial, _high_peaks_fit
from oomph.simulate.speed import Speed
from oomph.sources.gpu import parse_gpus

GPU = parse_gpus("RTX 4090")
RELEASE = "vllm==0.21.0"


def point_of(arm: Arm) -> Point:
    return Point(arm=arm, context=8192, users=1, utilisation=0.9, quality=0.0, speed=1, concurrency=1.0)


@cache
def served() -> Plan:
    return plan("vllm serve Qwen/Qwen3-8B --max-model-len 8192", gpu="RTX 4090", engine=RELEASE, advise=False)


def rate(one: float) -> Speed:
    return Speed(one, one, 1, 0.1, 100, 1.2, 0)


def good(value: float = 20.0, recovery: tuple[float, float] = (1.0, 1.0)) -> quality.Quality:
    return quality.Quality(value, value - 2, value + 2, True, "B", "a source", recovery)


def pick(speed: float, recovery: tuple[float, float] = (1.0, 1.0), capacity: int = 1, context: int = 8192) -> Any:
    return picks.Pick(
        "a", "a/b", "FP8", "vllm", context, 1, capacity, rate(speed), good(20.0, recovery), 0, "", served(), 8, 8, "",
        "",
    )  # fmt: skip


# --- what is said in short, and where there is nothing ---------------------------------------------------------------


def test_what_is_said_in_short() -> None:
    card: Any = SimpleNamespace(count=2, name="first card")
    other: Any = SimpleNamespace(count=1, name="second card")
    lines = cards.Cards("a/model", Want(), (card, other), 2, 2, False)
    assert lines.in_short() == "a/model: 2 choices, the first 2 x first card"
    assert replace(lines, cards=()).in_short() == "a/model: 0 choices"
    two = parse_gpus("RTX 4090, RTX 3090")
    shown = (replace(pick(1), model="the/best"), pick(2))
    some = Models(two, "chat", 8192, False, 1, "quality", shown, "", 2, 2, 2, False)
    assert some.in_short() == "2 models for chat on 2 x RTX 4090, the/best first"
    assert replace(some, picks=()).in_short() == "0 models for chat on 2 x RTX 4090, nothing fits"
    nothing = fit.Fit("a/model", GPU, Want(), "vLLM", False, False, None, ())
    assert nothing.in_short() == "a/model: nothing fits"


@pytest.mark.parametrize("length", [39, 40, 41])
def test_what_was_typed_is_quoted_as_far_as_a_line_goes(length: int) -> None:
    with pytest.raises(OomphError, match=f"'{'x' * min(length, 40)}'"):
        cards.cards("Qwen/Qwen3-8B", sort="x" * length)
    path = "y" * (length + 40)
    with pytest.raises(OomphError, match=f"'{'y' * min(length + 40, 80)}' cannot"):
        read_prices(path)


@pytest.mark.parametrize(
    ("gpus", "words"), [("RTX 4090, RTX 3090", "'2x RTX 4090'"), ("RTX 4090", "'RTX 4090'"), ("", "compare a/b  -")]
)
def test_an_engine_without_flags_to_search_is_sent_to_compare(gpus: str, words: str) -> None:
    with pytest.raises(OomphError) as refusal:
        request.base_of("a/b", parse_gpus(gpus) if gpus else (), "llamacpp")
    assert words in refusal.value.hint


def test_a_model_without_layers_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    known = load("Qwen/Qwen3-8B")
    base = served().deployment
    for model in (replace(known, layers=()), replace(known, opaque=True)):
        monkeypatch.setattr("oomph.answers.bare_plan.load", lambda name, model=model: model)
        with pytest.raises(OomphError, match="is not known"):
            request.models_of(base, True, ())
    monkeypatch.setattr("oomph.answers.bare_plan.load", lambda name: known)
    assert list(request.models_of(base, True, ())[0]) == ["Qwen/Qwen3-8B"]


def test_the_precision_of_a_candidate_is_its_tag_or_its_label() -> None:
    facts: Any = SimpleNamespace()
    plain = Candidate(facts, "a/b", "", good(), 1, 1, "FP8")
    assert (plain.precision, replace(plain, tag="Q4_K_M").precision) == ("FP8", "Q4_K_M")


def test_a_release_behind_an_engine_is_kept() -> None:
    assert models._engines(("vllm==0.21.0", "llamacpp")) == ("vllm==0.21.0", "llamacpp")


# --- equal figures ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("speed", "weights", "users", "longest", "step"),
    [
        (1.1, 10, 1, 1, ""), (1.11, 10, 1, 1, "1.1 times the speed"), (1, 12, 1, 1, ""),
        (1, 13, 1, 1, "weights in more bits"), (1, 10, 2, 1, "2 times the users"), (1, 10, 1, 2, "2 times the context"),
    ],
)  # fmt: skip
def test_what_a_line_buys_beside_the_one_before_it(
    speed: float, weights: int, users: int, longest: int, step: str
) -> None:
    def line(speed: float, weights: int, users: int, longest: int) -> Any:
        term = Term("weights", weights, weights, weights, "exact")
        whole = replace(served(), ranks=(replace(served().ranks[0], terms={"weights": term}),))
        return cards.Card("c", 1, 1, 24, None, "a/b", "", "", whole, 0, users, longest, speed=rate(speed))

    before, after = cards._with_steps([line(1, 10, 1, 1), line(speed, weights, users, longest)])
    assert (before.step, after.step) == ("", step)


def test_a_context_as_long_as_the_model_takes_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    search = cards.Search(lambda *_: (None, 1), 0, 4096, (0, 0))
    monkeypatch.setattr(cards, "search_for", lambda *_: search)
    assert not cards.cards("a/b", Want(4096), names=("RTX 4090",)).cards
    with pytest.raises(OomphError, match="4,097 is more than the 4,096"):
        cards.cards("a/b", Want(4097), names=("RTX 4090",))


def test_files_that_keep_enough_and_that_the_cards_just_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    files = card.gguf_group("Qwen/Qwen3-8B")
    least = min(one.quality.recovery[0] for one in files)
    monkeypatch.setattr(card, "LEAST_RECOVERY", least)
    assert len(card.gguf_group("Qwen/Qwen3-8B")) == len(files) > 1
    row, want = find("RTX 4090"), Want(4096, 2)
    sizes = [row.total_bytes + more - 8192 * 10 for more in (-1, 0, 1)]
    held = [card._may_hold([replace(files[0], weights=size)], 10, row, 1, want) for size in sizes]
    assert held == [True, True, False] and card._may_hold([replace(files[0], weights=sizes[2])], 10, row, 2, want)


def test_a_file_that_keeps_too_little_sells_no_card_unless_files_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a 70B a card of 40 GB holds IQ4_XS: taken here as one that keeps too little."""
    monkeypatch.setattr(card, "LEAST_RECOVERY", 0.98)
    name, want = "meta-llama/Llama-3.3-70B-Instruct", Want(8192, 1)
    (own,) = cards.cards(name, want, engine="llamacpp", names=("A100 SXM 40GB",), most=1).cards
    assert own.checkpoint.endswith(":IQ4_XS") and own.count == 1
    assert all(line.count > 1 for line in cards.cards(name, want, names=("A100 SXM 40GB",)).cards)


@pytest.mark.parametrize(("value", "is_enough"), [(29.9, True), (30.0, True), (30.1, False)])
def test_a_model_of_the_same_rank_as_the_last_line_changes_nothing(value: float, is_enough: bool) -> None:
    shown = [replace(pick(1), quality=good(30.0))]
    group: Any = [SimpleNamespace(quality=replace(good(value), source="another"), read=10)]
    assert Search(GPU, Ask(limit=1))._enough(shown, group) is is_enough


@pytest.mark.parametrize(("prefer", "least"), [("speed", 99), ("", 62)])
def test_a_variant_is_tried_where_it_reads_less(prefer: str, least: int) -> None:
    """For speed anything less; else so much that it may be twice as fast: 62 x 2 x 0.8 is below 100."""
    search = Search(GPU, Ask(prefer=prefer))
    tried = [read for read in (60, 61, 62, 63, 98, 99, 100) if search._may_displace(pick(1), 100, _reads(read))]
    assert max(tried) == least
    assert search._may_displace(pick(1), 80, _reads(50))


def _reads(read: int) -> Any:
    return SimpleNamespace(quality=good(), read=read)


@pytest.mark.parametrize(
    ("first", "second", "is_second"),
    [
        (pick(10), pick(12.5, (0.99, 1.0)), True), (pick(10), pick(12.4, (0.99, 1.0)), False),
        (pick(10), pick(8, (0.99, 1.0), 2), True), (pick(10), pick(7.9, (0.99, 1.0), 2), False),
        (pick(10), pick(8, (0.99, 1.0), 1), False), (pick(10), pick(8, (0.99, 1.0), 2, 8191), False),
    ],
)  # fmt: skip
def test_which_engine_serves_a_model(first: Any, second: Any, is_second: bool) -> None:
    second = replace(second, model="b")
    assert (picks.better([first, second], "").model == "b") is is_second
    assert (picks.better([second, first], "").model == "b") is is_second


@pytest.mark.parametrize(("value", "is_decided"), [(23.0, False), (23.2, False), (23.3, True)])
def test_a_difference_of_one_table_is_outside_both_intervals(value: float, is_decided: bool) -> None:
    assert quality.decides(good(value), good(20.0), False) is is_decided


def test_a_quantisation_that_keeps_nothing_has_a_middle() -> None:
    assert quality._middle(good(20.0, (0.0, 0.0))) == 1.0


@pytest.mark.parametrize(("more", "is_too_large"), [(-1, True), (0, False), (1, False)])
def test_weights_that_just_fit_are_searched(more: int, is_too_large: bool) -> None:
    name = "Qwen/Qwen3-8B"
    least = request.least_weights(load(name))
    gpus = (replace(GPU[0], total_bytes=least + more, used_bytes=0),)
    base, _ = request.base_of(name, gpus, RELEASE)
    spaces = Spaces({name: load(name)}, gpus, Want(4096, 1), base)
    assert (name in spaces.too_large, not spaces.arms) == (is_too_large, is_too_large)


def test_an_arm_needs_all_flags_of_the_release_and_no_more() -> None:
    name = "Qwen/Qwen3-8B"
    base, _ = request.base_of(name, GPU, RELEASE)
    spaces = Spaces({name: load(name)}, GPU, Want(4096, 1), base)
    plain = engine_of(base).arm_flags(Arm(name)).keys()
    every = {field for arm in spaces.arms for field in engine_of(base).arm_flags(arm)}
    spaces.knobs = _with_flags(spaces.knobs, every)
    assert len(spaces._arms(0, Want().options)) == len(spaces.arms)
    spaces.knobs = _with_flags(spaces.knobs, plain)
    assert spaces._arms(0, Want().options) and all(
        engine_of(base).arm_flags(arm).keys() <= plain for arm in spaces._arms(0, Want().options)
    )


def _with_flags(knobs: Any, flags: Any) -> Any:
    return replace(knobs, known_flags=frozenset(flags))


def test_the_next_share_stays_below_the_whole_card() -> None:
    labels = {share: _labels(share) for share in (0.0, 0.9, 0.98, 0.99)}
    flag = "--gpu-memory-utilization"
    assert [label for label in labels[0.9] if label.startswith(flag)] == [f"{flag} 0.91"]
    assert [label for label in labels[0.98] if label.startswith(flag)] == [f"{flag} 0.99"]
    assert not [label for share in (0.0, 0.99) for label in labels[share] if label.startswith(flag)]


def _labels(share: float) -> list[str]:
    name = "Qwen/Qwen3-8B"
    base, _ = request.base_of(name, GPU, RELEASE)
    models_of = {name: load(name)}
    solver = Solver(base, models_of, lambda *_: served(), 0.92)
    spaces = Spaces(models_of, GPU, Want(4096, 1), base)
    point: Any = SimpleNamespace(context=4096, users=1, utilisation=share, arm=Arm(name))
    return [one.change for one in neighbours.neighbours(solver, point, spaces)]


@pytest.mark.parametrize(("concurrency", "is_enough"), [(2.9, False), (3.0, True), (3.1, True)])
def test_room_for_as_many_as_there_are_users(concurrency: float, is_enough: bool, tmp_path: Any) -> None:
    answer = outcome.Outcome("ok", concurrency, served())
    solver: Any = SimpleNamespace(outcome=lambda *_: answer)
    assert (neighbours.reason(solver, Arm("a/b"), 8192, 3, 0.9) == neighbours.SAME) is is_enough
    trial = Trial(GPU, 3)
    model: Any = SimpleNamespace(pooling=False)
    candidate: Any = SimpleNamespace(checkpoint="a/b", tag="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("oomph.search.trial.judge", lambda plan, margin: answer)
        patch.setattr("oomph.search.trial.plan_with_engine", lambda *_: served())
        result = trial._judged(served().deployment, model, 8192, candidate)
        assert (result is not None) is is_enough
        patch.setattr("oomph.search.trial.judge", lambda plan, margin: replace(answer, kind="over", concurrency=9.0))
        assert trial._judged(served().deployment, model, 8192, candidate) is None
        model.pooling = True
        pooled = trial._judged(served().deployment, model, 8192, candidate)
        assert pooled is not None and pooled.capacity == 3


@pytest.mark.parametrize(("more", "fits"), [(-1, True), (0, True), (1, False)])
def test_the_high_end_of_a_peak_may_fill_a_card(more: int, fits: bool) -> None:
    stage: Any = SimpleNamespace(peak_high=100 + more)
    whole: Any = SimpleNamespace(ranks=[SimpleNamespace(total_bytes=100, stages=[stage])])
    assert _high_peaks_fit(whole) is fits


# --- outcomes --------------------------------------------------------------------------------------------------------


def test_a_plan_without_a_cache_never_serves() -> None:
    bare = replace(served(), kv=None)
    assert outcome.judge(bare, margin=True) == outcome.Outcome("never", 0.0, bare)
    assert served().kv is not None
    for change in ({"num_blocks": 0}, {"bytes_per_block": 0}):
        whole = replace(served(), kv=replace(served().kv, max_concurrency=7.5, **change))  # type: ignore[type-var]
        assert outcome.low_concurrency(whole) == 7.5


def test_a_cache_that_its_interval_swallows_holds_nobody() -> None:
    plan_ = served()
    assert plan_.kv is not None
    rank = plan_.ranks[0]
    available = rank.terms["available_kv"]
    none_left = replace(rank, terms={**rank.terms, "available_kv": replace(available, low=0)})
    assert outcome.low_concurrency(replace(plan_, ranks=(none_left,))) == 0.0


def test_nothing_is_on_the_host_without_offload() -> None:
    assert offer._weights_on_host(served()) == 0
    moved = plan(
        "vllm serve Qwen/Qwen3-8B --max-model-len 8192 --cpu-offload-gb 2", gpu="RTX 4090", engine=RELEASE, advise=False
    )
    assert offer._weights_on_host(moved) > 1 << 30


def test_the_default_share_is_tried_where_it_is_the_highest_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A context may fit at the default share though the shortest one overfills the card there."""
    name = "Qwen/Qwen3-8B"
    solver = Solver(served().deployment, {name: load(name)}, lambda *_: served(), 0.9)
    shares = {0.8: outcome.Outcome("short", 0.0, served()), 0.9: outcome.Outcome("ok", 4.0, served())}
    monkeypatch.setattr(solver, "utilisation", lambda *_: 0.8)
    monkeypatch.setattr(solver, "outcome", lambda arm, context, users, share: shares[share])
    for grid, found in (((0.7, 0.8, 0.9), True), ((0.7, 0.8), False)):
        space: Any = SimpleNamespace(contexts=(4096,), users=(1,), utilisations=grid)
        assert (solver.at(Arm(name), 4096, 1, space) is not None) is found


def test_a_refused_arm_serves_nobody() -> None:
    def refuse(*_: object) -> Any:
        raise OomphError("the engine does not take it")

    name = "Qwen/Qwen3-8B"
    solver = Solver(served().deployment, {name: load(name)}, refuse, 0.92)
    assert solver.outcome(Arm(name), 4096, 1, 0.92) == outcome.Outcome(
        "never", 0.0, None, "the engine does not take it"
    )


def test_the_default_share_is_taken_up_to_the_highest() -> None:
    name = "Qwen/Qwen3-8B"
    solver = Solver(served().deployment, {name: load(name)}, lambda *_: served(), 0.9)
    for highest, is_taken in ((0.89, False), (0.9, True), (0.91, True)):
        space: Any = SimpleNamespace(utilisations=(0.8, highest), contexts=(8192,), users=(1,))
        point = solver.point(Arm(name), 8192, 1, space, (0.0, 1))
        assert point is not None and (point.utilisation == 0.9) is is_taken


@pytest.mark.parametrize(("model", "kind"), [("Qwen/Qwen3-32B", "checkpoint"), ("Qwen/Qwen3-32B-AWQ", "flag")])
def test_weights_beyond_the_card_are_answered_by_a_checkpoint_and_never_from_the_host(model: str, kind: str) -> None:
    failing = plan(f"vllm serve {model}", gpu="RTX 4090", engine=RELEASE, advise=False)
    change = offer.change_by_fit(failing)
    assert change is not None and change.kind == kind
    assert bool(change.model) is (kind == "checkpoint") and change.model != model
    assert not any("offload" in name for name in change.flags)


# --- score -----------------------------------------------------------------------------------------------------------


def _one_layer(*modules: Any) -> Any:
    layer = SimpleNamespace(block=Block(tuple(modules)))
    return SimpleNamespace(layers=[layer, layer], quantization=None, dtype="BF16")


@pytest.mark.parametrize(("gated", "matrices"), [(True, 3), (False, 2)])
def test_experts_have_two_matrices_and_a_gate(gated: bool, matrices: int) -> None:
    experts = Experts("mlp.experts", 8, 10, 7, 2, "BF16", gated)
    linear = Linear("o_proj", (Part("o_proj", 30),), 10, "row", "attention", "BF16")
    model = _one_layer(experts, linear)
    assert score._active_parameters(model) == 2 * (2 * 10 * 7 * matrices + 10 * 30)
    four_bits = replace(experts, scheme=_scheme())
    lost = 8 * 10 * 7 * matrices
    assert score.quality_loss(_one_layer(four_bits, linear), Arm("")) == round(3.0 * lost / (lost + 300), 1)


def _scheme() -> Any:
    return Scheme("x", 4, "int", "group", input_bits=16)


def test_without_weights_nothing_is_lost_and_without_a_cache_nothing_is_read() -> None:
    assert score.quality_loss(_one_layer(), Arm("")) == 0.0
    assert score.kv_read(replace(served(), kv=None)) == 0
    assert served().kv is not None
    assert score.kv_read(replace(served(), kv=replace(served().kv, need_bytes=0))) == 0  # type: ignore[type-var]


# --- compare's offers ------------------------------------------------------------------------------------------------


def test_an_offer_of_a_search_that_met_nothing_is_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    nearest = object()
    monkeypatch.setattr(offer, "_nearest", lambda *_: nearest)
    engine: Any = SimpleNamespace(name="vllm")
    monkeypatch.setattr(offer, "pick_or_nearest", lambda *_, **__: (None, None))
    assert offer.batched_offer(engine, "a/b", GPU, Want(8192), headless=False) is nearest


@pytest.mark.parametrize(("context", "users"), [(16384, 0), (40960, 2), (40960, 64)])
def test_the_pick_alone_is_the_pick_of_a_whole_fit(context: int, users: int) -> None:
    """64 users of it are not met: what comes near is no pick."""
    whole = fit.fit("Qwen/Qwen3-8B", GPU, context=context, users=users)
    alone = fit.pick_for("Qwen/Qwen3-8B", GPU, Want(context, users), "vllm")
    assert whole.pick is not None
    assert (alone.plan.deployment if alone is not None else None) == (whole.pick.plan.deployment if whole.met else None)


@pytest.mark.parametrize(
    ("capacity", "users", "words"),
    [(2.5, 3, "it starts and holds 2.5 of the 3 requests at once"), (3.0, 3, ""), (0.5, 1, ""), (1.5, 2, "it starts")],
)
def test_an_offer_that_holds_fewer_requests_says_so(
    capacity: float, users: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fake(deployment: Any) -> Any:
        assert served().kv is not None
        return replace(served(), deployment=deployment, kv=replace(served().kv, max_concurrency=capacity))  # type: ignore[type-var]

    monkeypatch.setattr(offer, "run", fake)
    engine: Any = SimpleNamespace(name="vllm")
    answer = offer._nearest(engine, "Qwen/Qwen3-8B", GPU, 8192, users)
    assert answer.why.startswith(words) and bool(answer.why) is bool(words) and answer.users == min(capacity, users)


def test_an_offer_that_is_refused_says_the_first_line_of_why(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = replace(served().verdict, fits=False, stage="other", message="it does not go\nin any way")
    monkeypatch.setattr(offer, "run", lambda deployment: replace(served(), verdict=refused))
    engine: Any = SimpleNamespace(name="vllm")
    assert offer._nearest(engine, "Qwen/Qwen3-8B", GPU, 8192, 1).why == "it does not go"

    def refuse(deployment: Any) -> Any:
        raise OomphError("no")

    monkeypatch.setattr(offer, "run", refuse)
    assert offer._nearest(engine, "Qwen/Qwen3-8B", GPU, 8192, 1).why == "no checkpoint of it can be planned"


def test_a_plan_without_a_cache_holds_nobody() -> None:
    assert offer._users(replace(served(), kv=None)) == 0.0


def test_a_layout_has_its_gpus() -> None:
    assert (Layout(2, 3).gpus, Layout().gpus) == (6, 1)


@pytest.mark.parametrize(
    ("peaks", "requested", "margin"),
    [
        ((0, 0, 90), 90, True), ((0, 0, 90), 90, False), ((0, 99, 90), 90, True), ((0, 0, 90), 92, True),
        ((4, 0, 90), 90, True), ((0, 0, 85), 88, False), ((7, 0, 90), 85, True),
    ],
)  # fmt: skip
def test_the_first_guess_of_a_share_is_where_the_tightest_stage_is_full(
    peaks: tuple[int, int, int], requested: int, margin: bool
) -> None:
    """Stages that do not grow with the share, and the first one's own peak, decide nothing but how much is free."""
    grid = [number / 100 for number in range(50, 100)]
    names = ("startup_free_memory", "profile_run", "kv_alloc")
    stages = [
        SimpleNamespace(name=name, peak_bytes=peak, peak_high=peak + 2, needed_high=0)
        for name, peak in zip(names, peaks, strict=True)
    ]
    rank = SimpleNamespace(total_bytes=100, stages=stages, requested_bytes=requested)
    whole: Any = SimpleNamespace(ranks=[rank], deployment=served().deployment)
    more = 2 if margin else 0
    room = min(100 - peaks[2] - more, 100 - peaks[0] - more - requested) / 100
    assert grid[outcome.guess_share(whole, grid, grid.index(0.9), margin=margin)] == pytest.approx(
        min(0.99, 0.9 + room)
    )


def test_a_search_tells_each_arm_twice() -> None:
    name = "Qwen/Qwen3-8B"
    base, _ = request.base_of(name, GPU, RELEASE)
    models_of = {name: load(name)}
    spaces = Spaces(models_of, GPU, Want(4096, 1), base)
    solver = Solver(base, models_of, lambda deployment, model: replace(served(), deployment=deployment), 0.92)
    steps: list[tuple[int, int]] = []
    solver.progress = lambda model, number, count: steps.append((number, count))
    solver.front(spaces.space(4096, 1))
    count = len(steps) // 2
    assert steps == [(number, 2 * count) for number in range(2 * count)] and count > 1


def test_the_reference_request_has_so_many_tokens_of_prompt_and_answer() -> None:
    """Without graphs every kernel of every token of the answer is launched by itself."""
    model = load("Qwen/Qwen3-8B")
    plain, eager = (score.request_seconds(model, Arm("a/b", eager=eager), served()) for eager in (False, True))
    assert eager - plain == pytest.approx(256 * len(model.layers) * 12 * 5e-6)
    assert (score.PROMPT, score.ANSWER) == (2048, 256)


@pytest.mark.parametrize(
    ("function", "defaults"),
    [
        (cards.cards, {"only": False, "most": 12, "sort": "", "everything": False}),
        (fit.fit, {"context": 0, "users": 0, "prefer": "", "only": False, "explain": False}),
        (models.models, {"context": 0, "users": 0, "limit": 10, "smallest": 0.0, "largest": 0.0}),
    ],
)
def test_what_a_search_does_unless_it_is_told(function: Any, defaults: dict[str, Any]) -> None:
    known = {name: parameter.default for name, parameter in signature(function).parameters.items()}
    assert {name: known[name] for name in defaults} == defaults


@pytest.mark.parametrize(
    ("users", "first", "is_first"), [(1, 1.0, True), (1, 0.5, True), (2, 1.0, False), (3, 1.0, False), (3, 9.0, True)]
)
def test_of_offers_that_start_the_one_that_holds_most_requests(
    users: int, first: float, is_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fake(deployment: Any) -> Any:
        assert served().kv is not None
        capacity = first if deployment.model == "Qwen/Qwen3-8B" else 9.0
        return replace(served(), deployment=deployment, kv=replace(served().kv, max_concurrency=capacity))  # type: ignore[type-var]

    monkeypatch.setattr(offer, "run", fake)
    engine: Any = SimpleNamespace(name="vllm")
    answer = offer._nearest(engine, "Qwen/Qwen3-8B", GPU, 8192, users)
    assert answer.plan is not None and (answer.plan.deployment.model == "Qwen/Qwen3-8B") is is_first


@pytest.mark.parametrize(
    ("stage", "words"), [("kv_check", "out of memory at the KV cache check"), (None, "too close to call")]
)
def test_an_offer_that_does_not_start_says_where_it_dies(
    stage: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = replace(served().verdict, fits=stage is None, stage=stage, sure=False, short_bytes=5)
    monkeypatch.setattr(offer, "run", lambda deployment: replace(served(), verdict=verdict))
    engine: Any = SimpleNamespace(name="vllm")
    assert offer._nearest(engine, "Qwen/Qwen3-8B", GPU, 8192, 1).why == words


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_offer_on_several_gpus_is_of_all_of_them_together(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[Any] = []

    def fake(deployment: Any) -> Any:
        planned.append(deployment.flags.get("tensor_parallel_size"))
        return replace(served(), deployment=deployment)

    monkeypatch.setattr(offer, "run", fake)
    engine: Any = SimpleNamespace(name="vllm")
    offer._nearest(engine, "Qwen/Qwen3-8B", GPU * count, 8192, 1)
    assert {*planned} == {count if count > 1 else None}


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B", "qwen/qwen3-8b", "Qwen/Qwen3-8B-FP8", "no/such-model"])
def test_files_are_those_of_the_model_or_of_one_of_its_checkpoints(name: str) -> None:
    known = card.gguf_group("Qwen/Qwen3-8B")
    assert card.gguf_group(name) == ([] if name == "no/such-model" else known)
    assert {one.model.plain for one in known} == {"Qwen/Qwen3-8B"}


@pytest.mark.parametrize(
    ("start", "room", "place"), [(0, -50, 0), (3, -50, 0), (1, -1, 0), (0, 0, 0), (0, 1, 1), (0, 50, 4), (4, 0, 4)]
)
def test_the_first_guess_of_a_share_stays_in_the_grid(start: int, room: int, place: int) -> None:
    grid = [0.5, 0.51, 0.52, 0.53, 0.54]
    stage = SimpleNamespace(name="kv_alloc", peak_bytes=100 - room, peak_high=100 - room, needed_high=0)
    none = SimpleNamespace(name="startup_free_memory", peak_bytes=0, peak_high=0, needed_high=0)
    rank = SimpleNamespace(total_bytes=100, stages=[none, stage], requested_bytes=100 - max(room, 0))
    whole: Any = SimpleNamespace(ranks=[rank], deployment=served().deployment)
    assert outcome.guess_share(whole, grid, start, margin=True) == place


# --- what fit finds, as a change of a command ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "fitted", "change", "label"),
    [
        ({}, {"max_num_seqs": 4}, {"max_num_seqs": 4}, "--max-num-seqs 4"),
        ({"max_num_seqs": 4}, {"max_num_seqs": 4}, {}, ""),
        ({"tensor_parallel_size": 2}, {"max_num_seqs": 4}, {"max_num_seqs": 4, "tensor_parallel_size": None},
         "--max-num-seqs 4 without --tensor-parallel-size"),
        ({"tensor_parallel_size": 1}, {}, {}, ""),
        ({"tensor_parallel_size": 2}, {"tensor_parallel_size": 2}, {}, ""),
        ({"tensor_parallel_size": 2}, {"tensor_parallel_size": 4}, {"tensor_parallel_size": 4},
         "--tensor-parallel-size 4"),
    ],
)  # fmt: skip
def test_what_fit_finds_is_what_differs_from_the_command(
    own: dict[str, Any], fitted: dict[str, Any], change: dict[str, Any], label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    base = served().deployment
    point = point_of(Arm(served().model, kv_dtype="fp8"))
    answer = Best(point, replace(served(), deployment=replace(base, flags=fitted)), ())

    def fake(model: str, gpus: Any, want: Want, engine: str, **options: Any) -> Any:
        asked.append((engine, options))
        return answer

    monkeypatch.setattr(offer, "pick_for", fake)
    told = offer.change_by_fit(replace(served(), deployment=replace(base, flags=own)))
    assert told is not None and asked == [(RELEASE, {"offload": "max_model_len" in own, "headless": True})]
    assert (told.flags, told.label, told.kind, told.rank, told.cost) == (
        change,
        label,
        "flag",
        20 + len(change),
        "KV cache in 8 bits",
    )
    assert told.model == "" and "context" not in told.moves and "weights" in told.moves


def test_another_checkpoint_of_fit_drops_what_only_the_first_one_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    base = served().deployment
    for model, kind, dropped in ((served().model, "flag", {}), ("Qwen/Qwen3-8B-AWQ", "checkpoint", {"dtype": None})):
        best = Best(point_of(Arm(model)), replace(served(), deployment=base), (), rate(2.0))
        monkeypatch.setattr(offer, "pick_for", lambda *_, best=best, **__: best)
        own = replace(base, flags={**base.flags, "dtype": "float16"})
        told = offer.change_by_fit(replace(served(), deployment=own))
        assert told is not None and (told.kind, told.flags) == (kind, dropped)
        assert told.model == ("Qwen/Qwen3-8B-AWQ" if dropped else "") and told.label.startswith(told.model)
        assert told.cost == f"{'a download of 5.68 GiB; ' if dropped else ''}at 2 tokens/s per user"


def test_fit_is_not_asked_where_it_knows_no_flags_or_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offer, "pick_for", lambda *_, **__: None)
    assert offer.change_by_fit(served()) is None
    monkeypatch.setattr(offer, "pick_for", lambda *_, **__: 1 // 0)
    llama = plan("llama-server -m Qwen3-8B-Q4_K_M.gguf -c 8192", gpu="RTX 4090", advise=False)
    assert offer.change_by_fit(llama) is None
