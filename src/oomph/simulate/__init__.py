"""How many users a deployment really serves: its engine's scheduler (engines/NAME/scheduler) on the planned KV cache.

config.py     what a scheduler works with: groups of the block pool, its settings, a request, what became of it
timing.py     how long a step takes; step_costs.py: what its parts cost; accuracy.py: how far that was off
build.py      a command -> its plan, config and times
workloads.py  who asks what and when; traces.py: from a file
play.py       one load played; search.py: the largest load that is held; result.py: what is kept of a run
api.py        run(), held()
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oomph.simulate.api import held as held, run as run
    from oomph.simulate.build import Factors as Factors, prepare as prepare
    from oomph.simulate.result import Result as Result
    from oomph.simulate.search import Held as Held, Simulation as Simulation, Target as Target, sweep as sweep

_PUBLIC = {
    "Factors": "build", "Held": "api", "Result": "result", "Simulation": "api", "Target": "api", "held": "api",
    "prepare": "api", "run": "api", "sweep": "api",
}  # fmt: skip
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'oomph.simulate' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"oomph.simulate.{_PUBLIC[name]}"), name)
