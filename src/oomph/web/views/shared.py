"""What several views are made of: tables, tiles, commands, sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oomph.units import human
from oomph.web.markup import Html, el, join

_FEW = 4  # columns that a phone has room for


def section(title: str, *children: object, name: str = "") -> Html | None:
    """A part of a view under its heading; nothing where there is nothing to show."""
    body = join(*children)
    return el("section", el("h2", title), body, cls=f"part {name}".strip()) if body else None


def table(
    heads: Sequence[str], rows: Iterable[Sequence[object]], *, sorts: bool = False, tall: bool = False, label: str
) -> Html:
    """Heads that begin with # stand over numbers. A cell may be (what is shown, what it is sorted by)."""
    numbers = [head.startswith("#") for head in heads]
    head = [
        el("th", _head(text.removeprefix("#"), sorts), scope="col", cls="n" if number else "")
        if text.removeprefix("#")
        else el("td")
        for text, number in zip(heads, numbers)
    ]
    names = [text.removeprefix("#") for text in heads]
    body = [el("tr", [_cell(*cell) for cell in zip(row, numbers, names)], cls=getattr(row, "cls", "")) for row in rows]
    # on a phone the cells of a wide table stand below each other, each behind its head
    kind = "many" if len(heads) > _FEW else ""
    whole = el("table", el("thead", el("tr", head)), el("tbody", body), cls=kind, data_sorts=sorts)
    return el("div", whole, cls="scroll tall" if tall else "scroll", tabindex=0, role="region", aria_label=label)


def _head(text: str, sorts: bool) -> object:
    return el("button", text, type="button", cls="sort") if sorts and text else text


def _cell(cell: object, number: bool, head: str) -> Html:
    shown, key = cell if isinstance(cell, tuple) and len(cell) == 2 else (cell, None)
    return el("td", shown, cls="n" if number else "", data_key=key, data_head=head or None)


def tiles(pairs: Iterable[tuple[str, str]]) -> Html | None:
    """A figure and what it is, side by side with others."""
    items = [el("div", el("dt", name), el("dd", value)) for value, name in pairs]
    return el("dl", items, cls="tiles") if items else None


def apply_button(command: str, words: str = "Apply", **data: object) -> Html | None:
    """Puts a command into the page's box; a file has no box, and its style hides the button."""
    label = f"{words}: {command[:300]}"
    return (
        el("button", words, type="button", cls="apply", data_command=command, title=label, **data) if command else None
    )


def command_block(command: str) -> Html:
    return el("pre", command, cls="command", tabindex=0)


def signed(size: int) -> str:
    return f"{'+' if size >= 0 else '−'}{human(abs(size))}"


def details(summary: str, *children: object, opened: bool = False) -> Html:
    return el("details", el("summary", summary), *children, open=opened)


def soft(*children: object) -> Html:
    return el("p", *children, cls="soft")
