"""Models that run on some GPUs, and as JSON: the best first, each with its command, and why the first is first."""

from oomph.engines.registry import engine_named
from oomph.report.answer import (
    Answer,
    Aside,
    Block,
    Cell,
    Column,
    Dot,
    Heading,
    Notes,
    Row,
    Scatter,
    Table,
    Verdict,
)
from oomph.report.chart import doublings, tens
from oomph.report.screens.plan_words import gpus_line
from oomph.search.models import Models
from oomph.search.picks import Pick
from oomph.simulate.speed import worst_error
from oomph.text.tables import all_that_hold
from oomph.units import human


def answer(result: Models) -> Answer:
    people = f"{result.users} user{'s' if result.users > 1 else ''} at once"
    least = "" if result.context_asked else "at least "
    heading = Heading(gpus_line(result.gpus), (f"{result.purpose}, {least}{result.context:,} tokens, {people}",))
    if not result.picks:
        return Answer("models", heading, _nothing(result), ())
    remarks = all_that_hold(
        (result.more, "further models fit: --limit 0"),
        (result.interrupted, "The search was stopped: these are the best so far."),
    )
    table = _table(result, ". ".join(remarks))
    blocks = (
        Aside(f"Order: {result.measure}."),
        *_picture(result),
        table,
        *_others(result.picks[0]),
        Notes(result.notes),
        Aside(_basis(result)),
    )
    best = table.rows[0]
    verdict = Verdict("BEST", "fits", result.why, command=best.command, data=best.data)
    return Answer("models", heading, verdict, blocks)


def _nothing(result: Models) -> Verdict:
    if result.interrupted:
        return Verdict("STOPPED", "close", f"before a model was found that runs here, of {result.looked_at}")
    if not result.looked_at:
        return Verdict("NONE IS KNOWN", "fails", "no model of the catalogue has this name, purpose and licence")
    looked = f"{result.looked_at} were looked at, {result.possible} planned"
    return Verdict("NOTHING FITS", "fails", f"no model of the catalogue runs here; {looked}")


def _table(result: Models, more: str) -> Table:
    columns = (
        Column("#", 2, is_number=True), Column("model", gap="  "), Column("quantisation", gap=" "),
        Column("engine", gap=", "), Column("quality", 9, is_number=True), Column("tok/s", 7, is_number=True),
        Column("context", 10, is_number=True), Column("users", 7, is_number=True), Column("room", 9, is_number=True),
        Column("parameters", is_number=True), Column("licence"),
    )  # fmt: skip
    rows = tuple(_row(number, pick) for number, pick in enumerate(result.picks, 1))
    return Table("Models", columns, rows, order=(0, 4, 5, 6, 7, 8, 1, 2, 3), button="Plan", more=more)


def _row(number: int, pick: Pick) -> Row:
    quality = pick.quality
    value = f"{quality.grade} {'' if quality.published else '~'}{max(0.0, quality.rank):.0f}"
    speed = _rate(pick)
    return Row(
        (
            Cell(str(number), number), Cell(pick.model.rpartition("/")[2], pick.model, "bold"), pick.quantization,
            engine_named(pick.engine).title, Cell("-" if quality.grade == "-" else value, round(quality.rank, 2)),
            Cell(_rounded(speed) if pick.speed else "?", round(speed, 1)), Cell(f"{pick.context:,}", pick.context),
            Cell(f"{pick.capacity}" if pick.capacity < 256 else "256+", pick.capacity),
            Cell(human(pick.room_bytes), pick.room_bytes), Cell(_billions(pick.parameters), pick.parameters),
            pick.licence,
        ),
        below=(pick.command, *all_that_hold((pick.on_cpu, pick.on_cpu), (pick.traded and number > 1, pick.traded))),
        command=pick.command,
        data={"request": ""},
    )  # fmt: skip


def _billions(parameters: int) -> str:
    return f"{parameters / 1e9:.1f}B" if parameters < 1e10 else f"{parameters / 1e9:.0f}B"


def _others(best: Pick) -> tuple[Block, ...]:
    rows = tuple(
        Row(
            (engine_named(other.engine).title, other.quantization,
             f"{other.tokens_per_second:.0f}" if other.tokens_per_second else "?", f"{other.context:,}"),
            below=(other.command,), command=other.command, data={"request": ""},
        )
        for other in best.others
    )  # fmt: skip
    columns = (
        Column("the first by", 14), Column("", 12), Column("tok/s", 7, is_number=True),
        Column("context", 10, is_number=True),
    )  # fmt: skip
    return (Table("The first by other engines", columns, rows, button="Plan"),) if rows else ()


def _rate(pick: Pick) -> float:
    return pick.speed.one_user if pick.speed else 0.0


def _rounded(rate: float) -> str:
    """Two digits are all that the error allows, three are easier to compare."""
    return f"{rate:.1f}" if rate < 10 else f"{rate:,.0f}"


def _picture(result: Models) -> tuple[Block, ...]:
    picks = [pick for pick in result.picks if pick.speed is not None]
    if len(picks) < 2:
        return ()
    dots = tuple(
        Dot(max(1.0, _rate(pick)), max(0.0, pick.quality.value), "count1" if pick.quality.published else "count4", 7,
            f"{pick.model.rpartition('/')[2]} {pick.quantization}, {engine_named(pick.engine).title}: quality "
            f"{pick.quality.grade} {pick.quality.value:.0f}, {_rate(pick):,.0f} tokens/s, {pick.context:,} tokens for "
            f"{pick.capacity} users", pick.command, chosen=pick is result.picks[0])
        for pick in picks
    )  # fmt: skip
    across = doublings([dot.x for dot in dots], "tokens per second for one user →")
    up = tens([dot.y for dot in dots], "↑ quality")
    legend = (("count1", "a published figure"), ("count4", "estimated from size and date"))
    title = "Quality against speed"
    return (
        Scatter(
            title, dots, across, up, label=title, legend=legend, remark="the ring is the first; click one to plan it"
        ),
    )


def _basis(result: Models) -> str:
    error = worst_error([pick.speed for pick in result.picks if pick.speed is not None])
    text = (
        f"{result.looked_at} models looked at, {result.possible} possible, {result.plans} plans. Every line was "
        "planned and fits at the unfavourable end of every interval. quality: grade and figure on the scale of the "
        "Artificial Analysis index of June 2026; ~ is an estimate from size and date and ranks by its low end. "
    )
    if error:
        text += f"tok/s: one user behind a prompt of 2,048 tokens; {error}. "
    return text + "users: requests of this context that the cache holds. room: on the fullest GPU at the worst."
