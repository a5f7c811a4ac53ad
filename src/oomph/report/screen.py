"""An answer as one screen of text: the verdict first, names in the margin, what was not asked for left to --all."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from oomph.report.answer import (
    Answer,
    Answers,
    Aside,
    Bars,
    Basis,
    Block,
    Changes,
    Command,
    Details,
    Effects,
    Excerpt,
    Facts,
    Heading,
    Inquiry,
    Items,
    Ledger,
    Notes,
    Pairs,
    Paragraph,
    Plots,
    Quote,
    Reasons,
    Series,
    Shares,
    Table,
    Verbatim,
    Verdict,
)
from oomph.report.bars import bar_of_parts, bars
from oomph.report.terminal import INDENT, TONES, Style, clean, command_lines, folded, title, wrap
from oomph.text.tables import grouped
from oomph.units import gib

_LOG_LINES = 4
_SPARKS = " ▁▂▃▄▅▆▇█"
_QUOTED = 220  # characters of a message


class Screen(NamedTuple):
    style: Style
    width: int
    everything: bool  # --all


def print_screen(answer: Answer, style: Style, *, width: int, everything: bool = False) -> str:
    screen = Screen(style, width, everything)
    lines = _first_lines(answer, screen) if answer.lines and not everything else _answer_lines(answer, screen)
    return "\n".join(lines).rstrip() + "\n"


def _first_lines(answer: Answer, screen: Screen) -> list[str]:
    """Without empty lines but the first: an answer that says at a glance what to do."""
    from oomph.report.brief import Printed, brief_lines

    head = ["", *_heading(answer.heading, screen), *(_verdict(answer.verdict, screen) if answer.verdict else [])]
    printed = []
    for block in _flat(answer.blocks, everything=False):
        if isinstance(block, Changes):
            printed.append(Printed(block, _change_rows(block, screen)))
            command = command_lines(block.command, screen.width, INDENT) if block.command else []
            printed.append(Printed(Command(block.command), [command] if command else []))
        elif isinstance(block, Reasons):
            printed.append(Printed(block, _reason_rows(block, screen)))
        elif type(block) in _PRINTERS:
            lines = _PRINTERS[type(block)](block, screen)
            alone = [[line] for line in lines]
            printed.append(Printed(block, alone if isinstance(block, Excerpt) else [lines] if lines else []))
    return brief_lines(head, printed, answer.lines, screen.width)


def _answer_lines(answer: Answer, screen: Screen) -> list[str]:
    lines = ["", *_heading(answer.heading, screen)]
    lines += ["", *_verdict(answer.verdict, screen)] if answer.verdict is not None else []
    named = False
    for block in _flat(answer.blocks, screen.everything):
        printed = _PRINTERS[type(block)](block, screen) if type(block) in _PRINTERS else []
        if printed:
            # lines with names in the margin follow one another, everything else stands apart
            follows = lines[-1] == "" or (named and type(block) not in _AFTER_A_GAP)
            lines += printed if follows else ["", *printed]
            named = type(block) not in _APART
    return lines


def _flat(blocks: Sequence[Block], everything: bool) -> Iterator[Block]:
    for block in blocks:
        if not isinstance(block, Details):
            yield block
        elif everything:
            yield from _flat(block.blocks, everything)


def _heading(heading: Heading, screen: Screen) -> list[str]:
    name = [screen.style.bold(clean(heading.title))] if heading.title else []
    below = [line for text in heading.below for line in wrap(plain(text), screen.width, "  ", "  ")]
    return [*title([*name, *(clean(part) for part in heading.about if part)], screen.width), *below]


def _verdict(verdict: Verdict, screen: Screen) -> list[str]:
    word = screen.style.paint(verdict.word, TONES[verdict.tone]) if verdict.word else ""
    text = "   ".join(part for part in (f"{word} {verdict.where}".strip(), plain(verdict.says)) if part)
    return wrap(text, screen.width, "  ", " " * INDENT if word else "  ")


def in_margin(name: str, text: str, screen: Screen) -> list[str]:
    """A name in the margin and what is said under it; nothing where nothing is paragraph."""
    head = f"  {screen.style.bold(name)}{' ' * max(1, INDENT - 2 - len(name))}" if name else " " * INDENT
    return wrap(plain(text), screen.width, head, " " * INDENT) if text else []


def plain(text: str) -> str:
    return clean(text.replace("\n", " "))


def _rows(name: str, texts: Sequence[str], screen: Screen) -> list[str]:
    return [line for row in _separate(name, texts, screen) for line in row]


def _separate(name: str, texts: Sequence[str], screen: Screen) -> list[list[str]]:
    return [in_margin(name if number == 0 else "", text, screen) for number, text in enumerate(texts)]


def _paragraph(block: Paragraph, screen: Screen) -> list[str]:
    return _rows(block.name, block.sentences, screen)


def _quote(block: Quote, screen: Screen) -> list[str]:
    """An engine's message can be a paragraph."""
    line = " ".join(block.text.split())
    short = line if len(line) <= _QUOTED else line[: _QUOTED - 4].rsplit(" ", 1)[0] + " ..."
    return in_margin(block.name, short, screen)


