"""Pictures to scale without a script: SVG whose widths are percentages, so that text keeps its size on a phone."""

from __future__ import annotations

from oomph.web.markup import Html, el


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
