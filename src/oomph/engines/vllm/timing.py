"""How long vLLM's steps take: the time model of `oomph simulate`."""

from oomph.engines.registry import engine_of
from oomph.errors import OomphError
from oomph.ir import Model, Plan
from oomph.simulate.speed import Timing
from oomph.simulate.step_costs import Factors

ACCEPTED = 0.6  # of drafted tokens, as simulate's default


def timing(plan: Plan, model: Model) -> Timing | None:
    """None: a model without a KV cache, or a card whose speed nobody knows."""
    deployment = plan.deployment
    try:
        built = engine_of(deployment).simulation(deployment, model, plan, Factors(), accepted=ACCEPTED, timed=True)
    except OomphError:
        return None
    config = built.config
    return Timing(built.time, config.groups, config.budget, built.error, 1 + config.accepted / 1000)
