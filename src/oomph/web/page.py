"""An answer as HTML without a script: the page shows it, `--html` writes it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.json import encode
from msgspec.structs import replace

from oomph.ir import STAGES, Judged, Plan
from oomph.ir.printed import Printed
from oomph.report.answer import (
    Answer,
    Answers,
    Aside,
    Bars,
    Basis,
    Block,
    Cell,
    Changes,
    Command,
    Details,
    Effects,
    Entry,
    Excerpt,
    Facts,
    Inquiry,
    Items,
    Ledger,
    Notes,
    Pairs,
    Paragraph,
    Plot,
    Plots,
    Question,
    Quote,
    Reasons,
    Room,
    Row,
    Scatter,
    Shares,
    Sides,
    Stages,
    StartUp,
    Table,
    Treemap,
    Verbatim,
    Verdict,
)
from oomph.report.screens.advice import OUTCOMES
from oomph.report.views import answer_of
from oomph.units import GIB, gib, human
from oomph.web.basis import basis
from oomph.web.changes import NEXT_TO_NOTHING, best_change, change, effects_tables, is_little
from oomph.web.elements import (
    apply_button,
    block,
    command_block,
    copy_button,
    details,
    picture,
    section,
    soft,
    stage_words,
    table,
)
from oomph.web.markup import Html, el, join
from oomph.web.memory import gauge, memory_bars, shares, timeline
from oomph.web.scatter import scatter
from oomph.web.treemap import treemap

_FEW = 6  # pairs, before all of them are a click away
_MOST = 8  # changes, before the rest is a click away


def page_of(value: Printed) -> Html:
    """What a command answers, whatever it is."""
    return page(answer_of(value))


def page(answer: Answer) -> Html:
    about = ", ".join(part for part in answer.heading.about if part)
    title = answer.heading.title or answer.heading.unnamed
    best = _best(answer)
    return el(
        "article",
        el(
            "header",
            el("h1", title),
            soft(about) if about else None,
            [soft(text) for text in answer.heading.below],
            cls="heading",
        ),
        _verdict(answer, best) if answer.verdict is not None else None,
        [_PRINTERS[type(each)](each) for each in _below(answer, best)],
        cls=f"view {answer.command}",
        **_data(answer.data),
    )


def pages(answers: Mapping[str, Answer]) -> Html:
    """Several, each under its name."""
    if len(answers) == 1:
        return page(*answers.values())
    return el("div", [el("section", el("h2", name), page(answer)) for name, answer in answers.items()])


def _data(data: Mapping[str, str]) -> dict[str, object]:
    return {f"data_{name}": value for name, value in data.items()}


def _best(answer: Answer) -> tuple[Changes, Judged] | None:
    """What stands in the card of the verdict: the first of what works that has a command."""
    works = next((each for each in answer.blocks if isinstance(each, Changes) and each.name in ("Works", "Try")), None)
    first = next((judged for judged in works.judged[: works.shown] if judged.command), None) if works else None
    return (works, first) if answer.verdict and works and first else None


def _verdict(answer: Answer, best: tuple[Changes, Judged] | None) -> Html:
    """A card: the outcome in words, the best of what works, and the memory in one picture."""
    verdict = answer.verdict
    assert verdict is not None
    where = f"{verdict.where}. " if verdict.where else ""
    says = verdict.says[:1].upper() + verdict.says[1:] if where else verdict.says
    word = [el("strong", verdict.word), " "] if verdict.word else None
    sentence = el("p", word, where, says, cls="says")
    first = best_change(best[1], best[0].title, best[0].engine) if best else _command_of(verdict)
    bars = [memory_bars(each.plan) for each in answer.blocks if isinstance(each, Bars)]
    return el("div", sentence, first, bars, cls=f"verdict {verdict.tone}", **_data(answer.data))


def _below(answer: Answer, best: tuple[Changes, Judged] | None) -> Iterator[Block]:
    """All that does not stand in the card of the verdict."""
    verdict = answer.verdict
    for each in answer.blocks:
        if best and each is best[0]:
            rest = tuple(judged for judged in best[0].judged if judged is not best[1])
            yield replace(best[0], judged=rest, title=best[0].title.replace("What ", "What else ", 1))
        elif verdict is None or not (
            isinstance(each, Bars) or (isinstance(each, Command) and each.command == verdict.command)
        ):
            yield each


def _command_of(verdict: Verdict) -> Html | None:
    """What the verdict speaks of: to be copied, or to be planned."""
    if not verdict.command:
        return None
    data = {f"data_{name}": text for name, text in verdict.data.items()}
    button = apply_button(verdict.command, "Plan this command", **data)
    return el(
        "div",
        command_block(verdict.command),
        el("p", button, " ", copy_button(verdict.command), cls="meant"),
        cls="best",
    )


def _paragraph(paragraph: Paragraph) -> Html | None:
    paragraphs = [el("p", sentence) for sentence in paragraph.sentences if sentence]
    return section(paragraph.title or paragraph.name, paragraphs, name=paragraph.name.lower())


def _quote(quote: Quote) -> Html | None:
    """An engine's words are for those who look for them."""
    return (
        details(f"What {quote.name} prints", el("pre", quote.text, cls="message", tabindex=0)) if quote.text else None
    )


