"""What fit() answers: the configuration that is best, and those beside it."""

from msgspec import Struct

from oomph.commands import to_shell
from oomph.ir import Device, Plan
from oomph.ir.printed import Printed
from oomph.search.longer import Longer
from oomph.search.neighbours import Neighbour
from oomph.search.request import Refused, Want
from oomph.search.solve import Point
from oomph.simulate.speed import Speed


class Configuration(Struct, frozen=True):
    """One configuration of the front, planned."""

    point: Point
    plan: Plan
    relative_speed: float  # 1.0 = the fastest of the front
    gives_up: tuple[str, ...]
    precision: str = ""  # of most of its weights
    note: str = ""  # what tells it from the engine's defaults
    speed: Speed | None = None  # of one user and of all; None: nobody knows how fast this card is
    typed: str = ""  # the command where more is typed than the deployment's own words

    @property
    def command(self) -> str:
        return self.typed or to_shell(self.plan.deployment)


class Fit(Printed, frozen=True):
    """What `oomph fit` prints: the configuration that serves a model best on some GPUs, and those beside it."""

    model: str
    gpus: tuple[Device, ...]
    want: Want
    engine: str  # its title
    met: bool  # the context and users asked for are there
    close: bool  # what was asked for is too close to call
    pick: Configuration | None
    front: tuple[Configuration, ...]
    nearest: tuple[Configuration, ...] = ()  # where it is not met
    neighbours: tuple[Neighbour, ...] = ()
    refused: tuple[Refused, ...] = ()  # checkpoints that are no part of the answer
    refusal: str = ""  # what the engine says of every one of them, before any memory is touched
    plans: int = 0
    notes: tuple[str, ...] = ()
    objective: str = ""  # by which the pick is the best
    measure: str = ""  # the same in one line of a screen
    longest: int = 0  # context that the model takes
    longer: Longer | None = None  # a context beyond that, where the engine has a way

    def in_short(self) -> str:
        if self.pick is None:
            return f"{self.model}: nothing fits"
        point = self.pick.point
        met = "" if self.met else " (not what was asked)"
        return f"{point.arm.model}: {point.context:,} tokens, {point.users} users{met}"
