"""What a page is made of: sections, tables, tiles, commands, and pictures to scale."""

from collections.abc import Iterable, Sequence

from oomph.ir import STAGE_WORDS
from oomph.units import human
from oomph.web.markup import Html, el, join

_FEW = 4  # columns that a phone has room for


def section(title: str, *children: object, name: str = "") -> Html | None:
    """A part of a view under its heading; nothing where there is nothing to show."""
    body = join(*children)
    return el("section", el("h2", title) if title else None, body, cls=f"part {name}".strip()) if body else None


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


def apply_button(command: str, words: str = "Apply", **data: object) -> Html | None:
    """Puts a command into the page's box; a file has no box, and its style hides the button."""
    label = f"{words}: {command[:300]}"
    return (
        el("button", words, type="button", cls="apply", data_command=command, title=label, **data) if command else None
    )


def copy_button(command: str, words: str = "Copy the command") -> Html:
    return el("button", words, type="button", cls="copy", data_copy=command)


def command_block(command: str) -> Html:
    return el("pre", command, cls="command", tabindex=0)


def signed(size: int) -> str:
    return f"{'+' if size >= 0 else '−'}{human(abs(size))}"


def details(summary: str, *children: object, opened: bool = False) -> Html:
    return el("details", el("summary", summary), *children, open=opened)


def soft(*children: object) -> Html:
    return el("p", *children, cls="soft")


# Pictures to scale without a script: SVG whose widths are percentages, so that text keeps its size on a phone.


def percent(share: float) -> str:
    return f"{100 * min(max(share, 0.0), 1.0):.3f}%"


def block(cls: str, start: float, width: float, top: int, height: int, tip: str = "") -> Html:
    title = el("title", tip) if tip else None
    return el("rect", title, cls=cls, x=percent(start), y=top, width=percent(width), height=height)


def upright(cls: str, at: float, top: int, bottom: int) -> Html:
    return el("line", cls=cls, x1=percent(at), x2=percent(at), y1=top, y2=bottom)


def span(cls: str, low: float, high: float, top: int, cap: int = 4) -> Html:
    """An interval: a line with an upright at both ends."""
    across = el("line", cls=cls, x1=percent(low), x2=percent(high), y1=top, y2=top)
    return Html(across + upright(cls, low, top - cap, top + cap) + upright(cls, high, top - cap, top + cap))


def picture(height: int, label: str, *children: object, cls: str = "") -> Html:
    return el("svg", *children, cls=cls, width="100%", height=height, role="img", aria_label=label)


def stage_words(name: str) -> str:
    return STAGE_WORDS[name][0] if name in STAGE_WORDS else name.replace("_", " ")
