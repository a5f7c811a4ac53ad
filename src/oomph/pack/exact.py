"""The best answer, by OR-Tools CP-SAT."""

from importlib.util import find_spec
from typing import Any

from oomph.pack.problem import Choice, Problem, Solution

SECONDS = 20.0
_WORKERS = 2


def is_installed() -> bool:
    return find_spec("ortools") is not None


def solve(problem: Problem, *, seconds: float = SECONDS) -> Solution | None:
    """None: nothing fits, which is proven. Where time runs out the best that was found, unproven."""
    from ortools.sat.python import cp_model

    model: Any = cp_model.CpModel()
    services, cards = problem.services, range(len(problem.free))
    on = [[model.NewBoolVar(f"on {i} {c}") for c in cards] for i in range(len(services))]
    uses = [[model.NewBoolVar(f"uses {i} {k}") for k in range(len(s.options))] for i, s in enumerate(services)]
    before = _orders(model, len(services))
    for i, service in enumerate(services):
        model.Add(sum(on[i]) == service.gpus)
        model.AddExactlyOne(uses[i])
        for card in cards if service.fixed_cards else ():
            model.Add(on[i][card] == int(card in service.fixed_cards))
    takes = [[_product(model, on[i], uses[i], service, card) for card in cards] for i, service in enumerate(services)]
    for card in cards:
        model.Add(sum(takes[i][card] for i in range(len(services))) <= problem.free[card])
        for i, service in enumerate(services):
            earlier = [_if(model, before[j][i], takes[j][card], problem, j, card) for j in _others(i, len(services))]
            start = sum(uses[i][k] * option.start[card] for k, option in enumerate(service.options))
            model.Add(sum(earlier) + start <= problem.free[card]).OnlyEnforceIf(on[i][card])
    if problem.host >= 0:
        host = [uses[i][k] * o.host for i, s in enumerate(services) for k, o in enumerate(s.options)]
        model.Add(sum(host) <= problem.host)
    model.Maximize(sum(uses[i][k] * o.value for i, s in enumerate(services) for k, o in enumerate(s.options)))
    solver: Any = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds, solver.parameters.num_workers = seconds, _WORKERS
    status = solver.Solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    choices = tuple(
        Choice(
            tuple(card for card in cards if solver.Value(on[i][card])),
            next(k for k in range(len(service.options)) if solver.Value(uses[i][k])),
        )
        for i, service in enumerate(services)
    )
    rank = [sum(solver.Value(before[j][i]) for j in _others(i, len(services))) for i in range(len(services))]
    order = tuple(sorted(range(len(services)), key=lambda i: rank[i]))
    return Solution(choices, order, round(solver.ObjectiveValue()), status == cp_model.OPTIMAL)


def _others(index: int, count: int) -> list[int]:
    return [j for j in range(count) if j != index]


def _orders(model: Any, count: int) -> list[list[Any]]:
    """before[i][j], of a total order."""
    before = [[model.NewBoolVar(f"{i} before {j}") for j in range(count)] for i in range(count)]
    for i in range(count):
        model.Add(before[i][i] == 0)
        for j in range(i):
            model.Add(before[i][j] + before[j][i] == 1)
            for k in _others(i, count):
                if k != j:
                    model.AddBoolOr(before[i][j].Not(), before[j][k].Not(), before[i][k])
                    model.AddBoolOr(before[j][i].Not(), before[i][k].Not(), before[j][k])
    return before


def _product(model: Any, on: list[Any], uses: list[Any], service: Any, card: int) -> Any:
    """What a service takes of a card: the need of its option where it is on it, else nothing."""
    most = max(option.need[card] for option in service.options)
    taken = model.NewIntVar(0, most, "")
    need = sum(uses[k] * option.need[card] for k, option in enumerate(service.options))
    model.Add(taken == need).OnlyEnforceIf(on[card])
    model.Add(taken == 0).OnlyEnforceIf(on[card].Not())
    return taken


def _if(model: Any, condition: Any, taken: Any, problem: Problem, service: int, card: int) -> Any:
    most = max(option.need[card] for option in problem.services[service].options)
    there = model.NewIntVar(0, most, "")
    model.Add(there == taken).OnlyEnforceIf(condition)
    model.Add(there == 0).OnlyEnforceIf(condition.Not())
    return there
