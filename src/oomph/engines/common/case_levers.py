"""A lever in an engine's own words for a log: what a rule of the doctor names where no plan says which setting to take.

A rule names a lever by what it does ("context", "share_down") and gives the figure that its log proves, if any; label,
cost, order and the usual figure stand in the engine's table of these rows, under the name that its lever has for plans.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from oomph.ir import Change, Lever
from oomph.ir.advice import Kind

if TYPE_CHECKING:
    from oomph.doctor.case import Case

Figure = int | float | str
Named = str | tuple[str, Figure | None]  # a lever, and the figure that the log proves


class CaseRow(Struct, frozen=True):
    label: str  # as it is typed; {n} is the figure. Of kind "environment" it is a variable and its value
    cost: str = ""
    rank: int = 5  # 0 costs nothing .. 9 needs other hardware
    lever: str = ""  # its row in the engine's table for plans, where that is called otherwise
    usual: Figure | None = None  # the figure where the log proves none
    field: str = ""  # the flag that takes the figure
    flags: dict[str, Any] = {}  # further flags; None takes one away
    kind: Kind = "flag"
    moves: tuple[str, ...] = ()  # terms that it moves: what a log shows of them is planned again
    popular: str = ""  # as guides word it, where it does not help
    below: "Callable[[Case], Figure | None] | None" = None  # what is in force: the figure is less than that
    least: int = 2  # a figure that nobody goes below
    most: float | None = None  # a figure beyond which it is not safe: more than that is not offered

    def of(self, name: str, case: "Case", figure: Figure | None = None) -> Lever | None:
        """None where it is at its least already, or where only more than is safe would do."""
        if figure is None:
            figure = self.usual
            if self.below is not None and (lower := _lowered(self.below(case), figure, self.least)) is not None:
                figure = lower
                if not figure:
                    return None
        if self.most is not None and isinstance(figure, int | float) and figure > self.most:
            return None
        shown = "N" if figure is None else f"{figure:g}" if isinstance(figure, float) else str(figure)
        flags = {**self.flags, **({self.field: figure} if self.field and figure is not None else {})}
        lever = self.lever or self.field or name
        label = self.label.replace("{n}", shown)
        cost = self.cost.replace("{n}", f"{figure:,}" if isinstance(figure, int) else shown)
        variable, _, value = label.partition("=")
        environment = {variable: value} if self.kind == "environment" and " " not in label else {}
        version = shown if self.kind == "release" else ""
        change = Change(
            lever, label, self.kind, flags, environment, version=version, cost=cost, rank=self.rank, moves=self.moves
        )
        return Lever(lever, (change,))


def _lowered(current: Figure | None, usual: Figure | None, least: int) -> Figure | None:
    """Less than what is in force, where the usual figure is not less; None: the usual one will do, 0: it is at its
    least."""
    if isinstance(current, bool | str) or current is None or usual is None or isinstance(usual, str) or usual < current:
        return None
    if isinstance(current, float):
        return round(current - 0.1, 2) if current > 0.3 else 0
    return max(least, current // 2) if current > least else 0


def in_force(*flags: str) -> "Callable[[Case], Figure | None]":
    """What the first of these flags says that the log shows."""
    return lambda case: next((value for flag in flags if (value := case.flag(flag)) is not None), None)


Table = Mapping[str, CaseRow]
