"""cards(): which GPUs, and how many of each, serve a model, in the order that somebody who buys or rents wants."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph import catalog
from oomph.catalog.facts import facts as catalogue_facts
from oomph.commands import to_shell
from oomph.engines.registry import FILES, engine_named, engine_of
from oomph.errors import CommandError, InputError
from oomph.facts import clouds, market
from oomph.facts.gpus import GpuRow, find, rows
from oomph.ir import Model, Plan
from oomph.ir.objective import serving_objective
from oomph.ir.printed import Printed
from oomph.search.best import Best, BestFirst, objective_of, plan_speed
from oomph.search.candidates import Candidate, candidates as candidates_of
from oomph.search.fit import describe
from oomph.search.prices import Against, Api, Load, Prices, against
from oomph.search.request import (
    Options,
    Spaces,
    Want,
    base_of,
    context_grid,
    engine_name,
    least_weights,
    models_of,
)
from oomph.search.score import token_bytes
from oomph.search.screen import with_screen
from oomph.search.solve import Progress, Solver
from oomph.search.trial import Trial
from oomph.simulate.speed import Speed
from oomph.sources.load import load_once

SORTS = ("price", "speed", "memory")
CONTEXT = 8192  # where none is asked for
# CUDA 13, with which recent wheels are built, has no Volta and older. A card that is named is looked at anyway.
_LEAST_CAPABILITY = (7, 5)
PER_TIER = 3  # cards of the same memory that are listed, bought or rented, the fastest first
LEAST_RECOVERY = 0.95  # chosen: a file in fewer than four bits is no reason to buy a card
_OPTIONS = Options(drafts=(0,))


class Card(Struct, frozen=True):
    """So many of one card, and the best checkpoint that they serve."""

    name: str
    count: int
    memory_bytes: int  # of all together, as the driver reports it
    nominal_gb: int
    price: float | None  # of all together
    checkpoint: str
    note: str  # layout and what is given up, shortly
    command: str
    plan: Plan
    headroom_bytes: int  # on the tightest GPU in its tightest stage, at the unfavourable end of every interval
    users: int  # of the asked context
    longest: int  # context for the asked users
    engine: str = "vllm"
    speed: Speed | None = None  # None: nobody knows how fast the card is
    instances: tuple[str, ...] = ()  # of clouds, with as many of these cards or the next more
    step: str = ""  # what it buys beside the line before it


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
    search = _search(model, engine, only)
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

    def __init__(self, search: "Search", want: Want, prices: Mapping[str, float], most: int, *, limited: bool) -> None:
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


Seek = Callable[[GpuRow, int, "float | None", Want], "tuple[Card | None, int]"]  # -> a card, and plans made for it


class Search(Struct, frozen=True):
    """How one model is looked for on cards."""

    seek: Seek
    least_bytes: int  # of weights: cards with less, and with less than these and the cache, are not looked at
    longest: int  # context that the model takes
    least_capability: tuple[int, int]
    named: str = ""  # the checkpoint that is kept where it can be
    token_bytes: int = 0  # of one cached token at the least

    def least(self, want: Want) -> int:
        return self.least_bytes + self.token_bytes * want.context * want.users


def _search(model: str, request: str, only: bool) -> Search:
    own = engine_named(engine_name(request)).card_search(model, request)
    if own is not None:
        return own
    models, _ = models_of(base_of(model, (), request)[0], only, ())
    files = [] if request or only else gguf_group(next(iter(models)))
    cache = min(map(least_token, models.values()))

    def seek(row: GpuRow, count: int, price: float | None, want: Want) -> tuple[Card | None, int]:
        card, plans = _card(model, models, row, count, price, want, request)
        # servers with several cards run an engine that splits every layer
        if card is not None or not files or (count > 1 and market.is_rented(row.name)):
            return card, plans
        # its cache has 16 bits
        small = [c for c in files if c.weights + 2 * cache * want.context * want.users <= row.total_bytes * count]
        card, more = file_card(small, row, count, price, want)
        return card, plans + more

    least = min(map(least_weights, models.values()))
    return Search(
        seek,
        min([least, *(c.weights for c in files)]),
        max(m.max_position for m in models.values()),
        _LEAST_CAPABILITY,
        next(iter(models)),
        cache,
    )


def least_token(model: Model) -> int:
    """Bytes of one cached token in 8 bits, or in 4 where the checkpoint brings a cache of its own."""
    return token_bytes(model) // (4 if model.quantization is not None and model.quantization.kv_cache else 2)


def headroom(plan: Plan) -> int:
    """On the tightest GPU in its tightest stage, at the unfavourable end of every interval."""
    return min(r.total_bytes - s.peak_high for r in plan.ranks for s in r.stages)


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


def _card(
    name: str, models: dict[str, Model], row: GpuRow, count: int, price: float | None, want: Want, engine: str
) -> tuple[Card | None, int]:
    """By fit's objective, with all of the GPUs. A machine that nobody can read along with does not serve."""
    from oomph.answers.bare_plan import run

    gpus = (row.device(),) * count
    base, _ = base_of(name, gpus, engine)
    base = replace(base, gpus=with_screen(gpus))
    limited = replace(want, options=replace(_OPTIONS, text_only=want.options.text_only))
    spaces = Spaces(models, base.gpus, limited, base)
    room, tokens = row.total_bytes * count, want.context * want.users
    small = {name for name, model in models.items() if least_weights(model) + least_token(model) * tokens <= room}
    spaces.arms = [arm for arm in spaces.arms if arm.layout.gpus == count and arm.model in small]
    solver = Solver(base, models, run, spaces.default)
    solver.empty_gpus = gpus
    best = BestFirst(solver, spaces, objective_of(spaces)).best(offload=False)
    if best is None or not best.reads_well:
        return None, solver.plans
    arm, point = best.point.arm, best.point
    grid = [c for c in context_grid(models[arm.model].max_position, want.context) if c >= want.context]
    space = replace(spaces.space(want.context, want.users), contexts=(want.context,))
    return Card(
        name=row.name,
        count=count,
        memory_bytes=row.total_bytes * count,
        nominal_gb=row.nominal_gb * count,
        price=price,
        checkpoint=arm.model,
        note=describe(point, solver.default),
        command=to_shell(best.plan.deployment),
        plan=best.plan,
        headroom_bytes=headroom(best.plan),
        users=max(point.users, _held(best)),
        longest=solver.longest(arm, want.users, space, grid),
        engine=best.plan.deployment.engine.name,
        speed=best.speed,
    ), solver.plans


