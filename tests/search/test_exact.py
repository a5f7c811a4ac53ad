"""The search against trying everything: random problems with the real planner. OOMPH_FIT_PROBLEMS=200 tries more."""

from __future__ import annotations

import os

import pytest
from msgspec.structs import replace
from problems import GRID, everything, problem

from oomph.answers.plan import run
from oomph.search.outcome import judge
from oomph.search.request import Arm
from oomph.search.solve import Point, dominates, pareto

PROBLEMS = int(os.environ.get("OOMPH_FIT_PROBLEMS", "80"))
PART = 20


@pytest.mark.parametrize("start", range(0, PROBLEMS, PART))
def test_front_is_the_front_of_everything(start: int) -> None:
    searched = tried = points = 0
    for seed in range(start, start + PART):
        solver, space = problem(seed)
        grid = tuple(c for c in GRID if c >= space.contexts[0]) if seed % 3 == 0 else ()
        front = solver.front(space, grid=grid)
        searched += solver.plans
        whole = everything(solver, space, grid)
        tried += solver.plans
        points += len(whole)
        assert {p.goals for p in front} == {p.goals for p in whole}, f"problem {seed}"
        for p in front:
            plan = run(solver.deployment(p.arm, p.context, p.users, p.utilisation), solver.models[p.arm.model])
            assert judge(plan, margin=solver.margin).kind == "ok"
            assert plan.fits
    assert points > PART  # the problems are not all hopeless
    assert searched * 3 < tried


def test_no_point_of_a_front_dominates_another() -> None:
    for seed in range(0, PROBLEMS, 20):
        solver, space = problem(seed)
        front = solver.front(space)
        for a in front:
            assert not any(dominates(b.goals, a.goals) for b in front if b is not a)


def test_equals_keep_the_shorter_command() -> None:
    plain = Point(arm=Arm("m"), context=4096, users=2, utilisation=0.9, quality=0.0, speed=5)
    longer = replace(plain, arm=Arm("m", tokens=2048))
    assert pareto([longer, plain]) == [plain]


def test_a_margin_is_never_more_generous() -> None:
    for seed in range(0, PROBLEMS, 10):
        solver, space = problem(seed)
        solver.margin = True
        careful = solver.front(space)
        bold, _ = problem(seed)
        bold.margin = False
        loose = bold.front(space)
        for p in careful:
            assert any(dominates(q.goals, p.goals) for q in loose), f"problem {seed}"
