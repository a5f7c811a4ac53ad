"""Cards for people: one line for each number of one card, the cheapest first."""

from __future__ import annotations

import sys
from typing import TextIO

from oomph.report.text import Style
from oomph.search.cards import Card, Cards
from oomph.units import gib


def print_cards(found: Cards, out: TextIO | None = None) -> None:
    stream = out or sys.stdout
    stream.write(render(found, Style(stream)) + "\n")


def render(found: Cards, style: Style) -> str:
    want = found.want
    people = f"{want.users} user{'s' if want.users > 1 else ''}"
    lines = ["", f"  {style.bold(found.model)}   {want.context:,} tokens of context, {people} at once", ""]
    if not found.cards:
        lines.append(f"  {style.bad('NOTHING FITS')}   no card up to eight together, of {found.looked_at} looked at")
        return "\n".join(lines) + "\n"
    price = any(c.price is not None for c in found.cards)
    head = f"  {'price':>9}" if price else f"  {'memory':>9}"
    lines.append(style.bold(f"{head}  {'cards':<26}{'spare':>9}{'users':>7}{'longest':>10}  checkpoint"))
    lines += [_line(c, price) for c in found.cards]
    if found.more:
        lines.append(style.dim("  there are dearer ones: --all"))
    order = "price" if price else "memory (no prices given: --prices FILE)"
    lines += [
        "",
        style.dim(f"  Cheapest first by {order}. Each line was planned, with a margin for what is not certain."),
    ]
    lines.append(
        style.dim("  spare: on the fullest GPU at the worst; users: of this context; longest: for so many users.")
    )
    return "\n".join(lines) + "\n"


def _line(c: Card, price: bool) -> str:
    first = f"{c.price:>9,.0f}" if price and c.price is not None else f"{c.nominal_gb:>6} GB"
    name = f"{c.count} x {c.name}" if c.count > 1 else c.name
    users = f"{c.users}+" if c.users == 256 else str(c.users)
    more = f" ({c.note})" if c.note else ""
    spare = gib(max(0, c.headroom_bytes))
    return f"  {first}  {name:<26}{spare:>9}{users:>7}{c.longest:>10,}  {c.checkpoint}{more}"
