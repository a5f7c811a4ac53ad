"""One kind of card, and how many of it: the best that they serve of a model, by the objective that fit has."""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph import catalog
from oomph.catalog.facts import facts as catalogue_facts
from oomph.commands import to_shell
from oomph.engines.protocol import EngineProtocol
from oomph.engines.registry import FILES, engine_named
from oomph.facts import market
from oomph.facts.gpus import GpuRow
from oomph.facts.quality import RECOVERY
from oomph.ir import Model, Plan
from oomph.search.best import BestFirst, objective_of, plan_speed
from oomph.search.candidates import Candidate, candidates as candidates_of
from oomph.search.fit import describe
from oomph.search.placed import SLOTS, Places, typed
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
from oomph.search.solve import Solver
from oomph.simulate.speed import Speed
from oomph.sources import place
from oomph.sources.load import load_once

# CUDA 13, with which recent wheels are built, has no Volta and older; llama.cpp and Ollama also publish builds with
# CUDA 12, which go down to Pascal here. A card that is named is looked at anyway.
_LEAST_CAPABILITY = {"ranks": (7, 5), "placed": (6, 0)}
LEAST_RECOVERY = 0.95  # chosen: where nobody asks for files, one in fewer than four bits is no reason to buy a card
_OPTIONS = Options(drafts=(0,))
_LEAST_BITS = 3  # of a weight, of the smallest file that is looked at


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


def search_for(model: str, request: str, only: bool) -> Search:
    """`request`: what --engine says."""
    own = engine_named(engine_name(request))
    return _file_search(own, model, request) if own.layout == "placed" else _batched_search(model, request, only)


def _file_search(own: EngineProtocol, model: str, request: str) -> Search:
    base = load_once(model)

    def seek(row: GpuRow, count: int, price: float | None, want: Want) -> tuple[Card | None, int]:
        return file_card(own, model, row, count, price, want, request)

    is_file = place.is_gguf_file(model)
    rows = [stored.nbytes for stored in base.stored if stored.role not in ("embed", "multimodal")]
    least = sum(rows) if is_file else sum(rows) * _LEAST_BITS // 16
    return Search(seek, least, base.max_position, _LEAST_CAPABILITY["placed"], model if is_file else base.name)


def _batched_search(model: str, request: str, only: bool) -> Search:
    models, _ = models_of(base_of(model, (), request)[0], only, ())
    files = [] if request or only else gguf_group(next(iter(models)))
    cache = min(map(least_token, models.values()))

    def seek(row: GpuRow, count: int, price: float | None, want: Want) -> tuple[Card | None, int]:
        card, plans = _card(model, models, row, count, price, want, request)
        # servers with several cards run an engine that splits every layer
        if (
            card is not None
            or (count > 1 and market.is_rented(row.name))
            or not _may_hold(files, cache, row, count, want)
        ):
            return card, plans
        card, more = file_card(engine_named(FILES), model, row, count, price, want, "")
        if card is None or RECOVERY[card.checkpoint.rpartition(":")[2]].low < LEAST_RECOVERY:
            return None, plans + more
        note = ", ".join(filter(None, (engine_named(FILES).title, card.note)))
        return replace(card, note=note), plans + more

    least = min(map(least_weights, models.values()))
    return Search(
        seek,
        min([least, *(one.weights for one in files)]),
        max(m.max_position for m in models.values()),
        _LEAST_CAPABILITY["ranks"],
        next(iter(models)),
        cache,
    )


def _may_hold(files: Sequence[Candidate], cache: int, row: GpuRow, count: int, want: Want) -> bool:
    """Whether one of the files and a cache of 8 bits are no more than the cards have, for as many users as slots are
    looked at."""
    tokens = want.context * want.users
    room = row.total_bytes * count - cache * tokens
    return want.users <= SLOTS[0] and any(one.weights <= room for one in files)


def least_token(model: Model) -> int:
    """Bytes of one cached token in 8 bits, or in 4 where the checkpoint brings a cache of its own."""
    return token_bytes(model) // (4 if model.quantization is not None and model.quantization.kv_cache else 2)


def headroom(plan: Plan) -> int:
    """On the tightest GPU in its tightest stage, at the unfavourable end of every interval."""
    return min(r.total_bytes - s.peak_high for r in plan.ranks for s in r.stages)


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
        users=max(point.users, int(point.concurrency)),  # what the cache holds at the least
        longest=solver.longest(arm, want.users, space, grid),
        engine=best.plan.deployment.engine.name,
        speed=best.speed,
    ), solver.plans


def file_card(
    own: EngineProtocol, model: str, row: GpuRow, count: int, price: float | None, want: Want, request: str
) -> tuple[Card | None, int]:
    """The file and cache that fit would pick, if these cards hold it whole."""
    from oomph.answers.bare_plan import run

    places = Places(model, with_screen((row.device(),) * count), want, own, run, request)
    whole = places.best_whole()
    if whole is None:
        return None, places.plans
    offer, longest = whole
    plan = offer.plan
    assert plan is not None
    return Card(
        name=row.name, count=count, memory_bytes=row.total_bytes * count, nominal_gb=row.nominal_gb * count,
        price=price, checkpoint=model if place.is_gguf_file(model) else plan.model, note=", ".join(offer.gives_up),
        command=typed(offer), plan=plan, headroom_bytes=headroom(plan), users=int(offer.users), longest=longest,
        engine=plan.deployment.engine.name, speed=plan_speed(plan, places.base, want.users),
    ), places.plans  # fmt: skip


def gguf_group(name: str) -> list[Candidate]:
    """The GGUF files of a model of the catalogue, for cards that hold none of its checkpoints."""
    for index, facts in enumerate(catalogue_facts().models):
        if name.lower() == facts.plain.lower() or name in catalog.variants(facts.plain):
            files = candidates_of([(index, facts)], (), 0, 0, (FILES,), room=1 << 62)
            return [one for one in files.get(index, []) if one.quality.recovery[0] >= LEAST_RECOVERY]
    return []
