"""A context beyond the model's own: what an engine's refusal itself leaves open, planned."""

from msgspec import Struct
from msgspec.structs import replace

from oomph.commands import to_shell
from oomph.engines.registry import engine_of
from oomph.errors import OomphError
from oomph.ir import Deployment, Model
from oomph.search.outcome import judge
from oomph.search.request import knobs_of
from oomph.search.solve import Planner


class Longer(Struct, frozen=True):
    """A command that takes the context."""

    change: str
    cost: str
    command: str


def longer_context(deployment: Deployment, model: Model, context: int, planner: Planner) -> Longer | None:
    """`deployment`: the pick at the model's own length. None where the engine has no way that would start here."""
    longer = replace(deployment, flags={**deployment.flags, knobs_of(deployment).context: context})
    try:
        refused = planner(longer, model)
        for lever in engine_of(deployment).refusal_levers(refused):
            for change in lever.changes:
                if knobs_of(deployment).context in change.flags:
                    continue
                changed = replace(longer, flags={**longer.flags, **change.flags})
                plan = planner(changed, model)
                if judge(plan, margin=True).kind == "ok":
                    return Longer(change.label, change.cost, to_shell(plan.deployment))
    except OomphError:
        return None
    return None
