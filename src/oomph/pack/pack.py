"""pack(): deployments on cards, placed, ordered and given their shares; every start planned again as it will be."""

from collections.abc import Callable, Mapping, Sequence
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from oomph.answers.plan import run
from oomph.errors import CannotPlan, OomphError
from oomph.ir import Deployment, Device, Outcome, Plan
from oomph.ir.printed import Printed
from oomph.pack import exact, plain
from oomph.pack.problem import Option, Problem, Service, Solution, holds
from oomph.pack.services import (
    Planned,
    gpus_of,
    planned_options,
    serving_bytes,
    with_share,
    written_share,
)
from oomph.units import MIB

Solve = Callable[[Problem], Solution | None]


class Placed(Struct, frozen=True):
    """One service, where it goes and how it starts."""

    name: str
    deployment: Deployment  # with its share
    cards: tuple[int, ...]
    place: int  # in the order of the starts, from 0
    plan: Plan  # on its cards as they are when it starts
    share: float  # of the card's memory; 0: the engine has none
    written_share: float
    asleep: bool = False
    bytes_per_card: int = 0  # while it serves, at the upper end; asleep: what stays

    @property
    def outcome(self) -> Outcome:
        return self.plan.verdict.outcome


class Packed(Printed, frozen=True):
    """What `oomph pack` prints: several services on one machine, where each goes and how it starts."""

    cards: tuple[Device, ...]
    placed: tuple[Placed, ...]  # in the order of the starts; () where nothing fits
    outcome: Outcome
    as_written: bool = False  # no share has to change
    method: str = ""  # "CP-SAT" or "plain search"
    proven: bool = False
    host_bytes: int = 0  # of all together
    ram_bytes: int = 0
    reasons: tuple[str, ...] = ()  # why it does not fit
    notes: tuple[str, ...] = ()

    def in_short(self) -> str:
        return f"{len(self.placed)} services on {len(self.cards)} GPUs: {self.outcome}"

    def free_of(self, card: int) -> int:
        taken = sum(each.bytes_per_card for each in self.placed if card in each.cards)
        return self.cards[card].total_bytes - self.cards[card].used_bytes - taken


def pack(
    deployments: Mapping[str, Deployment],
    cards: Sequence[Device],
    *,
    ram: int = 0,
    asleep: Sequence[str] = (),
    solver: str = "",
) -> Packed:
    """`deployments` by name. `asleep`: names of those that sleep while the others run. `solver`: "" the best there is,
    "plain" or "cp-sat"."""
    cards = tuple(cards)
    ways: dict[str, list[tuple[Planned, Option]]] = {}
    for name, deployment in deployments.items():
        if gpus_of(deployment) > len(cards):
            reason = f"{name} needs {gpus_of(deployment)} GPUs, and there are {len(cards)}"
            return Packed(cards, (), "fails", reasons=(reason,))
        ways[name] = planned_options(deployment, cards, asleep=name in asleep)
        if not ways[name]:
            return Packed(cards, (), "fails", reasons=(_why_alone(name, deployment, cards),))
    solve, method = _solver(solver)
    for written in (True, False):
        problem = _problem(deployments, ways, cards, ram, written=written)
        solution = solve(problem) if problem is not None else None
        if solution is not None and problem is not None:
            solution = in_written_order(problem, solution)
            answer = _answer(deployments, ways, cards, ram, asleep, solution, method, written=written)
            if answer.outcome != "fails":
                return answer
    # budgets that count neighbours (up to 0.9.0) leave the most room when everybody takes the least
    least = {name: [min(options, key=lambda way: max(way[1].need))] for name, options in ways.items()}
    problem = _problem(deployments, least, cards, ram, written=False)
    solution = solve(problem) if problem is not None else None
    if solution is not None:
        answer = _answer(deployments, least, cards, ram, asleep, solution, method, written=False)
        if answer.outcome != "fails":
            return answer
    return Packed(cards, (), "fails", False, method, method == "CP-SAT", reasons=_why_not(ways, cards, ram))


def in_written_order(problem: Problem, solution: Solution) -> Solution:
    """The services in the order in which they were named, where that order works too."""
    written = tuple(range(len(problem.services)))
    return replace(solution, order=written) if holds(problem, solution.choices, written) else solution


def _solver(name: str) -> tuple[Solve, str]:
    if name == "cp-sat" and not exact.is_installed():
        raise CannotPlan("OR-Tools is not installed", hint="pip install 'oomph[pack]'")
    return (exact.solve, "CP-SAT") if name != "plain" and exact.is_installed() else (plain.solve, "plain search")


