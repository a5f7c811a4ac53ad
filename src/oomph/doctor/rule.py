"""What a rule is: a decorated function in a file of doctor/rules or engines/NAME/rules, whose docstring is its page."""

import sys
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from oomph.engines.common.case_levers import Named
from oomph.ir import Change, StageName

if TYPE_CHECKING:
    from oomph.doctor.case import Case


class Tier(IntEnum):
    """What a diagnosis rests on. The numbers are what `score` in the JSON has always been scaled to; only their order
    counts, and inside a tier a rule's `over` decides."""

    SAID = 100  # the engine's own words name the cause
    COMPUTED = 90  # figures or frames of the log prove it
    LIKELY = 70  # it fits what is there, and nothing else does as well
    POSSIBLE = 50  # nothing speaks against it
    REMARK = 30  # worth a line, never the cause of a failure


SURE = Tier.LIKELY  # a diagnosis at or above it is a cause, below it a possibility


class Finding(Struct, frozen=True):
    """What a rule says of a case. It names levers; what they are called, cost and may be set to is the engine's."""

    tier: Tier
    text: str  # the arithmetic, as a paragraph
    lines: tuple[int, ...] = ()
    levers: tuple[Named | Change, ...] = ()  # what helps, with the figures that the log proves
    useless: dict[str, str] = {}  # levers that do not help for a reason of this rule's; the stage's own follow
    settle: str = ""  # the line or the command that would decide it


class Rule(Struct, frozen=True):
    id: str
    title: str
    stages: tuple[StageName, ...]
    match: "Callable[[Case], Finding | None]"
    at_stage: bool = False  # True: it speaks only of a run that failed at one of its stages
    engines: tuple[str, ...] = ("vllm",)
    since: str = ""
    until: str = ""
    dated: bool = True  # False: `match` looks at the release itself, or other builds word it so too
    failure: bool = True  # False: a misreading or a waste, the run itself did not fail
    over: tuple[str, ...] = ()  # rules of the same tier that say less about the same case
    about_memory: bool = True  # False: it stands although something else than memory ended the run
    fallback: bool = False  # True: every other rule of the same tier says more
    names_cause: bool = True  # False: it only says where the cause would stand
    plan_adds: Literal["", "weights", "pool"] = ""  # which of a plan's figures belong behind its text
    page: str = ""  # its documentation: what it is, how to recognise it, what fixes it, what does not, evidence

    def speak(self, case: "Case") -> Finding | None:
        elsewhere = self.at_stage and not (case.failed and case.stage in self.stages)
        return None if elsewhere else self.match(case)

    def __call__(self, case: "Case") -> Finding | None:
        """What it says of a case, whatever its stage."""
        return self.match(case)


Match = Callable[["Case"], Finding | None]


def rule(*stages: StageName, engines: tuple[str, ...] = (), **options: Any) -> Callable[[Match], Rule]:
    """Makes a rule of a file's `match`: the docstring begins with its id and its title, the folder is its engine's."""

    def decorate(match: Match) -> Rule:
        page = sys.modules[match.__module__].__doc__ or ""
        name, _, title = page.partition("\n")[0].partition(": ")
        own = engines or (match.__module__.split(".")[2],)  # oomph.engines.NAME.rules.FILE
        return Rule(name, title.rstrip("."), stages, match, engines=own, page=page, **options)

    return decorate