def _bars(block: Bars, screen: Screen) -> list[str]:
    return [folded(line, screen.width) for line in bars(block.plan, screen.style, screen.width)]


def _shares(block: Shares, screen: Screen) -> list[str]:
    return [
        f"  GPU {number}  {bar_of_parts([(clean(name), size) for name, size in parts], total, screen.width - 9)}"
        for number, (total, parts) in enumerate(block.cards)
    ]


def _facts(block: Facts, screen: Screen) -> list[str]:
    return [line for name, text in block.rows for line in in_margin(name, text, screen)]


def _ledger(block: Ledger, screen: Screen) -> list[str]:
    terms = [f"{entry.term} {gib(entry.bytes).removesuffix(' GiB')}" for entry in block.entries]
    return in_margin("Memory", " + ".join(terms) + block.total, screen) if terms else []


def _changes(block: Changes, screen: Screen) -> list[str]:
    if block.in_columns:
        return _columns(block.name, _pairs_of(block, screen), screen)
    lines = [line for row in _change_rows(block, screen) for line in row]
    if block.command:
        lines += ["", *command_lines(block.command, screen.width, INDENT), ""]
    return lines


def _pairs_of(block: Changes, screen: Screen) -> list[tuple[str, str]]:
    pairs = [(plain(judged.change.label), plain(effect)) for judged, effect in zip(block.judged, block.effects)]
    return pairs if screen.everything else pairs[: block.shown]


def _change_rows(block: Changes, screen: Screen) -> list[list[str]]:
    return _separate(block.name, ["   ".join(filter(None, pair)) for pair in _pairs_of(block, screen)], screen)