def _question(question: Question) -> Html:
    return command_block(question.command)


def _bars(bars: Bars) -> Html | None:
    return section("Memory", memory_bars(bars.plan))


def _start_up(start: StartUp) -> Html | None:
    return section("Start-up", timeline(start.plan)) if start.plan.ranks[0].stages else None


def _basis(block: Basis) -> Html | None:
    return section("Basis", basis(block.plan))


def _facts(facts: Facts) -> Html | None:
    rows = [el("div", el("dt", name), el("dd", text)) for name, text in facts.rows if text]
    return el("dl", rows, cls="facts") if rows else None


def _stages(stages: Stages) -> Html:
    """In their order, up to the one in which it died."""
    order = [stage for stage in STAGES if stage not in ("host_ram", "other")]
    at = order.index(stages.died)
    rows = [
        el("li", stage_words(stage), el("span", ": died here") if i == at else None,
           cls="done" if i < at else "died" if i == at else "")
        for i, stage in enumerate(order)
    ]  # fmt: skip
    return el("ol", rows, cls="strip", aria_label="The stages of the start-up")


# Terms of a log's ledger -> the parts whose colour they have.
_PARTS = {
    "others": "others", "context": "context", "non torch": "context", "weights": "weights", "kv": "kv",
    "profiling kv": "kv", "activations": "activations", "graphs": "graphs", "reserved": "buffers", "free": "free",
}  # fmt: skip


def _ledger(ledger: Ledger) -> Html | None:
    if not ledger.entries:
        return None
    entries = list(ledger.entries)
    total = sum(max(0, entry.bytes) for entry in entries)
    if ledger.card_bytes - total > GIB // 20:
        entries.append(Entry("not told", ledger.card_bytes - total, "no line of this log says what it is"))
    whole = max(ledger.card_bytes, total, 1)
    pieces, at = [block("ground", 0, 1, 0, 26)], 0
    for entry in entries:
        if entry.bytes > 0 and entry.term != "free":
            part, tip = _PARTS.get(entry.term, "unknown"), f"{entry.term}: {human(entry.bytes)}, {entry.basis}"
            pieces.append(block(f"fill {part}", at / whole, entry.bytes / whole, 0, 26, tip))
            at += entry.bytes
    words = ", ".join(f"{entry.term} {human(entry.bytes)}" for entry in entries)
    items = [
        el("li", el("i", cls=f"chip {_PARTS.get(entry.term, 'unknown')}"), f"{entry.term} ",
           el("b", human(entry.bytes)), el("span", f" {entry.basis}", cls="soft"))
        for entry in entries
    ]  # fmt: skip
    bar, of = picture(26, words, pieces, cls="bar"), soft(f"{gib(whole)} in all")
    return section("Memory, as the log tells it", bar, el("ul", items, cls="legend"), of)


