"""How long vLLM's steps take: the time model of `oomph simulate`."""

from oomph.engines.registry import engine_of
from oomph.errors import OomphError
from oomph.ir import Deployment, Model, Plan
from oomph.simulate.speed import Timing, card_of, slowest
from oomph.simulate.step_costs import Factors, layer_kernels
from oomph.simulate.timing import SECOND

ACCEPTED = 0.6  # of drafted tokens, as simulate's default


def timing(plan: Plan, model: Model | None) -> Timing | None:
    """None: a model without a KV cache, or a card whose speed nobody knows."""
    if model is None:
        return None
    deployment = plan.deployment
    try:
        built = engine_of(deployment).simulation(deployment, model, plan, Factors(), accepted=ACCEPTED, timed=True)
    except OomphError:
        return None
    config = built.config
    launches = _launches(deployment, model) if built.largest_graph else 0
    return Timing(
        built.time,
        config.groups,
        config.budget,
        built.error,
        1 + config.accepted / 1000,
        built.largest_graph,
        launches=launches,
    )


def _launches(deployment: Deployment, model: Model) -> int:
    """What a step without a graph costs more: each kernel is called from Python."""
    card, factors = card_of(slowest(deployment.gpus)), Factors()
    kernels = sum(layer_kernels(layer, card) for layer in model.layers) if card is not None else 0
    return round(kernels * (factors.launch_us - factors.kernel_us) / 1e6 * SECOND)
