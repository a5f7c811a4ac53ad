"""A comparison: which engine to take, then one line an engine with its command."""

from collections import Counter

from oomph.answers.compare import Comparison, Row as Engine
from oomph.engines.registry import engine_named
from oomph.report.answer import (
    Answer,
    Aside,
    Block,
    Cell,
    Column,
    Heading,
    Notes,
    Piece,
    Row,
    Table,
    Verdict,
    picked_for,
)
from oomph.text.tables import all_that_hold
from oomph.units import gib

_BASIS = "users: requests of the whole context at once; tok/s: of each user that is asked for; bits: of a weight."
_STOPPED = "The search was stopped: these are the engines so far."


def answer(comparison: Comparison) -> Answer:
    gpus = " + ".join(f"{n} x {name}" if n > 1 else name for name, n in Counter(comparison.gpus).items())
    screen = f"{gib(comparison.screen_bytes)} of the first card are kept free for a screen; --headless uses them"
    load = f" for {comparison.users} users at once" if comparison.users > 1 else ""
    works = any(row.fits for row in comparison.rows)
    most = max((row.weights_bytes + row.host_bytes for row in comparison.rows), default=0)
    columns = (
        Column("engine", 13), Column("fits", 8), Column("users", 6, is_number=True), Column("tok/s", 7, is_number=True),
        Column("on GPUs", 10, is_number=True), Column("on CPU", 10, is_number=True), Column("bits", 6, is_number=True),
        Column("checkpoint", gap="  ", is_path=True),
    )  # fmt: skip
    table = Table("Engines", columns, tuple(_row(row, most) for row in comparison.rows), button="Plan", below=15)
    return Answer(
        "compare",
        Heading(comparison.model, (gpus, f"{comparison.context:,} tokens of context{load}")),
        Verdict("TAKE" if works else "NONE", "fits" if works else "fails", comparison.advice),
        (
            table,
            *_loads(comparison),
            picked_for(comparison.measure),
            Aside(_BASIS),
            Notes(tuple(all_that_hold((comparison.interrupted, _STOPPED), (comparison.screen_bytes, screen)))),
        ),
    )


def _loads(comparison: Comparison) -> tuple[Block, ...]:
    """The same load on every engine that has a scheduler here."""
    if comparison.load is None:
        return ()
    columns = (
        Column("under load", 13), Column("held", 6, is_number=True),
        Column("tok/s", 8, is_number=True), Column("each", 6, is_number=True), Column("first", 8, is_number=True),
        Column("per token", 11, is_number=True), Column("what ends it", gap="  "),
    )  # fmt: skip
    rows = tuple(_load_row(row) for row in comparison.rows if row.fits or row.under_load is not None)
    whose = f"{comparison.users:,} users" if comparison.users > 1 else "the users that are held"
    basis = f"Under load: {comparison.load.words()}. held: the most users that keep these times; the rest: of {whose}."
    return (Table("The same load on each", columns, rows, below=15), Aside(basis))


def _load_row(engine: Engine) -> Row:
    title, load = Cell(engine_named(engine.engine).title, tone="bold"), engine.under_load
    if load is None:
        return Row((title, *(Cell("-", 0.0) for _ in range(5)), "its scheduler is not simulated"))
    return Row(
        (
            title, Cell(f"{load.users_held:,}", load.users_held),
            Cell(f"{load.tokens_per_second:,.0f}", load.tokens_per_second),
            Cell(_rate(load.tokens_per_second_each), load.tokens_per_second_each),
            Cell(f"{load.first_token:.2f} s", load.first_token),
            Cell(f"{1000 * load.per_token:.0f} ms", load.per_token), load.binds,
        ),
    )  # fmt: skip


def _row(engine: Engine, most: int) -> Row:
    fits = "yes" if engine.on_gpu else "partly" if engine.fits else "no"
    tone = {"yes": "fits", "partly": "close", "no": "fails"}[fits]
    short = f", {gib(engine.short_bytes)} short" if engine.short_bytes else ""
    rate = engine.tokens_per_second_each
    bar = tuple(
        Piece(part, size / most)
        for part, size in (("weights", engine.weights_bytes), ("others", engine.host_bytes))
        if size
    )
    command = engine.command if engine.fits else ""
    return Row(
        (
            Cell(engine_named(engine.engine).title, tone="bold"), Cell(fits, tone=tone),
            Cell(_users(engine), engine.users), Cell(_rate(rate), rate or 0.0),
            Cell(gib(engine.weights_bytes) if engine.weights_bytes else "-", engine.weights_bytes, bar=bar),
            Cell(gib(engine.host_bytes) if engine.host_bytes else "-", engine.host_bytes),
            Cell(f"{engine.bits:.1f}" if engine.bits else "-", engine.bits), engine.checkpoint,
        ),
        below=(*([f"{engine.why}{short}"] if engine.why else []), *([command] if command else [])),
        command=command,
    )  # fmt: skip


def _users(engine: Engine) -> str:
    return "-" if not engine.fits else f"{engine.users:.1f}" if engine.users % 1 else f"{engine.users:.0f}"


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:,.0f}" if rate >= 9.95 else f"{rate:.1f}"
