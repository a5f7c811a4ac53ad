"""pack(): deployments on cards, placed, ordered and given their shares; every start planned again as it will be."""

from collections.abc import Mapping, Sequence
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from oomph.answers.plan import run
from oomph.errors import CannotPlan, OomphError
from oomph.ir import STAGE_WORDS, Deployment, Device, Outcome, Plan
from oomph.ir.printed import Printed
from oomph.pack import exact, plain
from oomph.pack.fill import OBJECTIVE, Filler, Progress
from oomph.pack.problem import Option, Problem, Solution, holds
from oomph.pack.services import Planned, gpus_of, serving_bytes, with_share, written_share
from oomph.units import MIB, gib

_CLOSE = "all of them hold where every uncertain term is as expected, and not for certain: these are the least shares"
STEPS = 20_000  # of a plain search, before OR-Tools is asked


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
    interrupted: bool = False  # the search was stopped: the best so far
    objective: str = OBJECTIVE.line  # by which nothing better exists
    measure: str = OBJECTIVE.short  # the same in one line of a screen

    def in_short(self) -> str:
        return f"{len(self.placed)} services on {len(self.cards)} GPUs: {self.outcome}"

    def free_of(self, card: int) -> int:
        occupied = sum(each.bytes_per_card for each in self.placed if card in each.cards)
        return self.cards[card].total_bytes - self.cards[card].used_bytes - occupied


def pack(
    deployments: Mapping[str, Deployment],
    cards: Sequence[Device],
    *,
    ram: int = 0,
    asleep: Sequence[str] = (),
    solver: str = "",
    progress: Progress | None = None,
) -> Packed:
    """`deployments` by name. `asleep`: names of those that sleep while the others run. `solver`: "" the best there is,
    "plain" or "cp-sat". `progress` is told what is tried; with it, Ctrl-C ends the search with the best so far."""
    cards = tuple(cards)
    for name, deployment in deployments.items():
        if gpus_of(deployment) > len(cards):
            reason = f"{name} needs {gpus_of(deployment)} GPUs, and there are {len(cards)}"
            return Packed(cards, (), "fails", reasons=(reason,))
    solve = _Solver(solver)
    fixed = {name: _fixed(deployment, len(cards)) for name, deployment in deployments.items()}
    free = tuple(_free(card) // MIB for card in cards)
    host = ram // MIB if ram else -1
    filler = Filler(deployments, cards, asleep, fixed, free=free, host=host, progress=progress)
    written = filler.problem(dict.fromkeys(deployments, 0.0))
    solution = solve(written[1]) if written is not None else None
    if written is not None and solution is not None:
        solution = in_written_order(written[1], solution)
        answer = _answer(deployments, written[0], cards, ram, asleep, solution, solve.method, written=True)
        if answer.outcome != "fails":
            return answer
    alone = next((name for name in deployments if filler.way(name, filler.share(name, 0.0)) is None), "")
    filled = filler.fill(solve) if not alone else None
    # budgets that count neighbours (up to 0.9.0) leave the most room when everybody takes the least
    for tried in (filled, filler.at(0.0, solve) if not alone else None):
        if tried is None:
            continue
        task = filler.problem({name: way[0].share if filler.least[name] else 0.0 for name, way in tried.ways.items()})
        order = in_written_order(task[1], tried.solution) if task is not None else tried.solution
        answer = _answer(deployments, tried.ways, cards, ram, asleep, order, solve.method, written=False)
        if answer.outcome != "fails":
            return replace(answer, proven=solve.proven and not filler.stopped, interrupted=filler.stopped)
    near = Filler(deployments, cards, asleep, fixed, free=free, host=host, progress=progress, certain=False)
    expected = near.at(0.0, solve)
    if expected is not None:
        answer = _answer(deployments, expected.ways, cards, ram, asleep, expected.solution, solve.method, written=False)
        if answer.outcome == "close":
            return replace(answer, proven=False, notes=(_CLOSE,))
    if alone:
        return Packed(cards, (), "fails", reasons=(_why_alone(alone, deployments[alone], cards),))
    least = {name: way for name in deployments if (way := near.way(name, near.share(name, 0.0))) is not None}
    return Packed(cards, (), "fails", False, solve.method, solve.proven, reasons=_why_not(least, cards, ram))


def in_written_order(problem: Problem, solution: Solution) -> Solution:
    """The services in the order in which they were named, where that order works too."""
    written = tuple(range(len(problem.services)))
    return replace(solution, order=written) if holds(problem, solution.choices, written) else solution


class _Solver:
    """A plain search while it ends by itself; OR-Tools where it does not, or where it is asked for."""

    def __init__(self, name: str) -> None:
        if name == "cp-sat" and not exact.is_installed():
            raise CannotPlan("OR-Tools is not installed", hint="pip install 'oomph[pack]'")
        self.name = name
        self.method = "CP-SAT" if name == "cp-sat" else "plain search"
        self.proven = True  # every answer so far, also that nothing holds

    def __call__(self, problem: Problem) -> Solution | None:
        solution, ended = (None, False) if self.name == "cp-sat" else plain.solve_or_stop(problem, steps=STEPS)
        if ended:
            return solution
        if self.name != "plain" and exact.is_installed():
            self.method = "CP-SAT"
            return exact.solve(problem)
        self.proven = False
        return solution


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
    """The cards that the command or its container names, where it names as many as it needs: they are no wish."""
    named = deployment.gpu_ids or deployment.environment.get("CUDA_VISIBLE_DEVICES", "")
    listed = named.replace(" ", "").split(",")
    if not all(part.isascii() and part.isdigit() and int(part[:4]) < count for part in listed):
        return ()
    numbers = tuple(dict.fromkeys(int(part) for part in listed))
    return tuple(sorted(numbers[: gpus_of(deployment)])) if len(numbers) >= gpus_of(deployment) else ()


def _answer(
    deployments: Mapping[str, Deployment],
    ways: Mapping[str, tuple[Planned, Option]],
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
        planned, option = ways[name]
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
                deployment=deployment,
                cards=choice.cards,
                place=place,
                plan=plan,
                share=share,
                written_share=written_share(deployments[name]),
                asleep=sleeps,
                bytes_per_card=own,
            )
        )
        for card in choice.cards:
            used[card] += own
    outcomes: list[Outcome] = [each.outcome for each in placed]
    worst = max(outcomes, key=("fits", "at_risk", "close", "fails").index)
    host = sum(option.host for _, option in ways.values()) * MIB
    return Packed(
        cards,
        placed=tuple(placed),
        outcome=worst,
        as_written=written,
        method=method,
        proven=solution.proven,
        host_bytes=host,
        ram_bytes=ram,
    )


