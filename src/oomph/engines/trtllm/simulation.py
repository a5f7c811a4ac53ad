"""A plan of TensorRT-LLM -> what its schedulers work with, and how long its steps take."""

from __future__ import annotations

from functools import partial

from oomph.engines.trtllm.blocks import Window
from oomph.engines.trtllm.capacity_loop import Capacity, CapacityLoop
from oomph.engines.trtllm.timing import timing
from oomph.errors import CannotPlan, OomphError
from oomph.facts.trtllm.facts import at
from oomph.ir.deployment import Deployment
from oomph.ir.model import Experts, Model
from oomph.ir.plan import Plan
from oomph.simulate.accuracy import taken_over
from oomph.simulate.build import Built
from oomph.simulate.config import Config, Group
from oomph.simulate.timing import StepTime, unit
from oomph.units import cdiv

_TOO_LONG = "The sum of prompt length ({prompt}), query length ({output}) should not exceed max_seq_len ({length})"


def build(deployment: Deployment, model: Model, plan: Plan, *, timed: bool = True) -> Built:
    if not plan.fits:
        text = plan.verdict.message.split("\n")[0]
        raise OomphError(f"it does not start, so it serves nobody: {text or plan.verdict.stage}", hint="oomph plan")
    if plan.resolved["draft_tokens"]:
        raise CannotPlan("drafts are not simulated for TensorRT-LLM yet", hint="oomph plan counts their cache")
    capacity = capacity_of(deployment, plan)
    routed = any(isinstance(module, Experts) for layer in model.layers for module in layer.block.modules)
    groups, time = _times(plan, model, capacity, timed)
    config = Config(
        groups=groups,
        num_blocks=capacity.windows[-1][1] + 1,
        max_num_seqs=capacity.max_batch_size,
        max_num_batched_tokens=capacity.max_num_tokens,
        max_model_len=capacity.max_seq_len,
    )
    return Built(
        config=config,
        time=time,
        error=taken_over(routed),
        notes=(*deployment.notes, *_notes(capacity)),
        loop=partial(CapacityLoop, capacity),
        too_long=_TOO_LONG,
        max_concurrency=plan.kv.max_concurrency if plan.kv is not None else 0.0,
    )


def capacity_of(deployment: Deployment, plan: Plan) -> Capacity:
    resolved = plan.resolved
    block = int(resolved["tokens_per_block"])
    pools = sorted((int(window), int(count)) for window, count in resolved["blocks_per_window"].items())
    return Capacity(
        policy=resolved["policy"],
        windows=tuple((Window(size, block), count) for size, count in pools),
        max_batch_size=int(resolved["max_batch_size"]),
        max_num_tokens=int(resolved["max_num_tokens"]),
        max_seq_len=int(resolved["served_max_seq_len"]),
        chunked=bool(resolved["chunked_prefill"]),
        slack=at(deployment.engine.version).memory.window_slack,
    )


def _times(plan: Plan, model: Model, capacity: Capacity, timed: bool) -> tuple[tuple[Group, ...], StepTime]:
    own = timing(plan, model) if timed else None
    if own is not None:
        return own.groups, own.time
    if timed:
        raise CannotPlan("nobody knows how fast this card is: its steps cannot be timed")
    groups = (Group("full", capacity.windows[-1][0].block),)
    return groups, unit(len(groups))


def _notes(capacity: Capacity) -> list[str]:
    window, blocks = capacity.windows[-1]
    notes = ["drafts, beams and reused prompts are not simulated for TensorRT-LLM, and no speed of it was compared"]
    if capacity.policy != "MAX_UTILIZATION":
        whole = cdiv(capacity.max_seq_len, window.block)
        notes.append(
            f"{capacity.policy} reserves blocks up to a request's max_tokens, taken to be what it gets; clients that "
            f"leave max_tokens out reserve {capacity.max_seq_len:,} tokens, and at most {blocks // whole:,} run at once"
        )
    if not capacity.chunked:
        notes.append(f"chunked prefill is off: prompts of more than {capacity.max_num_tokens:,} tokens are refused")
    return notes
