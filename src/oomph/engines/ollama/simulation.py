"""Ollama under a load: its own queue in front of the llama-server that it starts.

server/sched.go: OLLAMA_MAX_QUEUE limits the requests that wait for a model to be loaded; a loaded one takes all that
come. llm/llama_server.go: as many as OLLAMA_NUM_PARALLEL are sent on at once, and the others wait in the order of their
arrival (a weighted semaphore).
"""

from msgspec.structs import replace

from oomph.engines.llamacpp.scheduler.build import built, slots_of
from oomph.ir import Deployment, Model, Plan
from oomph.simulate.build import Built
from oomph.simulate.step_costs import Factors
from oomph.text.tables import all_that_hold


def build(
    deployment: Deployment, model: Model, plan: Plan, factors: Factors, *, accepted: float = 0.6, timed: bool = True
) -> Built:
    slots = slots_of(plan.resolved["llama_server"], model, plan)
    slots = replace(slots, in_order=True, cuts_prompts=True)
    notes = all_that_hold(
        (
            slots.count == 1,
            "OLLAMA_NUM_PARALLEL is 1: one request is answered at a time, and the others wait for it",
        ),
        (
            True,
            "a prompt that is longer than num_ctx is cut, not refused; OLLAMA_MAX_QUEUE counts only while a model is "
            "being loaded, which is not played",
        ),
    )
    return built(plan, model, slots, (*deployment.notes, *notes), "", scale=factors.scale, timed=timed)
