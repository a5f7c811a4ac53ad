"""compare(): the same job on several engines, side by side, each planned at its best."""

from collections.abc import Sequence

from msgspec import Struct

from oomph.answers.bare_plan import load, run
from oomph.answers.inspection.weights import by_role
from oomph.answers.under_load import Demand, UnderLoad, under_load
from oomph.engines.protocol import EngineProtocol, fills
from oomph.engines.registry import all_engines, engine_named
from oomph.engines.values import Offer
from oomph.errors import CannotPlan, CommandError, InputError
from oomph.ir import Device, Model, Plan
from oomph.ir.objective import reads_well, serving_objective, slowness
from oomph.ir.printed import Printed
from oomph.search.offer import batched_offer
from oomph.search.placed import Places, typed
from oomph.search.request import Want
from oomph.search.screen import SCREEN, with_screen
from oomph.search.solve import Progress
from oomph.simulate.speed import Speed, speed_of

CONTEXT = 8192  # of one request, where nobody says another


class Row(Struct, frozen=True):
    engine: str
    version: str
    checkpoint: str
    fits: bool  # it starts, and holds the users that are wanted
    on_gpu: bool  # and nothing of it is on the CPU
    context: int
    users: float  # requests of that context at once
    weights_bytes: int  # on all GPUs
    host_bytes: int  # weights in host memory
    bits: float  # a weight, on average
    short_bytes: int
    why: str
    command: str
    tokens_per_second: float | None = None  # of one user; null: nobody knows how fast the card is
    tokens_per_second_each: float | None = None  # of each of the users that are wanted
    gives_up: tuple[str, ...] = ()  # beside the engine's defaults
    within_factor: float = 0.0  # nine of ten published speeds were so near
    under_load: UnderLoad | None = None  # null: no load is asked for, or its scheduler is not written down


class Comparison(Printed, frozen=True):
    """What `oomph compare` prints: one model on several engines."""

    model: str
    gpus: tuple[str, ...]
    context: int
    users: int  # requests of that context at once that are wanted
    rows: tuple[Row, ...]
    advice: str
    objective: str = ""  # by which each engine's line is its best, and one of them is taken
    measure: str = ""  # the same in one line of a screen
    interrupted: bool = False
    load: Demand | None = None  # what every user sends, where that is asked for
    screen_bytes: int = 0  # of the first card, kept free for a screen

    def in_short(self) -> str:
        return f"{self.model}: {self.advice.partition('. ')[0]}"


def comparable() -> tuple[str, ...]:
    return tuple(engine.name for engine in all_engines() if fills(engine, "ways") or fills(engine, "fit_knobs"))


def compare(
    model: str,
    *,
    gpu: object = None,
    context: int = 0,
    users: int = 1,
    engines: Sequence[str] = (),
    prompt: int = 0,
    output: int = 0,
    ttft: float = 2.0,
    tpot: float = 0.05,
    headless: bool = False,
    progress: Progress | None = None,
) -> Comparison:
    """`users`: requests of the context that must be held at once; `engines`: names of engines, all that can be compared
    where none is given. `prompt`, `output`: tokens that every user sends and gets; then the same load is played on each
    engine that has a scheduler here, under `ttft` and `tpot` (seconds, 95th percentiles), and the context is theirs
    where none is given. `headless`: no card drives a screen. With a `progress` to tell, Ctrl-C gives the engines so
    far."""
    demand = Demand(prompt or 1000, output or 250, ttft, tpot) if prompt or output else None
    context = context or (demand.prompt + demand.output if demand is not None else 0)
    base = load(model)
    gpus = _devices(gpu)
    headless = headless or gpu in (None, "auto")  # what is in use was read off the machine
    cards = with_screen(gpus, headless=headless)
    if context < 0:
        raise CommandError(f"--context {context}: it is a number of tokens")
    if not 1 <= users <= 4096:
        raise CommandError(f"--users {users}: it is a number from 1 to 4096")
    if 0 < base.max_position < context:
        raise InputError(f"--context {context:,} is more than the {base.max_position:,} tokens that the model takes")
    length = context or min(CONTEXT, base.max_position or CONTEXT)
    parameters = _parameters(base)
    # a local GGUF is what it is: its own name says nothing to an engine that looks for other files
    named = model if base.quantization is not None and base.quantization.method == "gguf" else base.name
    rows: list[Row] = []
    wrong = next((name for name in engines if name not in comparable()), None)
    if wrong is not None:
        raise CommandError(f"{wrong[:40]!r} is not one of {', '.join(comparable())}")
    engine_names, interrupted = tuple(engines or comparable()), False
    try:
        for number, name in enumerate(engine_names):
            engine = engine_named(name)
            if progress is not None:
                progress(engine.title, number, len(engine_names))
            want = Want(length, users if users > 1 else 0)
            offer = _offer(engine, named, gpus, cards, want, headless=headless)
            rows.append(_row(engine, offer, length, users, parameters, demand))
    except KeyboardInterrupt:
        if progress is None or not rows:
            raise
        interrupted = True
    names = tuple(device.name for device in gpus)
    objective = serving_objective(checkpoint=base.name, context=length, users=users if users > 1 else 0)
    return Comparison(
        base.name,
        gpus=names,
        context=length,
        users=users,
        rows=tuple(rows),
        advice=_advice(rows, length) + _held_words(rows),
        objective=objective.line,
        measure=objective.short,
        interrupted=interrupted,
        load=demand,
        screen_bytes=SCREEN if cards != gpus else 0,
    )