def _changes(changes: Changes) -> Html | None:
    """As cards; what is not enough, and what gives next to nothing, are a click away."""

    def cards(some: Sequence[Judged]) -> Html | None:
        shown = [change(judged, changes.before, changes.engine) for judged in some]
        return el("ul", shown, cls="changes") if shown else None

    def folded(title: str, some: Sequence[Judged]) -> Html | None:
        return details(title, cards(some)) if some else None

    if changes.name == "Helps":
        return section("", folded(f"{changes.title}: {len(changes.judged)}", changes.judged), name="helps")
    little = [judged for judged in changes.judged if is_little(judged)]
    worth = [judged for judged in changes.judged if not is_little(judged)]
    return section(
        changes.title,
        cards(worth[:_MOST]),
        folded(f"{len(worth) - _MOST} more", worth[_MOST:]),
        folded(f"{NEXT_TO_NOTHING}: {len(little)}", little),
        name=changes.name.lower(),
    )


def _reasons(reasons: Reasons) -> Html | None:
    rows = [el("li", el("code", what), ": ", why) for what, why in reasons.rows]
    few = reasons.shown or _MOST
    rest = details(f"{len(rows) - few} more", el("ul", rows[few:], cls="reasons")) if len(rows) > few else None
    return section(reasons.title, el("ul", rows[:few], cls="reasons") if rows else None, rest, name="useless")


def _items(items: Items) -> Html | None:
    rows = [el("li", el("b", what), " ", words) for what, words in items.rows]
    return section(items.title, el("ul", rows, cls="reasons") if rows else None)


def _inquiry(inquiry: Inquiry) -> Html | None:
    """Two buttons: the page reads the same text again, with the answer."""
    buttons = [
        el("button", f"{word[:1].upper()}{word[1:]}", type="button", cls="answer", data_stage=stage,
           title=f"it failed {means}")
        for word, stage, means in inquiry.answers
    ]  # fmt: skip
    shows = [soft("To see it the next time:"), command_block(inquiry.command)] if inquiry.command else []
    return section("One question", el("p", inquiry.text, " ", buttons), shows, name="question")


def _excerpt(excerpt: Excerpt) -> Html | None:
    """The lines that say it, marked, with a few around them."""
    rows: list[Html] = []
    last = 0
    for line in excerpt.lines:
        if last and line.number > last + 1:
            rows.append(el("span", "⋮", cls="gap"))
        text = join(el("span", f"{line.number:>6}", cls="number"), " ", line.text[:2000].rstrip())
        rows.append(el("mark" if line.marked else "span", text))
        last = line.number
    lines = el("pre", rows, cls="log", tabindex=0, aria_label="Lines of the log") if rows else None
    return section("The log", lines, name="evidence")


def _aside(aside: Aside) -> Html | None:
    return soft(aside.text) if aside.text else None


def _command(command: Command) -> Html:
    button = apply_button(command.command, command.button) if command.button else None
    return join(command_block(command.command), button)


def _pairs(pairs: Pairs) -> Html | None:
    rows = [el("li", el("code", name), ": ", text) for name, text in pairs.rows]
    listed = el("ul", rows, cls="reasons") if rows else None
    return section(pairs.title, details(f"{len(rows)} of them", listed) if len(rows) > _FEW else listed)


def _table(block: Table) -> Html | None:
    heads = [f"#{column.name}" if column.is_number else column.name for column in block.columns]
    rows = [_row(row, block) for row in block.rows]
    groups, buttons = ["file"] * any(row.group for row in block.rows), [""] * bool(block.button)
    label = block.label or block.title
    whole = table([*groups, *heads, *buttons], rows, sorts=block.sorts, tall=block.tall, label=label)
    return section(block.title, whole) if rows else None