def _problem(
    deployments: Mapping[str, Deployment],
    ways: Mapping[str, list[tuple[Planned, Option]]],
    cards: Sequence[Device],
    ram: int,
    *,
    written: bool,
) -> Problem | None:
    """`written`: only the commands as they are. None where one of them does not start so."""
    services = []
    for name, alternatives in ways.items():
        options = tuple(option for planned, option in alternatives if planned.as_written or not written)
        if written and not alternatives[0][0].as_written:
            return None
        services.append(Service(name, gpus_of(deployments[name]), options, _fixed(deployments[name], len(cards))))
    free = tuple(_free(card) // MIB for card in cards)
    return Problem(tuple(services), free, ram // MIB if ram else -1)


def _beside(card: Device, used: int) -> Device:
    """The card as a start finds it; where the memory is the system's, what neighbours hold is gone from that too."""
    more = min(used, card.total_bytes) - card.used_bytes
    if card.system is None:
        return replace(card, used_bytes=card.used_bytes + more)
    low, usual, high = (
        min(card.system.total_bytes, size + more)
        for size in (card.system.used_low, card.system.used_bytes, card.system.used_high)
    )
    system = replace(card.system, used_low=low, used_bytes=usual, used_high=high)
    return replace(card, used_bytes=card.used_bytes + more, system=system)


def _free(card: Device) -> int:
    used = card.used_before
    return card.total_bytes - (used.high if card.system is None else used.bytes)


def _fixed(deployment: Deployment, count: int) -> tuple[int, ...]:
    """The cards that the command itself names, where it names as many as it needs."""
    listed = deployment.environment.get("CUDA_VISIBLE_DEVICES", "").replace(" ", "").split(",")
    if not all(part.isascii() and part.isdigit() and int(part[:4]) < count for part in listed):
        return ()
    numbers = tuple(dict.fromkeys(int(part) for part in listed))
    return tuple(sorted(numbers[: gpus_of(deployment)])) if len(numbers) >= gpus_of(deployment) else ()


def _answer(
    deployments: Mapping[str, Deployment],
    ways: Mapping[str, list[tuple[Planned, Option]]],
    cards: tuple[Device, ...],
    ram: int,
    asleep: Sequence[str],
    solution: Solution,
    method: str,
    *,
    written: bool,
) -> Packed:
    names = list(ways)
    used = [card.used_bytes for card in cards]
    placed: list[Placed] = []
    for place, index in enumerate(solution.order):
        name, choice = names[index], solution.choices[index]
        planned, option = ways[name][choice.option]
        gpus = tuple(_beside(cards[card], used[card]) for card in choice.cards)
        numbers = ",".join(map(str, choice.cards))
        seen = {**planned.deployment.environment, **({"CUDA_VISIBLE_DEVICES": numbers} if len(cards) > 1 else {})}
        deployment = replace(planned.deployment, gpus=gpus, environment=seen)
        plan = run(replace(deployment, ram_bytes=0))
        share = planned.share
        if plan.verdict.outcome == "fails" and share and not written:
            deployment, plan, share = _beside_neighbours(deployment, plan, share)
        sleeps = name in asleep
        shared = gpus[0].system is not None
        needs = [serving_bytes(rank, shared=shared) for rank in plan.ranks]
        own = option.need[choice.cards[0]] * MIB if sleeps else max(needs)
        placed.append(
            Placed(
                name,
                deployment,
                choice.cards,
                place,
                plan,
                share,
                written_share(deployments[name]),
                sleeps,
                own,
            )
        )
        for card in choice.cards:
            used[card] += own
    outcomes: list[Outcome] = [each.outcome for each in placed]
    worst = max(outcomes, key=("fits", "at_risk", "close", "fails").index)
    host = sum(ways[n][solution.choices[i].option][1].host for i, n in enumerate(names)) * MIB
    return Packed(cards, tuple(placed), worst, written, method, solution.proven, host, ram)


def _beside_neighbours(deployment: Deployment, plan: Plan, share: float) -> tuple[Deployment, Plan, float]:
    """Up to vLLM 0.9.0 a budget counts what neighbours hold: the share of a later server is that much larger."""
    used = max(card.used_bytes / card.total_bytes for card in deployment.gpus)
    raised = with_share(deployment, min(0.98, ceil(100 * (share + used)) / 100))
    again = run(replace(raised, ram_bytes=0))
    return (deployment, plan, share) if again.verdict.outcome == "fails" else (raised, again, written_share(raised))


def _why_alone(name: str, deployment: Deployment, cards: Sequence[Device]) -> str:
    largest = max(cards, key=lambda card: card.total_bytes - card.used_bytes)
    try:
        plan = run(replace(deployment, gpus=(largest,) * gpus_of(deployment)))
    except OomphError as refused:
        return f"{name} cannot be planned: {refused.message}"
    return f"{name} does not start even alone on {largest.name}: {plan.verdict.message or 'too close to call'}"


def _why_not(ways: Mapping[str, list[tuple[Planned, Option]]], cards: Sequence[Device], ram: int) -> tuple[str, ...]:
    """The least that all of them take together against what there is."""
    least = {name: min(min(option.need) for _, option in found) for name, found in ways.items()}
    gpus = {name: gpus_of(found[0][0].deployment) for name, found in ways.items()}
    total = sum(size * gpus[name] for name, size in least.items()) / 1024
    free = sum(_free(card) for card in cards) / (1 << 30)
    parts = ", ".join(f"{name} {size / 1024:.1f} GiB" for name, size in least.items())
    lines = [f"together they take at least {total:.1f} GiB of {free:.1f}: {parts}"]
    host = sum(min(option.host for _, option in found) for found in ways.values())
    if ram and host * MIB > ram:
        lines.append(f"they take at least {host / 1024:.1f} GiB of host memory, and there are {ram / (1 << 30):.1f}")
    return tuple(lines)