def _devices(gpu: object) -> tuple[Device, ...]:
    from oomph.sources.gpu import from_json, parse_gpus

    if gpu is None or isinstance(gpu, str):
        return parse_gpus(gpu or "auto")
    return from_json(gpu)


def _parameters(model: Model) -> int:
    """Of the language model."""
    return sum(row.parameters for row in by_role(model) if row.role not in ("multimodal", "other"))


def _offer(
    engine: EngineProtocol, model: str, gpus: tuple[Device, ...], cards: tuple[Device, ...], want: Want, *,
    headless: bool,
) -> Offer:  # fmt: skip
    """`cards`: the GPUs with what a screen takes."""
    try:
        if engine.layout == "ranks":
            return batched_offer(engine, model, gpus, want, headless=headless)
        return Places(model, cards, want, engine, run).best()[0]
    except CannotPlan as refusal:
        return Offer(None, why=refusal.message, checkpoint=model)


def _row(
    engine: EngineProtocol, offer: Offer, context: int, users: int, parameters: int, demand: Demand | None = None
) -> Row:
    plan = offer.plan
    if plan is None:
        return Row(
            engine.name,
            version="",
            checkpoint=offer.checkpoint,
            fits=False,
            on_gpu=False,
            context=context,
            users=0,
            weights_bytes=0,
            host_bytes=0,
            bits=0,
            short_bytes=0,
            why=offer.why,
            command="",
        )
    weights = sum(rank.terms["weights"].bytes for rank in plan.ranks)
    is_held = plan.host is None or not plan.host.absent_bytes  # else weights are read from disk for each token
    fits = offer.is_met and plan.verdict.outcome == "fits" and is_held and (users == 1 or offer.users >= users)
    speed = _speed(engine, plan, users) if fits else None
    return Row(
        engine=engine.name,
        version=plan.deployment.engine.version,
        checkpoint=plan.model,
        fits=fits,
        on_gpu=fits and not offer.host_bytes,
        context=context,
        users=offer.users,
        weights_bytes=weights,
        host_bytes=offer.host_bytes,
        bits=8 * (weights + offer.host_bytes) / parameters if parameters else 0.0,
        short_bytes=plan.verdict.short_bytes,
        why=offer.why,
        command=typed(offer),
        tokens_per_second=round(speed.one_user, 1) if speed is not None else None,
        tokens_per_second_each=round(speed.all_users / speed.users, 1) if speed is not None else None,
        gives_up=offer.gives_up,
        within_factor=speed.factor if speed is not None else 0.0,
        under_load=under_load(plan, demand, users) if demand is not None and plan.verdict.outcome == "fits" else None,
    )


def _speed(engine: EngineProtocol, plan: Plan, users: int) -> Speed | None:
    model = load(plan.deployment.model) if engine.layout == "ranks" else None
    timing = engine.timing(plan, model)
    return speed_of(timing, users) if timing is not None else None


def _advice(rows: Sequence[Row], context: int) -> str:
    """Of engines that hold it on the GPUs: what keeps more, then what is faster beyond the error of the time model,
    then what holds more requests. A server that batches requests goes before one that places layers."""
    whole = [row for row in rows if row.on_gpu and row.users >= 1 and _reads(row)]
    batched = [row for row in whole if engine_named(row.engine).layout == "ranks"]
    if batched:
        best = batched[0]
        for row in batched[1:]:
            best = row if _ahead(row, best) else best
        return _sentence(best, [row for row in batched if row is not best], context)
    if whole:
        best = max(whole, key=lambda row: (row.bits, row.tokens_per_second or 0.0))
        return f"{_unserved(rows)}{_title(best)} holds it on the GPUs at {best.bits:.1f} bits{_rate_words(best)}"
    partly = [row for row in rows if row.fits]
    if partly:
        best = min(partly, key=_partly_behind)
        where = "weights in host memory" if engine_named(best.engine).layout == "ranks" else "a part on the CPU"
        slowly = _rate_words(best) or ", slowly"
        return f"only with {where}: {_title(best)} runs it{slowly}; more or larger GPUs, or a smaller model"
    near = max((row for row in rows if row.users), key=lambda row: row.users, default=None)
    if near is not None and near.why:
        return f"none of them: {_title(near)} {near.why}; a smaller model, more or larger GPUs"
    return "none of them: a smaller model, more or larger GPUs"


