"""Cards for people: one line for each number of one card, the cheapest first."""

from __future__ import annotations

import sys
from typing import TextIO

from oomph.report.terminal import Style, columns, wrap
from oomph.search.cards import Card, Cards
from oomph.units import gib


def print_cards(found: Cards, out: TextIO | None = None) -> None:
    stream = out or sys.stdout
    stream.write(render(found, Style(stream)) + "\n")


def cards_text(cards: Cards, *, width: int, everything: bool) -> str:
    return render(cards, Style(), width=width)


def render(found: Cards, style: Style, *, width: int = 0) -> str:
    width = width or columns()
    want = found.want
    people = f"{want.users} user{'s' if want.users > 1 else ''}"
    lines = ["", f"  {style.bold(found.model)}   {want.context:,} tokens of context, {people} at once", ""]
    if not found.cards:
        lines.append(f"  {style.bad('NOTHING FITS')}   no card up to eight together, of {found.looked_at} looked at")
        return "\n".join(lines) + "\n"
    price = any(c.price is not None for c in found.cards)
    head = f"  {'price':>9}" if price else f"  {'memory':>9}"
    widest = max(len(_name(c)) for c in found.cards) + 1
    lines.append(style.bold(f"{head}  {'cards':<{widest}}{'free':>9}{'users':>7}{'longest':>9}  checkpoint"))
    lines += [line for c in found.cards for line in _line(c, price, widest, width)]
    if found.more:
        lines.append(style.dim("  there are more expensive ones: --all"))
    order = "price" if price else "memory (no prices given: --prices FILE)"
    said = (
        f"Cheapest first by {order}. Each line was planned, with a margin for what is not certain. free: on the "
        "fullest GPU at the worst; users: of this context; longest: for so many users."
    )
    lines += ["", *(style.dim(line) for line in wrap(said, width, "  ", "  "))]
    return "\n".join(lines) + "\n"


def _name(c: Card) -> str:
    return f"{c.count} x {c.name}" if c.count > 1 else c.name


def _line(c: Card, price: bool, widest: int, width: int) -> list[str]:
    first = f"{c.price:>9,.0f}" if price and c.price is not None else f"{c.nominal_gb:>6} GB"
    users = f"{c.users}+" if c.users == 256 else str(c.users)
    free = gib(max(0, c.headroom_bytes))
    figures = f"  {first}  {_name(c):<{widest}}{free:>9}{users:>7}{c.longest:>9,}  "
    whole = f"{figures}{c.checkpoint}" + (f" ({c.note})" if c.note else "")
    if len(whole) <= width or not c.note:
        return [whole]
    return [figures + c.checkpoint, f"{' ' * 13}({c.note})"]
