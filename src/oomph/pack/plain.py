"""Without OR-Tools: depth first through options and cards, the most valuable first, with a bound on the work."""

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations

from oomph.pack.problem import Choice, Problem, Service, Solution, holds, worth

MOST_STEPS = 200_000
_ALL_ORDERS = 5  # up to so many services every order is tried


def solve(problem: Problem, *, steps: int = MOST_STEPS) -> Solution | None:
    """The best that was found; `proven` where the search ended by itself."""
    return solve_or_stop(problem, steps=steps)[0]


def solve_or_stop(problem: Problem, *, steps: int = MOST_STEPS) -> tuple[Solution | None, bool]:
    """(the best that was found, whether the search ended by itself with every order tried)."""
    search = _Search(problem, steps)
    search.descend(0, [], [0] * len(problem.free), 0)
    return search.answer(), search.steps > 0 and len(problem.services) <= _ALL_ORDERS


class _Search:
    def __init__(self, problem: Problem, steps: int) -> None:
        self.problem = problem
        self.steps = steps
        self.best: Solution | None = None
        # the largest first: what is hard to place is placed while there is room
        least = [min(min(option.need) for option in service.options) for service in problem.services]
        self.sequence = sorted(range(len(problem.services)), key=lambda i: -least[i] * problem.services[i].gpus)
        top = [max(option.value for option in problem.services[i].options) for i in self.sequence]
        self.above = [sum(top[depth:]) for depth in range(len(top) + 1)]
        self.kinds = _kinds(problem)

    def answer(self) -> Solution | None:
        if self.best is None:
            return None
        proven = self.steps > 0 and len(self.problem.services) <= _ALL_ORDERS
        return Solution(self.best.choices, self.best.order, self.best.value, proven)

    def descend(self, depth: int, chosen: list[Choice], taken: list[int], value: int) -> None:
        self.steps -= 1
        if self.steps <= 0 or (self.best is not None and value + self.above[depth] <= self.best.value):
            return
        if depth == len(self.sequence):
            self._keep(chosen)
            return
        service = self.problem.services[self.sequence[depth]]
        for number in sorted(range(len(service.options)), key=lambda k: -service.options[k].value):
            option = service.options[number]
            for cards in self._unlike(service, taken):
                if any(taken[card] + option.need[card] > self.problem.free[card] for card in cards):
                    continue
                if any(option.start[card] > self.problem.free[card] for card in cards):
                    continue
                after = [use + (option.need[card] if card in cards else 0) for card, use in enumerate(taken)]
                self.descend(depth + 1, [*chosen, Choice(cards, number)], after, value + option.value)

    def _unlike(self, service: Service, taken: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Of placements on cards that are alike, with as much in use, the first."""
        seen: set[tuple[tuple[object, int], ...]] = set()
        for cards in _placements(service, taken, self.problem.free):
            signature = tuple(sorted(((self.kinds[card], taken[card]) for card in cards), key=repr))
            if signature not in seen:
                seen.add(signature)
                yield cards

    def _keep(self, chosen: Sequence[Choice]) -> None:
        choices = [choice for _, choice in sorted(zip(self.sequence, chosen, strict=True), key=lambda pair: pair[0])]
        for order in _orders(self.problem, choices):
            if holds(self.problem, choices, order):
                self.best = Solution(tuple(choices), tuple(order), worth(self.problem, choices))
                return


def _kinds(problem: Problem) -> list[object]:
    """Cards that no service tells apart are of one kind."""
    options = [option for service in problem.services for option in service.options]
    named = [service.fixed_cards for service in problem.services if service.fixed_cards]
    return [
        (
            problem.free[card],
            tuple((option.need[card], option.start[card]) for option in options),
            tuple(card in cards for cards in named),
        )
        for card in range(len(problem.free))
    ]


def _placements(service: Service, taken: Sequence[int], free: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Cards with the most room first."""
    if service.fixed_cards:
        yield service.fixed_cards
        return
    cards = sorted(range(len(free)), key=lambda card: taken[card] - free[card])
    yield from (tuple(sorted(subset)) for subset in combinations(cards, service.gpus))


def _orders(problem: Problem, choices: Sequence[Choice]) -> Iterator[tuple[int, ...]]:
    """First those that give back the most after their start: on one card no other order can do better."""

    def given_back(index: int) -> int:
        option = problem.services[index].options[choices[index].option]
        return max((option.start[card] - option.need[card] for card in choices[index].cards), default=0)

    greedy = tuple(sorted(range(len(choices)), key=lambda index: -given_back(index)))
    yield greedy
    if len(choices) <= _ALL_ORDERS:
        yield from permutations(range(len(choices)))