def _unserved(rows: Sequence[Row]) -> str:
    """Who of the servers that batch requests does not hold it: for want of kernels, or of memory."""
    servers = [row for row in rows if engine_named(row.engine).layout == "ranks"]
    titles = [_title(row) for row in servers]
    names = " and ".join(filter(None, (", ".join(titles[:-1]), *titles[-1:])))
    who, what = (f"none of {names}", "a known checkpoint") if len(titles) > 1 else (names, "no known checkpoint")
    where = f"{what} of it whole" if any(row.version for row in servers) else "it there" if len(titles) > 1 else ""
    if not where:
        return f"{who} cannot be planned there; " if servers else ""
    return f"{who} holds {where}; "


def _partly_behind(row: Row) -> tuple[float, ...]:
    """The smallest is the best by the objective: people can read along, bits of a weight, speed. What nobody knows the
    speed of comes behind what is known to be read along with."""
    rate = row.tokens_per_second_each
    return (1.0 if rate is None else -slowness(rate), -round(row.bits / 4), -(rate or 0.0))


def _held_words(rows: Sequence[Row]) -> str:
    """Who holds how many of the users that were described, the most first."""
    pairs = [(row, row.under_load) for row in rows if row.under_load is not None]
    if not pairs:
        return ""
    pairs.sort(key=lambda pair: -pair[1].users_held)
    text = ", ".join(f"{_title(row)} {load.users_held:,}" for row, load in pairs)
    most, least = pairs[0][1].users_held, pairs[-1][1].users_held
    unsure = max(load.within_factor for _, load in pairs)
    same = " (not told apart by the time model)" if len(pairs) > 1 and most <= unsure * max(least, 1) else ""
    return f". Users held under this load: {text}{same}"


def _title(row: Row) -> str:
    return engine_named(row.engine).title


def _reads(row: Row) -> bool:
    return reads_well(row.tokens_per_second_each)


def _losses(row: Row) -> tuple[float, int]:
    """Bits of a weight in steps of four, then how much else is given up."""
    return -round(row.bits / 4), len(row.gives_up)


def _ahead(row: Row, other: Row) -> bool:
    if _losses(row) != _losses(other):
        return _losses(row) < _losses(other)
    faster = _told_apart(row, other)
    return faster is row or (faster is None and row.users > 1.125 * other.users)


def _told_apart(first: Row, second: Row) -> Row | None:
    """The faster one; None where the difference is inside what the time model leaves open."""
    one, two = first.tokens_per_second_each, second.tokens_per_second_each
    if not one or not two or max(one / two, two / one) <= max(first.within_factor, second.within_factor):
        return None
    return first if one > two else second


def _rate_words(row: Row) -> str:
    rate = row.tokens_per_second_each
    return f", {_short(rate)} tokens/s for each user" if rate is not None else ""


def _sentence(best: Row, others: Sequence[Row], context: int) -> str:
    costs = f"; it gives up: {', '.join(best.gives_up)}" if best.gives_up else "; nothing is given up"
    text = f"{_title(best)}: {_short(best.users)} requests of {context:,} tokens at once{_rate_words(best)}{costs}"
    for row in others:
        differs = [f"holds {_short(row.users)}"]
        if _losses(row) > _losses(best):
            differs.append(f"gives up {', '.join(row.gives_up) or 'bits of its weights'}")
        if _told_apart(best, row) is not None:
            differs.append(f"{_short(row.tokens_per_second_each or 0.0)} tokens/s")
        text += f". {_title(row)} {', '.join(differs)}"
    with_rates = [row for row in (best, *others) if row.tokens_per_second_each]
    if len(with_rates) > 1 and all(_told_apart(best, row) is None for row in others):
        rates = ", ".join(_short(row.tokens_per_second_each or 0.0) for row in with_rates)
        text += f". Speeds of {rates} tokens/s differ by less than the time model may be wrong"
    return text


def _short(number: float) -> str:
    """Three digits."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


__all__ = ["Comparison", "Row", "comparable", "compare"]
