"""pack against trying everything: two services, every share in hundredths, every placement and order.

A tenth of the problems in a test run; OOMPH_REGRET=300 asks all sixty (`make long`). A failure names its seed.
"""

from __future__ import annotations

import os
import random
from itertools import combinations, permutations, product

import pytest

from oomph.answers.plan import parse
from oomph.ir import Deployment
from oomph.pack.fill import Filler
from oomph.pack.pack import _fixed, _free, pack
from oomph.pack.problem import Choice, Problem, Service, holds
from oomph.pack.services import MOST_SHARE, gpus_of
from oomph.sources.gpu import parse_gpus
from oomph.units import MIB

PROBLEMS = int(os.environ.get("OOMPH_REGRET", "30")) // 5
FROM = int(os.environ.get("OOMPH_REGRET_FROM", "0"))
MODELS = ("Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B", "Qwen/Qwen3-4B", "Qwen/Qwen3-32B-AWQ", "openai/gpt-oss-20b",
          "meta-llama/Llama-3.1-8B-Instruct")  # fmt: skip
MACHINES = ("H100", "2x H100", "RTX 4090", "2x RTX 4090", "L40S", "2x RTX 3090", "A100 80GB")


def problem(seed: int) -> tuple[dict[str, Deployment], str]:
    rng = random.Random(seed)
    machine = rng.choice(MACHINES)
    services = {}
    for name in ("first", "second"):
        words = f"vllm serve {rng.choice(MODELS)} --max-model-len 4096"
        words += f" --gpu-memory-utilization {rng.choice((0.1, 0.3, 0.5, 0.6, 0.8))}" if rng.random() < 0.6 else ""
        words += " -tp 2" if machine.startswith("2x") and rng.random() < 0.4 else ""
        services[name] = parse(words.split(), "")
    return services, machine


@pytest.mark.parametrize("seed", range(FROM, FROM + PROBLEMS))
def test_no_shares_keep_more_for_the_service_that_keeps_least(seed: int) -> None:
    services, machine = problem(seed)
    cards = parse_gpus(machine)
    answer = pack(services, cards)
    fixed = {name: _fixed(one, len(cards)) for name, one in services.items()}
    free = tuple(_free(card) // MIB for card in cards)
    filler = Filler(services, cards, (), fixed, free, -1)
    best = _best(filler, len(cards))
    if answer.as_written:
        assert all(each.share == each.written_share for each in answer.placed)
        return
    if answer.outcome == "close":  # nothing holds for certain, and these shares do as expected
        expected = Filler(services, cards, (), fixed, free, -1, certain=False)
        assert best is None and _best(expected, len(cards)) is not None, f"seed {seed}"
        return
    kept = min((_part(filler, each.name, each.share) for each in answer.placed), default=None)
    assert (kept is None) is (best is None), f"seed {seed}"
    if kept is not None and best is not None:
        assert kept >= best - 0.011, f"seed {seed}: {kept} of {best}"  # a hundredth of a level
        _assert_full(answer, filler, seed)


def _part(filler: Filler, name: str, share: float) -> float:
    """Of its wish; of its need where it has none, which no wish comes behind."""
    wish, least = filler.wish[name], filler.least[name]
    if wish >= least > 0:
        return share / wish
    return share / least if not wish else 1.0


def _best(filler: Filler, cards: int) -> float | None:
    """The most that the service keeps that keeps least, by trying everything."""
    names = list(filler.deployments)
    if not all(filler.least.values()):
        return None  # one does not even start alone
    shares = {
        n: [s / 100 for s in range(round(100 * filler.least[n]), round(100 * _top(filler, n)) + 1)] for n in names
    }
    ways = {n: {s: way for s in shares[n] if (way := filler.way(n, s)) is not None} for n in names}
    places = {n: list(combinations(range(cards), gpus_of(filler.deployments[n]))) for n in names}
    best = None
    for first, second in product(ways[names[0]], ways[names[1]]):
        part = min(_part(filler, names[0], first), _part(filler, names[1], second))
        if best is not None and part <= best:
            continue
        options = [ways[names[0]][first][1], ways[names[1]][second][1]]
        whole = Problem(
            tuple(Service(n, gpus_of(filler.deployments[n]), (o,)) for n, o in zip(names, options, strict=True)),
            filler.free,
        )
        for one, two in product(places[names[0]], places[names[1]]):
            choices = (Choice(one, 0), Choice(two, 0))
            if any(holds(whole, choices, order) for order in permutations(range(2))):
                best = part
                break
    return best


def _top(filler: Filler, name: str) -> float:
    return max(filler.wish[name], filler.least[name]) if filler.wish[name] else MOST_SHARE


def _assert_full(answer: object, filler: Filler, seed: int) -> None:
    """No share could still grow where it is."""
    from oomph.pack.pack import Packed

    assert isinstance(answer, Packed)
    order = tuple(range(len(answer.placed)))
    for place, each in enumerate(answer.placed):
        raised = round(each.share + 0.01, 2)
        before, after = filler.way(each.name, each.share), filler.way(each.name, raised)
        if raised > _top(filler, each.name) or before is None or after is None or after[1].value <= before[1].value:
            continue
        ways = [after if n == place else filler.way(p.name, p.share) for n, p in enumerate(answer.placed)]
        services = tuple(
            Service(p.name, len(p.cards), (way[1],)) for p, way in zip(answer.placed, ways, strict=True) if way
        )
        choices = tuple(Choice(p.cards, 0) for p in answer.placed)
        assert not holds(Problem(services, filler.free), choices, order), (
            f"seed {seed}: {each.name} could have {raised}"
        )
