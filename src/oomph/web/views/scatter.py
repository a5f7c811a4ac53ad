"""Points over two axes, each a button that loads its command; a script adds the hover."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from oomph.web.markup import Html, el
from oomph.web.views.shared import percent

_HEIGHT, _BASE, _LEFT = 280, 240, 0.09


class Dot(NamedTuple):
    x: float
    y: float
    cls: str  # its colour
    radius: float
    words: str  # what the hover and a screen reader say
    command: str
    chosen: bool = False


class Axis(NamedTuple):
    title: str
    ticks: tuple[tuple[float, str], ...]
    even: bool = False  # linear instead of logarithmic


def scatter(dots: Sequence[Dot], across: Axis, up: Axis, label: str) -> Html:
    """`across` and `up`: their ticks span the picture."""

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
                   r=f"{dot.radius:.1f}", cls=f"dot {dot.cls}{' chosen' if dot.chosen else ''}"),
           tabindex=0, role="button", aria_label=dot.words, data_command=dot.command, cls="point")
        for dot in sorted(dots, key=lambda d: -d.radius)
    ]  # fmt: skip
    return el("svg", lines, words, titles, points, cls="scatter", width="100%", height=_HEIGHT, role="group",
              aria_label=label)  # fmt: skip


def _share(value: float, axis: Axis) -> float:
    if axis.even:
        first, last = axis.ticks[0][0], axis.ticks[-1][0]
        return (value - first) / (last - first) if last > first else 0.5
    low, high = math.log(axis.ticks[0][0]), math.log(axis.ticks[-1][0])
    return (math.log(max(value, 1e-9)) - low) / (high - low) if high > low else 0.5


_MOST_STEPS = 6  # between the ticks of an axis


def doublings(values: Sequence[float], title: str) -> Axis:
    """An axis from the power of two below the smallest to the one above the largest, with few ticks."""
    low = math.floor(math.log2(max(1.0, min(values, default=1.0))))
    high = max(low + 1, math.ceil(math.log2(max(1.0, max(values, default=1.0)))))
    step = max(1, math.ceil((high - low) / _MOST_STEPS))
    powers = [*range(low, high, step), high]
    return Axis(title, tuple((float(2**p), _short(2**p)) for p in powers))


def tens(values: Sequence[float], title: str) -> Axis:
    """A linear axis in steps of ten, from the ten below the smallest to the one above the largest."""
    low = 10 * math.floor(min(values, default=0.0) / 10)
    high = max(low + 10, 10 * math.ceil(max(values, default=0.0) / 10))
    return Axis(title, tuple((float(n), str(n)) for n in range(low, high + 1, 10)), even=True)


def _short(n: int) -> str:
    return f"{n // 1048576}M" if n >= 1 << 20 else f"{n // 1024}k" if n >= 1024 else str(n)
