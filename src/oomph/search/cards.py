"""cards(): which GPUs, and how many of each, serve a model; the cheapest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph.commands import to_shell
from oomph.engines.registry import engine_named
from oomph.errors import InputError
from oomph.facts.gpus import GpuRow, find, rows
from oomph.ir.model import Model
from oomph.ir.plan import Plan
from oomph.ir.printed import Printed
from oomph.search.fit import describe
from oomph.search.request import Spaces, Want, base_of, engine_name, models_of
from oomph.search.score import quality_loss
from oomph.search.solve import Solver
from oomph.search.space import Arm, Options, Space, context_grid

COUNTS = (1, 2, 4, 8)
CONTEXT = 8192  # where none is asked for
# CUDA 13, with which recent wheels are built, has no Volta and older. A card that is named is looked at anyway.
_LEAST_CAPABILITY = (7, 5)
PER_TIER = 3  # cards of the same memory or price that are listed, the fastest first
_OPTIONS = Options(graphs=("all", "eager"), drafts=(0,), prefix_off=(False,), tokens=(0,))


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


class Cards(Printed, frozen=True):
    """What `oomph gpus MODEL` prints: which cards, and how many of each, serve a model."""

    model: str
    want: Want
    cards: tuple[Card, ...]
    looked_at: int
    plans: int
    more: bool  # there are more expensive ones

    def in_short(self) -> str:
        first = f", the first {self.cards[0].count} x {self.cards[0].name}" if self.cards else ""
        return f"{self.model}: {len(self.cards)} choices{first}"


def cards(
    model: str,
    want: Want | None = None,
    *,
    engine: str = "",
    only: bool = False,
    prices: Mapping[str, float] | None = None,
    names: Sequence[str] = (),
    most: int = 12,
) -> Cards:
    """`prices`: of one card by name; only those are looked at. `names`: these cards only. `most`: rows, 0 = all."""
    want = want or Want()
    search = _search(model, engine, only)
    if want.context > search.longest:
        raise InputError(f"--context {want.context:,} is more than the {search.longest:,} tokens that the model takes")
    want = replace(want, context=want.context or min(CONTEXT, search.longest), users=want.users or 1)
    priced = {find(name).name: price for name, price in (prices or {}).items()}
    serving: list[Card] = []
    done: set[str] = set()
    tiers: dict[float, int] = {}
    looked = plans = 0
    named = [find(name).name for name in names]
    for tier, row, count in _candidates(priced, named, search.least_bytes, search.least_capability):
        # fewer of them are enough, or the list has enough of this memory
        if row.name in done or (most and not names and tiers.get(tier, 0) >= PER_TIER):
            continue
        if most and len(serving) >= most:
            return Cards(model, want, tuple(serving), looked, plans, True)
        looked += 1
        price = tier if priced else None
        card, used = search.seek(row, count, price, want)
        plans += used
        if card is not None:
            serving.append(card)
            done.add(row.name)
            tiers[tier] = tiers.get(tier, 0) + 1
    return Cards(model, want, tuple(serving), looked, plans, False)


Seek = Callable[[GpuRow, int, "float | None", Want], "tuple[Card | None, int]"]  # -> a card, and plans made for it


class Search(Struct, frozen=True):
    """How one model is looked for on cards."""

    seek: Seek
    least_bytes: int  # of weights: cards with less are not looked at
    longest: int  # context that the model takes
    least_capability: tuple[int, int]


def _search(model: str, request: str, only: bool) -> Search:
    own = engine_named(engine_name(request)).card_search(model, request)
    if own is not None:
        return own
    models, _ = models_of(base_of(model, (), request)[0], only, ())
    return Search(
        lambda row, count, price, want: _card(model, models, row, count, price, want, request),
        min(sum(s.nbytes for s in m.stored if s.role not in ("multimodal", "other")) for m in models.values()),
        max(m.max_position for m in models.values()),
        _LEAST_CAPABILITY,
    )


def headroom(plan: Plan) -> int:
    """On the tightest GPU in its tightest stage, at the unfavourable end of every interval."""
    return min(r.total_bytes - s.peak_high for r in plan.ranks for s in r.stages)


def _candidates(
    prices: Mapping[str, float], names: Sequence[str], least: int, capability: tuple[int, int]
) -> Iterator[tuple[float, GpuRow, int]]:
    """(price or GB, card, count), the cheapest first; of equals the fewer cards, then the faster."""
    out: list[tuple[tuple[float, int, int, str], GpuRow, int]] = []
    for row in rows():
        if names and row.name not in names:
            continue
        if not names and (row.vendor != "nvidia" or row.capability < capability or "Laptop" in row.name):
            continue
        if prices and row.name not in prices:
            continue
        for count in COUNTS[:1] if row.unified else COUNTS:
            if row.total_bytes * count >= least:
                tier = prices[row.name] * count if prices else float(row.nominal_gb * count)
                out.append(((tier, count, -row.bandwidth, row.name), row, count))
    return ((key[0], row, count) for key, row, count in sorted(out, key=lambda x: x[0]))


def _card(
    name: str, models: dict[str, Model], row: GpuRow, count: int, price: float | None, want: Want, engine: str
) -> tuple[Card | None, int]:
    from oomph.plan import run

    gpus = (row.device(),) * count
    base, _ = base_of(name, gpus, engine)
    limited = replace(want, options=replace(_OPTIONS, text_only=want.options.text_only))
    spaces = Spaces(models, gpus, limited, base)
    solver = Solver(base, models, run, spaces.default)
    space = replace(spaces.space(want.context, want.users), contexts=(want.context,))
    arm = _first(solver, spaces, space)
    rank = solver.rank(arm, space) if arm is not None else None
    if arm is None or rank is None:
        return None, solver.plans
    users = solver.most_users(arm, want.context, space)
    grid = [c for c in context_grid(models[arm.model].max_position, want.context) if c >= want.context]
    point = solver.point(arm, want.context, users, space, rank)
    assert point is not None
    plan = solver.outcome(arm, point.context, point.users, point.utilisation).plan
    assert plan is not None
    return Card(
        name=row.name,
        count=count,
        memory_bytes=row.total_bytes * count,
        nominal_gb=row.nominal_gb * count,
        price=price,
        checkpoint=arm.model,
        note=describe(point, solver.default),
        command=to_shell(plan.deployment),
        plan=plan,
        headroom_bytes=headroom(plan),
        users=users,
        longest=solver.longest(arm, want.users, space, grid),
    ), solver.plans


def _first(solver: Solver, spaces: Spaces, space: Space) -> Arm | None:
    """The best checkpoint that fits, with all GPUs: quality, then images, then graphs, then the plainest layout."""
    count = len(spaces.gpus)
    whole = tuple(a for a in spaces.arms if a.layout.gpus == count and a.layout.tp in (1, count))
    order = sorted(
        solver.open_arms(replace(space, arms=whole)),
        key=lambda arm: (
            quality_loss(spaces.models[arm.model], arm), arm.text_only, arm.eager, arm.layout.ep, arm.layout.pp,
            arm.changes,
        ),
    )  # fmt: skip
    return next((a for a in order if solver.fits(a, space.contexts[0], space.users[0], space)), None)
