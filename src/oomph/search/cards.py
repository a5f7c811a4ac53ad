"""cards(): which GPUs, and how many of each, serve a model, in the order that somebody who buys or rents wants."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from oomph.errors import CommandError, InputError
from oomph.facts import clouds, market
from oomph.facts.gpus import GpuRow, find, rows
from oomph.ir import Plan
from oomph.ir.objective import serving_objective
from oomph.ir.printed import Printed
from oomph.search.card import Card as Card, Search as Search, search_for
from oomph.search.prices import Against, Api, Load, Prices, against
from oomph.search.request import Want
from oomph.search.solve import Progress

SORTS = ("price", "speed", "memory")
CONTEXT = 8192  # where none is asked for
PER_TIER = 3  # cards of the same memory that are listed, bought or rented, the fastest first


class Cards(Printed, frozen=True):
    """What `oomph gpus MODEL` prints: which cards, and how many of each, serve a model."""

    model: str
    want: Want
    cards: tuple[Card, ...]
    looked_at: int
    plans: int
    more: bool  # there are more expensive ones
    sort: str = "memory"
    prices: Prices | None = None
    against: Against | None = None  # the first line beside an API
    interrupted: bool = False
    objective: str = ""  # by which each card's line is its best
    measure: str = ""  # the same in one line of a screen

    def in_short(self) -> str:
        first = f", the first {self.cards[0].count} x {self.cards[0].name}" if self.cards else ""
        return f"{self.model}: {len(self.cards)} choices{first}"


def cards(
    model: str,
    want: Want | None = None,
    *,
    engine: str = "",
    only: bool = False,
    prices: Prices | Mapping[str, float] | None = None,
    names: Sequence[str] = (),
    most: int = 12,
    sort: str = "",
    everything: bool = False,
    api: Api | None = None,
    load: Load | None = None,
    progress: Progress | None = None,
) -> Cards:
    """`prices`: of one card by name; only those are looked at. `names`: these cards only. `most`: lines, 0 = all.
    `sort`: price (needs prices), speed or memory. `everything`: also legacy and modified cards. `api`: what the first
    line costs beside it, for `load`."""
    want = want or Want()
    table = prices if isinstance(prices, Prices) or prices is None else Prices(prices)
    sort = sort or ("price" if table else "memory")
    if sort not in SORTS:
        raise CommandError(f"--sort {sort[:40]!r}: it is one of {', '.join(SORTS)}")
    if table is None and (sort == "price" or api is not None):
        raise CommandError(
            "no prices to sort by or to compare with", hint="--prices FILE: lines such as RTX 4090, 1599"
        )
    search = search_for(model, engine, only)
    if want.context > search.longest:
        raise InputError(f"--context {want.context:,} is more than the {search.longest:,} tokens that the model takes")
    want = replace(want, context=want.context or min(CONTEXT, search.longest), users=want.users or 1)
    priced = {find(name).name: price for name, price in table.prices.items()} if table else {}
    walk = _Walk(search, want, priced, most if sort != "speed" else 0, limited=not names and not priced)
    named = [find(name).name for name in names]
    candidates = list(_candidates(priced, named, search.least(want), search.least_capability, everything))
    more, interrupted = walk.run(candidates, progress)
    serving = sorted(walk.serving, key=lambda card: _order(card, sort))
    shown = _with_steps(serving[: most or len(serving)])
    beside = None
    if api is not None and table is not None and shown and shown[0].speed is not None and shown[0].price:
        beside = against(api, load or Load(), shown[0].speed, shown[0].price, rented=table.rented)
    objective = serving_objective(checkpoint=search.named, context=want.context, users=want.users)
    return Cards(
        model=model, want=want, cards=tuple(shown), looked_at=walk.looked, plans=walk.plans,
        more=more or len(serving) > len(shown), sort=sort, prices=table, against=beside, interrupted=interrupted,
        objective=objective.line,
        measure=objective.short,
    )  # fmt: skip


class _Walk:
    """From card to card, the smallest number of each that serves."""

    def __init__(self, search: Search, want: Want, prices: Mapping[str, float], most: int, *, limited: bool) -> None:
        self.search, self.want, self.prices, self.most, self.limited = search, want, prices, most, limited
        self.serving: list[Card] = []
        self.looked = self.plans = 0

    def run(self, candidates: Sequence[tuple[float, GpuRow, int]], progress: Progress | None) -> tuple[bool, bool]:
        """(whether some were not looked at, whether it was stopped)."""
        done: set[str] = set()
        tiers: Counter[tuple[float, bool]] = Counter()
        try:
            for number, (memory, row, count) in enumerate(candidates):
                tier = (memory, market.is_rented(row.name))
                if row.name in done or (self.limited and tiers[tier] >= PER_TIER):
                    continue
                if self.most and len(self.serving) >= self.most:
                    return True, False
                if progress is not None:
                    progress(f"{count} x {row.name}", number, len(candidates))
                self.looked += 1
                price = self.prices[row.name] * count if self.prices else None
                card, plans = self.search.seek(row, count, price, self.want)
                self.plans += plans
                if card is not None:
                    self.serving.append(replace(card, instances=clouds.nearest(row.name, count)))
                    done.add(row.name)
                    tiers[tier] += 1
        except KeyboardInterrupt:
            return True, True
        return False, False


def _order(card: Card, sort: str) -> tuple[object, ...]:
    rate = card.speed.all_users if card.speed is not None else 0.0
    if sort == "price":
        return (card.price or 0.0, -rate, card.count, card.name)
    if sort == "speed":
        return (-rate, card.count, card.nominal_gb, card.name)
    return (card.count, card.nominal_gb, -rate, card.name)


def _weights(plan: Plan) -> int:
    return sum(rank.terms["weights"].bytes for rank in plan.ranks)


def _with_steps(cards: Sequence[Card]) -> list[Card]:
    """What each line buys beside the one before it."""
    out = list(cards[:1])
    for card in cards[1:]:
        before, gains = out[-1], []
        if card.speed and before.speed and card.speed.all_users > 1.1 * before.speed.all_users:
            gains.append(f"{card.speed.all_users / before.speed.all_users:.1f} times the speed")
        if card.users >= 2 * before.users:
            gains.append(f"{card.users / before.users:.0f} times the users")
        if card.longest >= 2 * before.longest:
            gains.append(f"{card.longest / before.longest:.0f} times the context")
        if _weights(card.plan) > 1.2 * _weights(before.plan):
            gains.append("weights in more bits")
        out.append(replace(card, step=", ".join(gains)))
    return out


def _candidates(
    prices: Mapping[str, float], names: Sequence[str], least: int, capability: tuple[int, int], everything: bool
) -> Iterator[tuple[float, GpuRow, int]]:
    """(price or GB, card, count), the cheapest first; of equals the fewer cards, then the faster."""
    out: list[tuple[tuple[float, ...], GpuRow, int]] = []
    for row in rows():
        if names and row.name not in names:
            continue
        if not names and (row.vendor != "nvidia" or row.capability < capability or "Laptop" in row.name):
            continue
        if prices and row.name not in prices:
            continue
        counts = market.EVERY if names or prices or everything else market.counts_of(row.name)
        for count in counts[:1] if row.unified else counts:
            if row.total_bytes * count >= least:
                memory = float(row.nominal_gb * count)
                tier = prices[row.name] * count if prices else memory
                first = (tier,) if prices else (float(count),)
                out.append(((*first, memory, count, -float(row.bandwidth)), row, count))
    ordered = sorted(out, key=lambda entry: (entry[0], entry[1].name))
    return (
        (prices[row.name] * count if prices else float(row.nominal_gb * count), row, count) for _, row, count in ordered
    )