def _row(row: Row, block: Table) -> list[object]:
    """What stands below it in a terminal stands below its last words; the command has its button."""
    cells = [_cell(cell) for cell in row.cells]
    words = [text for text in row.below if text != row.command]
    if words:
        shown, key = cells[-1]
        cells[-1] = el("div", shown, [soft(text) for text in words]), key
    cells = [(row.group, row.group), *cells] if row.group else cells
    if not block.button:
        return [*cells]
    button = apply_button(row.command, block.button, **{f"data_{name}": text for name, text in row.data.items()})
    copy = copy_button(row.command, "Copy") if row.command else None
    return [*cells, (join(button, " ", copy), 0)]


def _cell(value: str | Cell) -> tuple[object, object]:
    cell = value if isinstance(value, Cell) else Cell(value)
    text: object = cell.text
    if cell.tone:
        text = el("b", cell.text, cls="" if cell.tone == "bold" else f"effect {cell.tone}")
    return (join(_inline(cell), text) if cell.bar else text), cell.text if cell.key is None else cell.key


def _inline(cell: Cell) -> Html:
    pieces, at = [block("ground", 0, 1, 2, 10)], 0.0
    for piece in cell.bar:
        pieces.append(block(f"fill {piece.part}", at, piece.share, 2, 10))
        at += piece.share
    return picture(14, cell.text, pieces, cls="inline")


def _scatter(chart: Scatter) -> Html | None:
    return section(chart.title, scatter(chart))


def _treemap(block: Treemap) -> Html | None:
    return section(block.title, treemap(block))


def _sides(sides: Sides) -> Html:
    return el("div", _side("Now", sides.before), _side("Then", sides.after), cls="sides")


def _side(name: str, plan: Plan) -> Html:
    title = f"{name}: {plan.deployment.engine.version}, {OUTCOMES[plan.verdict.outcome]}"
    return el("div", el("h2", title), memory_bars(plan) if plan.ranks else soft(plan.verdict.message))


def _plots(plots: Plots) -> Html | None:
    return section(plots.title, [_plot(plot) for plot in plots.plots])


def _plot(plot: Plot) -> Html:
    """A chart's data in its element: web/static/plots.js draws it. The label is for readers of text."""
    label = f"{plot.title}: " + "; ".join(f"{one.label} up to {max(one.ys, default=0):,.4g}" for one in plot.series)
    canvas = el("div", cls="plot", data_plot=encode(plot).decode(), role="img", aria_label=label)
    return el("figure", el("figcaption", plot.title), canvas, cls="chart")


def _answers(inside: Answers) -> list[Html]:
    return [page(answer) for answer in inside.answers]


def _verbatim(block: Verbatim) -> Html | None:
    return section(block.title, command_block(block.text))


def _notes(notes: Notes) -> Html | None:
    rows = [el("li", note) for note in notes.notes]
    return section(notes.title, el("ul", rows, cls="notes")) if rows else None


def _details(inside: Details) -> Html | None:
    body = join(*(_PRINTERS[type(each)](each) for each in inside.blocks))
    return details(inside.summary, body) if body else None


_PRINTERS: dict[type, Callable[[Any], Html | list[Html] | list[Html | None] | None]] = {
    Paragraph: _paragraph, Quote: _quote, Question: _question, Room: gauge, Bars: _bars, Shares: shares,
    StartUp: _start_up, Basis: _basis, Facts: _facts, Stages: _stages, Ledger: _ledger,
    Changes: _changes, Reasons: _reasons, Items: _items, Inquiry: _inquiry, Excerpt: _excerpt, Effects: effects_tables,
    Aside: _aside, Command: _command, Pairs: _pairs, Table: _table, Scatter: _scatter, Plots: _plots,
    Answers: _answers, Verbatim: _verbatim, Treemap: _treemap, Sides: _sides, Notes: _notes, Details: _details,
}  # fmt: skip
