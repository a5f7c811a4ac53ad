"""check(paths): every deployment in the files of a repository, planned; a gate for CI.

    check(["deploy/", "compose.yaml"], gpu="2x L40S").exit_code

A file that holds deployments and cannot be planned is an item with its error: nothing is lost without a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from oomph.commands import Entry
from oomph.errors import OomphError
from oomph.ir.plan import Plan
from oomph.plan import plan

Outcome = Literal["fits", "at_risk", "close", "fails", "unread", "unplanned"]
# The outcome's exit code, the worst first: a start that must fail, an input that is wrong, one that needs something
# that is not known, a start that is too close to call.
EXIT_CODES: dict[Outcome, int] = {"fails": 1, "unread": 2, "unplanned": 3, "close": 4, "at_risk": 4, "fits": 0}


class Item(Struct, frozen=True):
    """One deployment of one file, planned; or why it could not be. One of `plan` and `error` is there."""

    file: str  # "" = it was typed
    name: str  # of the deployment inside the file
    line: int = 0  # where the file speaks of it, from 1; 0 = not known
    plan: Plan | None = None
    error: OomphError | None = None

    @property
    def outcome(self) -> Outcome:
        if self.plan is not None:
            return self.plan.verdict.outcome
        return "unplanned" if self.error is not None and self.error.exit_code == 3 else "unread"

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.outcome]


class Check(Struct, frozen=True):
    items: tuple[Item, ...]
    files: int = 0  # how many were looked at

    @property
    def outcome(self) -> Outcome:
        return worst(item.outcome for item in self.items)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.outcome]


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The one that decides the exit code; `fits` where there is none."""
    order = list(EXIT_CODES)
    return min(outcomes, key=order.index, default="fits")


def plan_entries(
    entries: Sequence[Entry],
    *,
    file: str = "",
    gpu: object = None,
    margin: int | str = 0,
    compile_cache: str = "",
    advise: bool = False,
) -> list[Item]:
    """Each entry planned; one that cannot be does not end the others."""
    items = []
    for entry in entries:
        answer: Plan | None = None
        error = entry.error
        if entry.deployment is not None:
            try:
                answer = plan(entry.deployment, gpu=gpu, margin=margin, compile_cache=compile_cache, advise=advise)
            except OomphError as refused:
                error = refused
        items.append(Item(file, entry.name, entry.line, answer, error))
    return items
