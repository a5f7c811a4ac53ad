"""The steps of fit() by themselves: which arms, contexts and users a solver is asked for (`make mutants`)."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from oomph.answers.plan import load
from oomph.search import fit
from oomph.search.fit import pick_for
from oomph.search.request import Arm, Layout, Options, Space, Spaces, Want, base_of
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
        self.stopped = stopped
        self.models: dict[str, Any] = {NAME: replace(load(NAME), num_kv_heads=heads)}

    def front(self, space: Space, *, grid: Any = ()) -> list[Point]:
        self.asked.append((space, tuple(grid)))
        return self.answers.pop(0) if self.answers else []


def point(arm: Arm = Arm(NAME), context: int = 4096, users: int = 1, speed: int = 5, loss: float = 0.0) -> Point:  # noqa: B008
    return Point(arm=arm, context=context, users=users, utilisation=0.9, quality=loss, speed=speed)


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
    fit._front(solver, space(count), (4096,), point())
    assert (solver.asked[0][0] == space(count)) is is_whole
    assert all(grid == (4096,) for _, grid in solver.asked)


@pytest.mark.parametrize(("contexts", "places"), [(1, [0]), (4, [0, 2, 3]), (5, [0, 2, 4]), (7, [0, 3, 6])])
def test_a_large_space_first_at_fewer_contexts_then_with_one_small_flag(contexts: int, places: list[int]) -> None:
    solver: Any = Asked([point()], [point(users=9)])
    front = fit._front(solver, space(60, contexts), (), point())
    plain, opened = (asked for asked, _ in solver.asked)
    assert list(plain.contexts) == list(opened.contexts) == [1024 << place for place in places]
    assert plain.arms == (Arm(NAME, Layout(2)),)  # no GPU is idle
    assert opened.arms == (Arm(NAME, eager=True),)  # one flag more, in the layout of the best
    assert front == [point(users=9)]


def test_small_flags_are_opened_for_the_layout_of_the_pick_alone() -> None:
    wide = point(Arm(NAME, Layout(2)), users=9, speed=1)
    arms = (Arm(NAME, Layout(2), eager=True), Arm("another", eager=True))
    solver: Any = Asked([point(), wide], [])
    solver.models["another"] = solver.models[NAME]
    whole = space(60)
    fit._front(solver, replace(whole, arms=(*whole.arms, *arms)), (), point())
    assert solver.asked[1][0].arms == (Arm(NAME, eager=True),)


def test_a_large_space_in_which_no_plain_arm_fits_is_searched_whole_and_one_that_is_stopped_no_further() -> None:
    solver: Any = Asked([], [point()])
    assert fit._front(solver, space(60), (), point()) == [point()] and solver.asked[1][0] == space(60)
    solver = Asked([point()], stopped=True)
    assert fit._front(solver, space(60), (), point()) == [point()] and len(solver.asked) == 1
    flags = tuple(Arm(NAME, tokens=number + 1) for number in range(60))
    solver = Asked([point()])
    assert fit._front(solver, replace(space(60), arms=flags), (), point()) == [point()] and len(solver.asked) == 1


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


def test_what_is_left_open_unless_somebody_says_otherwise() -> None:
    assert Options() == Options(
        ("auto", "fp8"), ("all", "few", "eager"), (False, True), (0, 1), (False, True), (0, 2048)
    )  # fmt: skip
    assert Want() == Want(0, 0, "", Options())
    assert Arm("a") == Arm("a", Layout(1, 1, False), "auto", False, False, False, 0, False, 0, 0)


def test_users_that_are_preferred_are_counted_and_not_rounded_down_to_a_level() -> None:
    """31 of 8,192 tokens fit with room for a screen; a level of 30 made it an answer without that room."""
    best = pick_for("Qwen/Qwen3-4B", parse_gpus("RTX 5090"), Want(8192, 8, "users"), "trtllm")
    assert best is not None and not best.point.arm.empty
    assert best.point.users == min(int(best.point.concurrency), best.point.limit)


def test_a_limit_of_256_holds_more_than_the_highest_level() -> None:
    """Levels end at 229 users, and a bound of so many hid a layout with graphs that holds as many as one without."""
    best = pick_for("openai/gpt-oss-20b", parse_gpus("4x RTX 3090"), Want(0, 8, "users"), "sglang")
    assert best is not None and not best.point.arm.eager and best.point.users >= 255


def test_a_cache_at_risk_for_one_request_gets_a_higher_share() -> None:
    """TensorRT-LLM's share is of what the weights leave: a low one is no sign that the card is too full."""
    best = pick_for("Qwen/Qwen2.5-14B-Instruct", parse_gpus("2x RTX 3090"), Want(32768, 1), "trtllm")
    assert best is not None and not best.point.arm.tokens and best.point.utilisation > 0.9