def _columns(name: str, pairs: list[tuple[str, str]], screen: Screen) -> list[str]:
    """What to write on the left, what it gives in a column on the right; below it where a line does not hold both."""
    width = screen.width
    column = max((len(label) for label, _ in pairs if len(label) <= max(44, width // 2)), default=0)
    lines = []
    for number, (label, effect) in enumerate(pairs):
        start = f"  {screen.style.bold(f'{name:<9}') if number == 0 else ' ' * 9}"
        if len(label) <= column and INDENT + column + 2 + len(effect) <= width:
            lines.append(f"{start}{label:<{column}}  {effect}")
        else:
            lines += wrap(label, width, start, " " * INDENT)
            lines += wrap(effect, width, " " * (INDENT + 2), " " * (INDENT + 2))
    return lines


def _reasons(block: Reasons, screen: Screen) -> list[str]:
    return [line for row in _reason_rows(block, screen) for line in row]


def _reason_rows(block: Reasons, screen: Screen) -> list[list[str]]:
    by_reason = grouped(block.rows, lambda row: row[1])
    texts = [f"{', '.join(what for what, _ in alike)}: {why}" for why, alike in by_reason.items()]
    return _separate(block.name, texts if screen.everything else texts[: block.shown], screen)


def _items(block: Items, screen: Screen) -> list[str]:
    return in_margin(block.name, "; ".join(what for what, _ in block.rows), screen)


def _inquiry(block: Inquiry, screen: Screen) -> list[str]:
    decides = "; ".join(f"{word}: {means}" for word, _, means in block.answers)
    return [*in_margin("Question", f"{block.text} {decides[:1].upper()}{decides[1:]}.", screen),
            *in_margin("Show it", block.command, screen)]  # fmt: skip


def _excerpt(block: Excerpt, screen: Screen) -> list[str]:
    lines: list[str] = []
    room = max(20, screen.width - INDENT - 8)
    for line in [line for line in block.lines if line.marked][:_LOG_LINES]:
        text = line.text if len(line.text) <= room else line.text[: room - 3] + "..."
        lines.append(f"  {'' if lines else 'Log lines':<{INDENT - 2}}{line.number:>5}  {text}")
    return lines


def _notes(block: Notes, screen: Screen) -> list[str]:
    head = f"  {screen.style.dim(f'{block.name:<{INDENT - 2}}')}"
    return [line for note in block.notes for line in wrap(plain(note), screen.width, head, " " * INDENT)]


def _basis(block: Basis, screen: Screen) -> list[str]:
    if not screen.everything:
        return []
    from oomph.report.basis import basis_lines

    return [folded(line, screen.width) for line in basis_lines(block.plan, screen.style, screen.width)]


def _effects(block: Effects, screen: Screen) -> list[str]:
    from oomph.report.effects import effect_lines

    return effect_lines(block, screen.style, screen.width)


def _aside(block: Aside, screen: Screen) -> list[str]:
    return [screen.style.dim(line) for line in wrap(plain(block.text), screen.width, "  ", "  ")] if block.text else []


def _table(block: Table, screen: Screen) -> list[str]:
    from oomph.report.table import table_lines

    return table_lines(block, screen.style, screen.width, everything=screen.everything)


def _command(block: Command, screen: Screen) -> list[str]:
    return command_lines(block.command, screen.width, 4)


def _pairs(block: Pairs, screen: Screen) -> list[str]:
    """A name and its reason: in one line where both fit, else the reason below."""
    lines = [f"  {screen.style.bold(block.title)}"]
    for name, text in block.rows:
        why = plain(text)
        if len(name) <= 42 and 47 + len(why) <= screen.width:
            lines.append(f"    {clean(name):<42} {why}")
        else:
            lines += [f"    {clean(name)}", *wrap(why, screen.width, " " * 6, " " * 6)]
    return lines if block.rows else []


def _plots(block: Plots, screen: Screen) -> list[str]:
    drawn = [(plot.xs, series, _top(series)) for plot in block.plots for series in plot.series]
    ends = [f"{top:,.0f}{series.unit}" for _, series, top in drawn]
    width = screen.width - 13 - max(map(len, ends), default=0)
    if not block.on_screen or width < 20:
        return []
    lines = [
        f"  {series.label:<9} {_spark(xs, series.ys, top, width)} {end}" for (xs, series, top), end in zip(drawn, ends)
    ]
    return [*lines, f"  {'':<9} 0{block.end:>{width - 1}}"]


def _top(series: Series) -> float:
    return max(1.0, *series.ys) if series.top is None else series.top


def _spark(xs: Sequence[float], ys: Sequence[float], top: float, width: int) -> str:
    out, at, end = "", 0, xs[-1] or 1.0
    for column in range(width):
        until = end * (column + 0.5) / width
        while at < len(xs) - 1 and xs[at] < until:
            at += 1
        share = min(1.0, max(0.0, ys[at] / top))
        out += _SPARKS[round(share * 8)] if share > 0 else " "
    return out


def _answers(block: Answers, screen: Screen) -> list[str]:
    if not block.on_screen or not block.answers:
        return []
    title = [f"  {block.title}"] if block.title else []
    return [*title, *(line for answer in block.answers for line in _answer_lines(answer, screen))]


def _verbatim(block: Verbatim, screen: Screen) -> list[str]:
    return [f"  {block.title}", "", *(f"  {line}".rstrip() for line in block.text.splitlines())]


# What is not here a terminal does not show.
_PRINTERS: dict[type, Callable[[Any, Screen], list[str]]] = {
    Paragraph: _paragraph, Quote: _quote, Bars: _bars, Shares: _shares, Basis: _basis, Facts: _facts, Ledger: _ledger,
    Changes: _changes, Reasons: _reasons, Items: _items, Inquiry: _inquiry, Excerpt: _excerpt, Effects: _effects,
    Aside: _aside,    Command: _command, Pairs: _pairs, Table: _table, Plots: _plots,
    Answers: _answers, Verbatim: _verbatim, Notes: _notes,
}  # fmt: skip
_APART = frozenset((Bars, Shares, Basis, Effects, Aside, Command, Pairs, Table, Plots, Answers, Verbatim))
_AFTER_A_GAP = _APART | {Excerpt}
