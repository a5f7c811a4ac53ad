"""Points over two axes, each a button that loads its command; a script adds the hover."""

import math

from oomph.report.answer import Axis, Scatter
from oomph.web.elements import percent
from oomph.web.markup import Html, el

_HEIGHT, _BASE, _LEFT = 280, 240, 0.09


def scatter(chart: Scatter) -> Html:
    """Two axes whose ticks span the picture; the legend below."""
    across, up = chart.across, chart.up

    def at_x(value: float) -> float:
        return _LEFT + (0.96 - _LEFT) * _share(value, across)

    def at_y(value: float) -> float:
        return _BASE - (_BASE - 14) * _share(value, up)

    lines = [
        el("line", cls="grid", x1=percent(_LEFT), x2="97%", y1=f"{at_y(value):.1f}", y2=f"{at_y(value):.1f}")
        for value, _ in up.ticks
    ] + [
        el("line", cls="grid", x1=percent(at_x(value)), x2=percent(at_x(value)), y1=10, y2=_BASE)
        for value, _ in across.ticks
    ]  # fmt: skip
    words = [
        el("text", text, x=percent(_LEFT), dx=-8, y=f"{at_y(value) + 4:.1f}", cls="end") for value, text in up.ticks
    ] + [el("text", text, x=percent(at_x(value)), y=_BASE + 18, cls="mid") for value, text in across.ticks]
    titles = [
        el("text", across.title, x="97%", y=_BASE + 36, cls="end title"),
        el("text", up.title, x=0, y=-6, cls="title"),
    ]
    points = [
        el("g", el("circle", el("title", dot.words), cx=percent(at_x(dot.x)), cy=f"{at_y(dot.y):.1f}",
                   r=f"{dot.radius:.1f}", cls=f"dot {dot.colour}{' chosen' if dot.chosen else ''}"),
           tabindex=0, role="button", aria_label=dot.words, data_command=dot.command, cls="point")
        for dot in sorted(chart.dots, key=lambda d: -d.radius)
    ]  # fmt: skip
    drawing = el("svg", lines, words, titles, points, cls="scatter", width="100%", height=_HEIGHT, role="group",
                 aria_label=chart.label)  # fmt: skip
    legend = [el("li", el("i", cls=f"chip round {colour}"), words) for colour, words in chart.legend]
    legend += [el("li", chart.remark)] if chart.remark else []
    return el("figure", drawing, el("ul", legend, cls="legend"), cls="chart")


def _share(value: float, axis: Axis) -> float:
    if axis.even:
        first, last = axis.ticks[0][0], axis.ticks[-1][0]
        return (value - first) / (last - first) if last > first else 0.5
    low, high = math.log(axis.ticks[0][0]), math.log(axis.ticks[-1][0])
    return (math.log(max(value, 1e-9)) - low) / (high - low) if high > low else 0.5