def _beside_neighbours(deployment: Deployment, plan: Plan, share: float) -> tuple[Deployment, Plan, float]:
    """Up to vLLM 0.9.0 a budget counts what neighbours hold: the share of a later server is that much larger."""
    used = max(card.used_bytes / card.total_bytes for card in deployment.gpus)
    raised = with_share(deployment, min(0.98, ceil(100 * (share + used)) / 100))
    again = run(replace(raised, ram_bytes=0))
    return (deployment, plan, share) if again.verdict.outcome == "fails" else (raised, again, written_share(raised))


def _why_alone(name: str, deployment: Deployment, cards: Sequence[Device]) -> str:
    """Why it does not start, and the first change that its own plan has found to start."""
    from oomph.answers.plan import plan as plan_with_advice

    largest = max(cards, key=lambda card: card.total_bytes - card.used_bytes)
    try:
        plan = plan_with_advice(replace(deployment, gpus=(largest,) * gpus_of(deployment)))
    except OomphError as refused:
        return f"{name} cannot be planned: {refused.message}"
    verdict = plan.verdict
    why = verdict.message.partition("\n")[0] or "too close to call"
    if verdict.short_bytes and verdict.stage:
        why = f"out of memory {STAGE_WORDS[verdict.stage][1]}, {gib(verdict.short_bytes)} short"
    fixes = plan.advice.fixes if plan.advice is not None else ()
    fix = next((fix for fix in fixes if fix.change.kind != "hardware"), None)
    return f"{name} does not start even alone on {largest.name}: {why}" + (
        f". It starts as: {fix.command}" if fix else ""
    )


def _cache_bytes(plan: Plan) -> int:
    """Of one request of the whole context, on all GPUs."""
    return plan.kv.need_bytes * len(plan.ranks) if plan.kv is not None else 0


def _why_not(ways: Mapping[str, tuple[Planned, Option]], cards: Sequence[Device], ram: int) -> tuple[str, ...]:
    """The least that all of them take together against what there is."""
    least = {name: min(option.need) for name, (_, option) in ways.items()}
    gpus = {name: gpus_of(planned.deployment) for name, (planned, _) in ways.items()}
    total = sum(size * gpus[name] for name, size in least.items()) / 1024
    free = sum(_free(card) for card in cards) / (1 << 30)
    parts = ", ".join(f"{name} {size / 1024:.1f} GiB" for name, size in least.items())
    lines = [f"together they take at least {total:.1f} GiB of {free:.1f}: {parts}"]
    caches = {name: max(_cache_bytes(plan) for plan in planned.plans.values()) for name, (planned, _) in ways.items()}
    if sum(caches.values()) > (total - free) * (1 << 30):
        named = ", ".join(f"{name} {gib(size)}" for name, size in caches.items() if size)
        lines.append(f"the cache of one request of the whole context takes {named} of that: a shorter one needs less")
    host = sum(option.host for _, option in ways.values())
    if ram and host * MIB > ram:
        lines.append(f"they take at least {host / 1024:.1f} GiB of host memory, and there are {ram / (1 << 30):.1f}")
    return tuple(lines)
