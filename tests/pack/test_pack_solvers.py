"""Both solvers against every choice there is."""

from __future__ import annotations

import random
from itertools import combinations, permutations, product

import pytest

from oomph.pack import exact, plain
from oomph.pack.problem import Choice, Option, Problem, Service, holds, is_valid, worth

PROBLEMS = 300


def random_problem(seed: int) -> Problem:
    draw = random.Random(seed)
    cards = draw.randint(1, 4)
    totals = [draw.choice((24, 48, 80)) for _ in range(cards)]
    free = tuple(total - draw.choice((0, 0, 0, draw.randint(1, 10))) for total in totals)
    services = []
    for number in range(draw.randint(1, 4)):
        gpus = draw.choice([1, 1, 1, *range(1, cards + 1)])
        options = []
        for level in range(draw.randint(1, 2)):
            share = draw.uniform(0.1, 0.7) + 0.15 * level
            need = tuple(round(share * total) for total in totals)
            start = tuple(n + draw.choice((0, 0, draw.randint(0, 12))) for n in need)
            options.append(Option(need, start, 10 * level + draw.randint(0, 9), draw.randint(1, 20)))
        fixed = tuple(sorted(draw.sample(range(cards), gpus))) if draw.random() < 0.15 else ()
        services.append(Service(f"s{number}", gpus, tuple(options), fixed))
    return Problem(tuple(services), free, draw.choice((-1, -1, draw.randint(10, 60))))


def brute_force(problem: Problem) -> int | None:
    """The most that any choice is worth; None: none holds."""
    best: int | None = None
    places = [
        [service.fixed_cards] if service.fixed_cards else list(combinations(range(len(problem.free)), service.gpus))
        for service in problem.services
    ]
    orders = list(permutations(range(len(problem.services))))
    for options in product(*(range(len(service.options)) for service in problem.services)):
        for cards in product(*places):
            choices = [Choice(where, number) for where, number in zip(cards, options, strict=True)]
            value = worth(problem, choices)
            if (best is None or value > best) and any(holds(problem, choices, order) for order in orders):
                best = value
    return best


@pytest.fixture(scope="module")
def answers() -> list[tuple[Problem, int | None]]:
    return [(problem, brute_force(problem)) for problem in map(random_problem, range(PROBLEMS))]


def test_the_problems_are_of_both_kinds(answers: list[tuple[Problem, int | None]]) -> None:
    feasible = sum(value is not None for _, value in answers)
    assert 60 <= feasible <= PROBLEMS - 60


def test_cp_sat_equals_brute_force(answers: list[tuple[Problem, int | None]]) -> None:
    pytest.importorskip("ortools")
    for problem, best in answers:
        found = exact.solve(problem)
        assert (found.value if found else None) == best
        assert found is None or (found.proven and is_valid(problem, found))


def test_the_plain_search_equals_brute_force(answers: list[tuple[Problem, int | None]]) -> None:
    for problem, best in answers:
        found = plain.solve(problem)
        assert (found.value if found else None) == best
        assert found is None or is_valid(problem, found)


def test_the_order_decides() -> None:
    """Two services of 60 and 30 of 100: the one that asks for 75 while it starts has to be first."""
    large, small = Option((60,), (75,), 1), Option((30,), (35,), 1)
    problem = Problem((Service("small", 1, (small,)), Service("large", 1, (large,))), (100,))
    for found in (plain.solve(problem), exact.solve(problem) if exact.is_installed() else plain.solve(problem)):
        assert found is not None and found.order == (1, 0)
    late = [Choice((0,), 0), Choice((0,), 0)]
    assert not holds(problem, late, (0, 1))


def test_a_search_that_is_cut_short_proves_nothing() -> None:
    service = Service("one", 1, (Option((1,), (1,), 1),))
    problem = Problem((service,) * 5, (100,))
    found = plain.solve(problem, steps=4)
    assert found is None or not found.proven