def _held(best: Best) -> int:
    """Requests of the whole context that the cache holds at the least."""
    return int(best.point.concurrency)


def gguf_group(name: str) -> list[Candidate]:
    """The GGUF files of a model of the catalogue, for cards that hold none of its checkpoints."""
    for place, facts in enumerate(catalogue_facts().models):
        if name.lower() == facts.plain.lower() or name in catalog.variants(facts.plain):
            files = candidates_of([(place, facts)], (), 0, 0, (FILES,), room=1 << 62)
            return [one for one in files.get(place, []) if one.quality.recovery[0] >= LEAST_RECOVERY]
    return []


def file_card(
    files: Sequence[Candidate], row: GpuRow, count: int, price: float | None, want: Want
) -> tuple[Card | None, int]:
    """The best quantisation that these cards hold whole, with llama.cpp."""
    gpus = (row.device(),) * count
    trial = Trial(gpus, want.users)
    room = sum(gpu.total_bytes for gpu in gpus)
    for candidate in files:
        if candidate.weights > room:
            continue
        served = trial.serve(candidate, FILES, want.context, longest=False)
        if served is None:
            continue
        longest = trial.serve(candidate, FILES, want.context, longest=True) or served
        plan = served.plan
        return Card(
            name=row.name, count=count, memory_bytes=row.total_bytes * count, nominal_gb=row.nominal_gb * count,
            price=price, checkpoint=plan.deployment.model, note=engine_of(plan.deployment).title,
            command=to_shell(plan.deployment), plan=plan, headroom_bytes=headroom(plan), users=served.users,
            longest=longest.context, engine=plan.deployment.engine.name,
            speed=plan_speed(plan, load_once(candidate.checkpoint), want.users),
        ), trial.plans  # fmt: skip
    return None, trial.plans
