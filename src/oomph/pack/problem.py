"""Several services on several cards, as integers: what is chosen, and when a choice holds.

A service takes `gpus` cards and one of its options. An option takes `need` on each of its cards for good and must find
`start` free when it starts: vLLM compares its whole budget with what is free at that moment, and a load has a peak. So
the order of the starts matters wherever `start` is more than `need`.
"""

from collections.abc import Sequence

from msgspec import Struct


class Option(Struct, frozen=True):
    """One way to run a service; the sizes by card, in MiB."""

    need: tuple[int, ...]
    start: tuple[int, ...]
    value: int  # what it is worth: more requests at once are worth more
    host: int = 0  # MiB of host memory


class Service(Struct, frozen=True):
    name: str
    gpus: int
    options: tuple[Option, ...]
    fixed_cards: tuple[int, ...] = ()  # where the command says so (CUDA_VISIBLE_DEVICES)


class Problem(Struct, frozen=True):
    services: tuple[Service, ...]
    free: tuple[int, ...]  # MiB of each card that others do not hold
    host: int = -1  # MiB of host memory; -1 = not known


class Choice(Struct, frozen=True):
    cards: tuple[int, ...]
    option: int


class Solution(Struct, frozen=True):
    choices: tuple[Choice, ...]  # one for each service
    order: tuple[int, ...]  # services in the order in which they start
    value: int
    proven: bool = False  # nothing is worth more


def holds(problem: Problem, choices: Sequence[Choice], order: Sequence[int]) -> bool:
    """Whether every start finds what it asks for, and all services together have room."""
    occupied = [0] * len(problem.free)
    for index in order:
        choice = choices[index]
        option = problem.services[index].options[choice.option]
        if any(occupied[card] + option.start[card] > problem.free[card] for card in choice.cards):
            return False
        for card in choice.cards:
            occupied[card] += option.need[card]
    return all(use <= free for use, free in zip(occupied, problem.free, strict=True)) and _host_holds(problem, choices)


def _host_holds(problem: Problem, choices: Sequence[Choice]) -> bool:
    used = sum(s.options[c.option].host for s, c in zip(problem.services, choices, strict=True))
    return problem.host < 0 or used <= problem.host


def worth(problem: Problem, choices: Sequence[Choice]) -> int:
    return sum(s.options[c.option].value for s, c in zip(problem.services, choices, strict=True))


def is_valid(problem: Problem, solution: Solution) -> bool:
    """The check that every answer passes, whoever found it."""
    services = problem.services
    shaped = len(solution.choices) == len(services) and sorted(solution.order) == list(range(len(services)))
    return (
        shaped
        and all(
            len(set(choice.cards)) == service.gpus and (not service.fixed_cards or service.fixed_cards == choice.cards)
            for service, choice in zip(services, solution.choices, strict=True)
        )
        and holds(problem, solution.choices, solution.order)
        and worth(problem, solution.choices) == solution.value
    )
