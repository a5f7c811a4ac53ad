"""compare(): the same job on several engines, side by side, each planned at its best."""

from collections.abc import Sequence

from msgspec import Struct

from oomph.answers.bare_plan import load, run
from oomph.answers.inspection.weights import by_role
from oomph.commands.call import quote
from oomph.engines.protocol import EngineProtocol, Offer, fills
from oomph.engines.registry import all_engines, engine_named
from oomph.errors import CannotPlan, CommandError, InputError
from oomph.ir import Device, Model
from oomph.ir.printed import Printed
from oomph.search.offer import batched_offer

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


class Comparison(Printed, frozen=True):
    """What `oomph compare` prints: one model on several engines."""

    model: str
    gpus: tuple[str, ...]
    context: int
    users: int  # requests of that context at once that are wanted
    rows: tuple[Row, ...]
    advice: str

    def in_short(self) -> str:
        return f"{self.model}: {self.advice}"


def comparable() -> tuple[str, ...]:
    return tuple(engine.name for engine in all_engines() if fills(engine, "offer") or fills(engine, "fit_knobs"))


def compare(
    model: str, *, gpu: object = None, context: int = 0, users: int = 1, engines: Sequence[str] = ()
) -> Comparison:
    """`users`: requests of the context that must be held at once; `engines`: names of engines, all that can be compared
    where none is given."""
    base = load(model)
    gpus = _devices(gpu)
    if context < 0:
        raise CommandError(f"--context {context}: it is a number of tokens")
    if not 1 <= users <= 4096:
        raise CommandError(f"--users {users}: it is a number from 1 to 4096")
    if 0 < base.max_position < context:
        raise InputError(f"--context {context:,} is more than the {base.max_position:,} tokens that the model takes")
    length = context or min(CONTEXT, base.max_position or CONTEXT)
    parameters = _parameters(base)
    rows = []
    for name in engines or comparable():
        if name not in comparable():
            raise CommandError(f"{name[:40]!r} is not one of {', '.join(comparable())}")
        engine = engine_named(name)
        rows.append(_row(engine, _offer(engine, base.name, gpus, length, users), length, users, parameters))
    names = tuple(device.name for device in gpus)
    return Comparison(base.name, names, length, users, tuple(rows), _advice(rows, length))


def _devices(gpu: object) -> tuple[Device, ...]:
    from oomph.sources.gpu import from_json, parse_gpus

    if gpu is None or isinstance(gpu, str):
        return parse_gpus(gpu or "auto")
    return from_json(gpu)


def _parameters(model: Model) -> int:
    """Of the language model."""
    return sum(row.parameters for row in by_role(model) if row.role not in ("multimodal", "other"))


def _offer(engine: EngineProtocol, model: str, gpus: tuple[Device, ...], context: int, users: int) -> Offer:
    try:
        if engine.layout == "ranks":
            return batched_offer(engine, model, gpus, context, users)
        return engine.offer(model, gpus, context, users, run)
    except CannotPlan as refusal:
        return Offer(None, why=refusal.message, checkpoint=model)


def _row(engine: EngineProtocol, offer: Offer, context: int, users: int, parameters: int) -> Row:
    plan = offer.plan
    if plan is None:
        return Row(engine.name, "", offer.checkpoint, False, False, context, 0, 0, 0, 0, 0, offer.why, "")
    weights = sum(rank.terms["weights"].bytes for rank in plan.ranks)
    fits = plan.verdict.outcome == "fits" and (users == 1 or offer.users >= users)
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
        command=" ".join(word if word == "&" else quote(word) for word in offer.words),
    )


def _advice(rows: Sequence[Row], context: int) -> str:
    """A server that batches requests is the better choice where it starts; one that can place layers is the other."""
    batched = [row for row in rows if row.on_gpu and engine_named(row.engine).layout == "ranks"]
    placed = [row for row in rows if row.fits and engine_named(row.engine).layout == "placed"]
    whole = next((row for row in placed if row.on_gpu), None)
    if batched:
        best = max(batched, key=lambda row: row.users)
        title = engine_named(best.engine).title
        if whole is not None and best.users < 1:
            other = engine_named(whole.engine).title
            return f"{title} starts, but cannot hold one request of {context:,} tokens: {other} can"
        return f"{title} serves it: {best.users:.4g} requests of {context:,} tokens at once, batched"
    if whole is not None:
        titles = [engine_named(row.engine).title for row in rows if row not in placed]
        servers = " or ".join(filter(None, (", ".join(titles[:-1]), *titles[-1:])))
        refused = f"no known checkpoint of it starts on {servers}; " if servers else ""
        return f"{refused}{engine_named(whole.engine).title} holds it on the GPUs at {whole.bits:.1f} bits"
    if placed:
        title = engine_named(placed[0].engine).title
        return f"only with a part on the CPU: {title} runs it, slowly; more or larger GPUs, or a smaller model"
    return "none of them: a smaller model, more or larger GPUs"


__all__ = ["Comparison", "Row", "comparable", "compare"]
