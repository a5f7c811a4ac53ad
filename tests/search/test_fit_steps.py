"""The steps of fit() by themselves: which arms, contexts and users a solver is asked for (`make mutants`)."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from oomph.answers.plan import load
from oomph.search import fit
from oomph.search.request import Arm, Layout, Options, Space, Spaces, Want, base_of, context_grid
from oomph.search.solve import Point
from oomph.sources.gpu import parse_gpus

NAME = "Qwen/Qwen3-8B"
RELEASE = "vllm==0.21.0"
LONGEST = 40960


class Asked:
    """A solver that answers with what it is told to, and notes what it was asked for."""

    def __init__(self, *answers: list[Point], stopped: bool = False, heads: int = 8) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[Space, tuple[int, ...]]] = []
        self.margins: list[bool] = []
        self.stopped = stopped
        self.models: dict[str, Any] = {NAME: replace(load(NAME), num_kv_heads=heads)}

    def front(self, space: Space, *, grid: Any = ()) -> list[Point]:
        self.asked.append((space, tuple(grid)))
        return self.answers.pop(0) if self.answers else []

    def keep_margin(self, keep: bool) -> None:
        self.margins.append(keep)


def point(arm: Arm = Arm(NAME), context: int = 4096, users: int = 1, speed: int = 5, loss: float = 0.0) -> Point:  # noqa: B008
    return Point(arm, context, users, 0.9, loss, speed)


@cache
def spaces(want: Want) -> Spaces:
    gpus = parse_gpus("RTX 4090")
    base, _ = base_of(NAME, gpus, RELEASE)
    return Spaces({NAME: load(NAME)}, gpus, want, base)


def space(count: int, contexts: int = 3) -> Space:
    arms = (Arm(NAME), Arm(NAME, eager=True), Arm(NAME, eager=True, tokens=2048), Arm(NAME, Layout(2)))
    more = tuple(Arm(NAME, tokens=number + 1, prefix_off=True) for number in range(count - len(arms)))
    return Space((*arms, *more), tuple(1024 << number for number in range(contexts)), (1, 2), (0.9,))


# --- a small space, and a large one ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "is_whole"), [(47, True), (48, True), (49, False), (50, False)])
def test_a_small_space_is_searched_whole(count: int, is_whole: bool) -> None:
    solver: Any = Asked([point()], [])
    fit._front(solver, space(count), (4096,), Want())
    assert (solver.asked[0][0] == space(count)) is is_whole
    assert all(grid == (4096,) for _, grid in solver.asked)


@pytest.mark.parametrize(("contexts", "places"), [(1, [0]), (4, [0, 2]), (5, [0, 2, 4]), (6, [0, 3]), (7, [0, 3, 6])])
def test_a_large_space_first_at_fewer_contexts_then_with_one_small_flag(contexts: int, places: list[int]) -> None:
    solver: Any = Asked([point()], [point(users=9)])
    front = fit._front(solver, space(60, contexts), (), Want())
    plain, opened = (asked for asked, _ in solver.asked)
    assert list(plain.contexts) == list(opened.contexts) == [1024 << place for place in places]
    assert plain.arms == (Arm(NAME), Arm(NAME, Layout(2)))
    assert opened.arms == (Arm(NAME, eager=True),)  # one flag more, in the layout of the best
    assert front == [point(users=9)]


def test_what_serves_most_users_is_opened_beside_the_pick() -> None:
    wide = point(Arm(NAME, Layout(2)), users=9, speed=1)
    arms = (Arm(NAME, Layout(2), eager=True), Arm(NAME, Layout(4), eager=True), Arm("another", eager=True))
    solver: Any = Asked([point(), wide], [])
    solver.models["another"] = solver.models[NAME]
    whole = space(60)
    fit._front(solver, replace(whole, arms=(*whole.arms, *arms)), (), Want())
    assert solver.asked[1][0].arms == (Arm(NAME, eager=True), Arm(NAME, Layout(2), eager=True))


def test_a_large_space_in_which_no_plain_arm_fits_is_searched_whole_and_one_that_is_stopped_no_further() -> None:
    solver: Any = Asked([], [point()])
    assert fit._front(solver, space(60), (), Want()) == [point()] and solver.asked[1][0] == space(60)
    solver = Asked([point()], stopped=True)
    assert fit._front(solver, space(60), (), Want()) == [point()] and len(solver.asked) == 1
    flags = tuple(Arm(NAME, tokens=number + 1) for number in range(60))
    solver = Asked([point()])
    assert fit._front(solver, replace(space(60), arms=flags), (), Want()) == [point()] and len(solver.asked) == 1


@pytest.mark.parametrize(
    ("heads", "layout", "is_plain"),
    [
        (8, Layout(1, 2), False), (2, Layout(1, 2), False), (1, Layout(1, 2), True), (1, Layout(2, 1), True),
        (8, Layout(2, 1), True), (8, Layout(1, 1), True), (4, Layout(2, 2), False), (3, Layout(2, 2), True),
    ],
)  # fmt: skip
def test_pipeline_stages_are_tried_where_the_heads_are_fewer_than_the_gpus(
    heads: int, layout: Layout, is_plain: bool
) -> None:
    solver: Any = Asked(heads=heads)
    assert bool(fit._plain_arms(solver, replace(space(4), arms=(Arm(NAME, layout),)))) is is_plain


@pytest.mark.parametrize(("more", "are_alike"), [(0, True), (1 / 200, True), (1 / 40, False)])
def test_of_checkpoints_that_are_alike_one_is_tried(more: float, are_alike: bool) -> None:
    """Alike: of the same precision, and within a hundredth of the same size."""

    def sized(size: int) -> Any:
        return SimpleNamespace(nbytes=size, layers=(), dtype="BF16", num_kv_heads=8)

    solver: Any = Asked()
    base = round(2.718281828 ** (12 * 1.0))
    solver.models = {"a": sized(base), "b": sized(round(base * (1 + more))), "c": sized(0), "d": sized(1)}
    arms = fit._plain_arms(solver, replace(space(4), arms=tuple(Arm(name) for name in "abcd")))
    assert [arm.model for arm in arms] == (["a", "c"] if are_alike else ["a", "b", "c"])


# --- what is searched ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answers", "gib"), [(1, 2), (2, 4), (3, 8), (4, 16), (5, 32), (6, 64), (7, 0)])
def test_weights_go_to_the_host_as_little_as_serves(answers: int, gib: int) -> None:
    want = Want(4096, 2)
    solver: Any = Asked(*([] for _ in range(answers)), [point()])
    front, met, close = fit._search(solver, spaces(want), want)
    assert (front, met, close) == (([point()], True, False) if gib else ([], False, True))
    assert {arm.offload_gib for arm in solver.asked[-1][0].arms} == {gib}
    assert solver.margins == ([] if gib else [False, True])


def test_what_nothing_serves_is_not_even_close_and_a_plain_answer_is_the_first() -> None:
    want = Want(4096, 2)
    solver: Any = Asked()
    assert fit._search(solver, spaces(want), want) == ([], False, False)
    solver = Asked([point()])
    assert fit._search(solver, spaces(want), want) == ([point()], True, False)
    (whole, grid), *_ = solver.asked
    assert (whole.contexts[0], whole.users[0], grid[0], grid[-1]) == (4096, 2, 4096, LONGEST)


@pytest.mark.parametrize(("context", "is_searched"), [(LONGEST - 1, True), (LONGEST, True), (LONGEST + 1, False)])
def test_no_context_above_the_models_own_is_searched(context: int, is_searched: bool) -> None:
    solver: Any = Asked([point()])
    assert fit._search(solver, spaces(Want(context)), Want(context))[1] is is_searched
    assert bool(solver.asked) is is_searched


@pytest.mark.parametrize(
    ("want", "found_first", "asked"),
    [
        # context and users of each search: the context for fewer users, the users with less context, then one user
        (Want(8192, 4), False, [(8192, 1), (2048, 4), (2048, 1)]), (Want(8192, 4), True, [(8192, 1), (2048, 4)]),
        (Want(8192, 1), False, [(2048, 1), (2048, 1)]), (Want(8192, 0), False, [(2048, 1), (2048, 1)]),
        (Want(0, 4), False, [(4096, 1), (2048, 1)]), (Want(0, 2), False, [(4096, 1), (2048, 1)]),
        (Want(0, 1), False, []), (Want(0, 0), False, []),
        (Want(LONGEST, 2), False, [(LONGEST, 1), (2048, 2), (2048, 1)]),
        (Want(LONGEST + 1, 2), False, [(2048, 2), (2048, 1)]),
    ],
)  # fmt: skip
def test_where_it_is_not_met_the_nearest_is_looked_for(
    want: Want, found_first: bool, asked: list[tuple[int, int]]
) -> None:
    solver: Any = Asked([point()] if found_first else [])
    assert fit._nearest(solver, spaces(want), want) == ([point()] if found_first else [])
    assert [(one.contexts[0], one.users[0]) for one, _ in solver.asked] == asked
    for one, grid in solver.asked:
        assert not grid or (one.contexts == (2048,) and grid[0] == 2048 and grid[-1] == LONGEST)
    if want.context and want.context <= LONGEST and not found_first:
        assert want.context in solver.asked[-2][1]


def test_of_a_short_model_the_nearest_is_its_own_context(monkeypatch: pytest.MonkeyPatch) -> None:
    short: Any = SimpleNamespace(longest=1000, space=spaces(Want(500, 2)).space)
    solver: Any = Asked()
    fit._nearest(solver, short, Want(500, 2))
    assert [asked.contexts[0] for asked, _ in solver.asked] == [500, 1000, 1000]


@pytest.mark.parametrize(("longest", "context"), [(0, 0), (8192, 0), (8192, 4096), (8192, 4095)])
def test_the_pick_gets_the_longest_context_that_its_users_allow(longest: int, context: int) -> None:
    asked: list[Any] = []

    def find(arm: Arm, users: int, whole: Space, grid: list[int]) -> int:
        asked.append((arm, users, whole.arms, grid[0]))
        return longest

    longer = replace(point(users=3), context=longest)
    solver: Any = SimpleNamespace(longest=find, point=lambda arm, context, users, whole, rank: longer)
    first = point(users=3)
    is_asked = context == first.context  # what was asked for is not stretched
    answer = fit._pick(solver, spaces(Want(context)), [first])
    assert answer == (([longer], longer) if longest and not is_asked else ([first], first))
    beyond = next(c for c in context_grid(LONGEST) if c > first.context)
    assert asked == ([] if is_asked else [(first.arm, 3, (first.arm,), beyond)])
    assert fit._pick(solver, spaces(Want(context)), []) == ([], None)


# --- the choice ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefer", "second", "is_second"),
    [
        # within a tenth of the best the faster one; one band of speed counts as equal
        ("context", {"context": 3687, "speed": 6}, True), ("context", {"context": 3686, "speed": 6}, False),
        ("users", {"users": 9, "speed": 6}, True), ("users", {"users": 8, "speed": 6}, False),
        ("speed", {"speed": 4, "loss": -1.0}, True), ("speed", {"speed": 3, "loss": -1.0}, False),
        ("quality", {"loss": 0.4, "speed": 6}, True), ("quality", {"loss": 0.5, "speed": 6}, False),
        ("", {"loss": 0.4, "speed": 6}, True), ("", {"loss": 0.5, "speed": 6}, False),
    ],
)  # fmt: skip
def test_what_is_preferred_decides_beyond_a_tenth(prefer: str, second: dict[str, Any], is_second: bool) -> None:
    first, other = point(users=10), point(**{"users": 10, **second})
    for order in ([first, other], [other, first]):
        assert fit.choose(order, Want(prefer=prefer)) == (other if is_second else first)
    assert fit.choose([], Want()) is None


@pytest.mark.parametrize(
    ("want", "better", "worse"),
    [
        # what was not asked for decides: both asked, the quality first and then the tokens of all users
        (Want(1, 1), {"loss": 0.1}, {"loss": 0.2, "users": 9}), (Want(1, 1), {"users": 3}, {"context": 8192}),
        (Want(1, 0), {"users": 2}, {"context": 65536}), (Want(0, 1), {"context": 4097}, {"users": 9}),
        (Want(0, 0), {"context": 4097}, {"users": 9}), (Want(1, 0), {"context": 4097}, {"loss": 0.1}),
        (Want(), {"loss": 0.1}, {"loss": 0.2}), (Want(), {}, {"arm": Arm(NAME, tokens=1)}),
        (Want(), {}, {"arm": Arm(NAME, text_only=True), "speed": 9}),
        (Want(), {}, {"arm": Arm(NAME, prefix_off=True), "speed": 9}), (Want(), {"speed": 6}, {"users": 99}),
    ],
)  # fmt: skip
def test_then_what_was_not_asked_for(want: Want, better: dict[str, Any], worse: dict[str, Any]) -> None:
    points = [point(**better), point(**worse)]
    assert fit.choose(points, want) == fit.choose(points[::-1], want) == points[0]


def test_what_is_left_open_unless_somebody_says_otherwise() -> None:
    assert Options() == Options(
        ("auto", "fp8"), ("all", "few", "eager"), (False, True), (0, 1), (False, True), (0, 2048)
    )  # fmt: skip
    assert Want() == Want(0, 0, "", Options())
    assert Arm("a") == Arm("a", Layout(1, 1, False), "auto", False, False, False, 0, False, 0, 0)
