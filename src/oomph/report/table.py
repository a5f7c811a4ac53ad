"""A table as lines."""

from oomph.report.answer import Cell, Column, Table
from oomph.report.terminal import TONES, Style, clean, command_lines, length, wrap


def table_lines(table: Table, style: Style, width: int, *, everything: bool) -> list[str]:
    order = table.order or tuple(range(len(table.columns)))
    columns = [table.columns[index] for index in order]
    head = _lines([column.name for column in columns], columns, table.indent, Style(), width)
    lines = [style.bold(line) for line in head if line.strip() and table.has_head]
    few = bool(table.shown) and not everything
    group = ""
    for number, row in enumerate(table.rows):
        if few and number not in table.shown:
            continue
        if row.group != group:
            group = row.group
            lines.append(f"  {style.bold(clean(group))}")
        lines += _lines([row.cells[index] for index in order], columns, table.indent, style, width)
        for text in row.below:
            start, rest = " " * table.below, " " * (table.below + 2)
            command = command_lines(text, width, table.below) if text == row.command else []
            lines += [style.dim(line) for line in command or wrap(clean(text), width, start, rest)]
    return [*lines, *([style.dim(f"  {table.more}")] if table.more and (few or not table.shown) else [])]


def _lines(cells: list[str | Cell], columns: list[Column], indent: int, style: Style, width: int) -> list[str]:
    """Figures end where their column does, words begin where it begins; who is too long moves what follows. The last
    words go on below where they begin, and stand below the figures where one of them is too long for that."""
    figures = max((number for number, column in enumerate(columns) if column.is_number), default=-1)
    line, end, before = " " * indent, indent, ""
    for number, (value, column) in enumerate(zip(cells, columns, strict=True)):
        cell = value if isinstance(value, Cell) else Cell(value)
        text = clean(cell.text) or "█" * round(column.width * sum(piece.share for piece in cell.bar))
        if column.is_path and length(line) + len(column.gap) + len(text) > width:
            text = text.rpartition("/")[2]
        start, end = end + len(column.gap), end + len(column.gap) + column.width
        if column.is_number:
            line += " " * max(1 if line.strip() else 0, end - length(line) - len(text))
        elif text or column.width:
            line += column.gap if length(line) >= start else " " * (start - length(line))
        before = line if number == figures + 1 else before
        if column is columns[-1] and not column.is_number:
            lines = wrap(_painted(text, cell, style), width, line, " " * length(line))
            line += _painted(text, cell, style)
            whole = figures < 0 or max(map(length, lines)) <= width
            return [one.rstrip() for one in (lines if whole else _below(before, line[len(before) :], width))]
        line += _painted(text, cell, style)
    return [line.rstrip()]


def _below(figures: str, words: str, width: int) -> list[str]:
    lines = wrap(words, width, figures, " " * length(figures))
    if max(map(length, lines)) <= width:
        return lines
    return [figures, *wrap(words, width, " " * max(4, width - length(words)), " " * 4)]


def _painted(text: str, cell: Cell, style: Style) -> str:
    return style.paint(text, TONES[cell.tone]) if cell.tone else text
