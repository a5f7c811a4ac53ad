"""What each checkpoint of the catalogue needs on each card that is sold or rented, planned.

A figure is a plan of a command that stands beside it: whoever doubts it runs `oomph plan` on that command.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from msgspec import Struct

from oomph import catalog
from oomph.catalog.facts import CheckpointFacts, ModelFacts, facts
from oomph.commands.call import quote
from oomph.engines.protocol import EngineProtocol, fills
from oomph.engines.registry import all_engines
from oomph.errors import OomphError
from oomph.facts.gpus import GpuRow, rows
from oomph.ir import Deployment, Engine, Plan

COUNTS = (1, 2, 4, 8)
CONTEXT = 8192  # tokens of one request, less where the model takes less
TAG = "Q4_K_M"  # the GGUF quantisation that is planned for engines that place layers
_LEAST = 0.5  # of the weights: cards that together have less are not planned


class Figure(Struct, frozen=True):
    """The fewest of one card that serve one checkpoint, and what they leave for its KV cache."""

    checkpoint: str
    engine: str
    release: str
    card: str
    count: int
    command: str
    weights_bytes: int  # per GPU
    room_bytes: int  # at the stage that decides, at the unfavourable end
    tokens: int  # of KV cache; 0 where the engine does not count them
    users: float  # requests of the context at once
    context: int


def cards() -> tuple[GpuRow, ...]:
    """What people buy or rent today, the smallest first."""
    sold = [row for row in rows() if row.market and not row.unified and row.vendor == "nvidia"]
    return tuple(sorted(sold, key=lambda row: (row.total_bytes, row.name)))


def checkpoints(words: Sequence[str] = ()) -> tuple[str, ...]:
    """Ids of the catalogue; with words, those that contain one of them."""
    parts = [word.lower() for word in words]
    return tuple(name for name in catalog.ids() if not parts or any(word in name.lower() for word in parts))


def figures(names: Iterable[str], workers: int = 1) -> Iterator[tuple[str, tuple[Figure, ...]]]:
    """Checkpoint by checkpoint, in order."""
    names = tuple(names)
    if workers == 1:
        yield from ((name, figures_of(name)) for name in names)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from zip(names, pool.map(figures_of, names, chunksize=4))


def figures_of(name: str) -> tuple[Figure, ...]:
    row = next((row for row in facts().checkpoints if row.id == name), None)
    if row is None:
        return ()
    model = facts().models[row.model]
    answers = (_fewest(_Question(row, model, engine), card) for engine in all_engines() for card in cards())
    return tuple(figure for figure in answers if figure is not None)


class _Question(NamedTuple):
    """One checkpoint on one engine."""

    row: CheckpointFacts
    model: ModelFacts
    engine: EngineProtocol

    @property
    def context(self) -> int:
        return min(CONTEXT, self.model.context or CONTEXT)

    def command(self, count: int) -> list[str]:
        """On so many GPUs; empty where the engine does not serve such a checkpoint."""
        engine = self.engine
        if engine.layout == "placed":
            serves = fills(engine, "file_command") and self.model.gguf_repo and self.row.id == self.model.plain
            return engine.file_command(f"{self.model.gguf_repo}:{TAG}", self.context, 1) if serves else []
        knobs = engine.fit_knobs(engine.newest())
        if knobs is None:
            return []
        degree = next(name for name in engine.degrees if name.startswith(("tensor", "tp")))
        flags = {knobs.context: self.context} | ({degree: count} if count > 1 else {})
        return engine.write_command(Deployment(Engine(engine.name, engine.newest()), self.row.id, flags, ()))


def _fewest(question: _Question, card: GpuRow) -> Figure | None:
    engine = question.engine
    for count in COUNTS:
        if engine.layout == "ranks" and count * card.total_bytes < _LEAST * question.row.weights:
            continue
        command = question.command(count)
        plan = _planned(command, f"{count}x {card.name}", f"{engine.name}=={engine.newest()}") if command else None
        if plan is None or plan.verdict.refusal:
            return None
        if plan.verdict.outcome == "fits":
            return _figure(question, plan, card, count, command)
    return None


def _planned(command: Sequence[str], gpu: str, engine: str) -> Plan | None:
    from oomph.answers.plan import plan

    try:
        return plan(list(command), gpu=gpu, engine=engine, advise=False)
    except OomphError:
        return None


def _figure(question: _Question, plan: Plan, card: GpuRow, count: int, command: Sequence[str]) -> Figure:
    room = plan.verdict.margin.low if plan.verdict.margin is not None else 0
    kv = plan.kv
    return Figure(
        checkpoint=question.row.id,
        engine=plan.deployment.engine.name,
        release=plan.deployment.engine.version,
        card=card.name,
        count=count,
        command=" ".join(map(quote, command)),
        weights_bytes=plan.ranks[0].terms["weights"].bytes,
        room_bytes=room,
        tokens=kv.logged_tokens if kv is not None else 0,
        users=kv.max_concurrency if kv is not None else 0.0,
        context=question.context,
    )
