"""A plan of SGLang -> what its scheduler works with, and how long its steps take."""

from typing import get_args

from msgspec.structs import replace

from oomph.engines.sglang.scheduler.loop import Loop
from oomph.engines.sglang.scheduler.settings import Eviction, Policy, Settings
from oomph.engines.sglang.timing import error_of, timing
from oomph.errors import CannotPlan
from oomph.facts.sglang.facts import at
from oomph.ir import Deployment, Experts, Model, Plan
from oomph.simulate.build import Built, require_start
from oomph.simulate.config import Config, Group
from oomph.simulate.timing import StepTime, unit
from oomph.text.tables import all_that_hold

# managers/tokenizer_manager.py _validate_one_request
_TOO_LONG = "The input ({prompt} tokens) is longer than the model's context length ({length} tokens)."


def build(deployment: Deployment, model: Model, plan: Plan, *, scale: float = 1.0, timed: bool = True) -> Built:
    require_start(plan)
    _refuse_unplayed(plan)
    settings = settings_of(deployment, plan)
    groups, time = _times(plan, model, settings, timed)
    config = Config(
        groups=groups,
        num_blocks=settings.pages + 1,
        max_num_seqs=settings.max_running_requests,
        max_num_batched_tokens=settings.chunk or settings.max_prefill_tokens,
        max_model_len=settings.context_length,
    )
    routed = any(isinstance(module, Experts) for layer in model.layers for module in layer.block.modules)
    return Built(
        config=config,
        time=time if scale == 1.0 else time.scaled(scale),
        error=error_of(plan, routed),
        notes=(*deployment.notes, *_notes(plan, settings)),
        loop=lambda config, time, workload, observer, _: Loop(settings, config, time, workload, observer),
        replicas=_replicas(plan),
        too_long=_TOO_LONG,
        max_concurrency=plan.kv.max_concurrency if plan.kv is not None else 0.0,
    )


def settings_of(deployment: Deployment, plan: Plan) -> Settings:
    resolved, flags = plan.resolved, deployment.flags
    threshold = flags.get("priority_scheduling_preemption_threshold")
    replicas = int(resolved["attn_dp_size"])  # max_running_requests is that of all groups (tp_worker.py)
    return Settings(
        rules=at(deployment.engine.version).scheduler,
        tokens=int(resolved["max_total_num_tokens"]),
        page_size=int(resolved["page_size"]),
        max_running_requests=max(1, int(resolved["max_running_requests"]) // max(1, replicas)),
        max_prefill_tokens=int(resolved["max_prefill_tokens"]),
        context_length=int(resolved["context_length"]),
        chunk=max(0, int(resolved["chunked_prefill_size"])),
        mixed=bool(flags.get("enable_mixed_chunk")),
        policy=flags.get("schedule_policy") or "fcfs",
        conservativeness=float(flags.get("schedule_conservativeness") or 1.0),
        radix=not resolved["disable_radix_cache"],
        eviction=flags.get("radix_eviction_policy") or "lru",
        priority=bool(flags.get("enable_priority_scheduling")),
        low_first=bool(flags.get("schedule_low_priority_values_first")),
        preempts=not flags.get("disable_priority_preemption"),
        preemption_threshold=10 if threshold is None else int(threshold),
        overlap=not resolved["disable_overlap_schedule"],
    )


def _replicas(plan: Plan) -> int:
    """Each replica, and each group of data-parallel attention, has a scheduler and a pool of its own."""
    return max(1, int(plan.resolved["attn_dp_size"]), int(plan.resolved["dp_size"]))


def _refuse_unplayed(plan: Plan) -> None:
    resolved, flags = plan.resolved, plan.deployment.flags
    policy, eviction = flags.get("schedule_policy"), flags.get("radix_eviction_policy")
    kinds = all_that_hold(
        (resolved["speculative_algorithm"], "speculative decoding"),
        (int(resolved["pp_size"]) > 1, "a pipeline"),
        (policy and policy not in get_args(Policy), f"--schedule-policy {policy}"),
        (eviction and eviction not in get_args(Eviction), f"--radix-eviction-policy {eviction}"),
    )
    if kinds:
        raise CannotPlan(
            f"SGLang's scheduler with {kinds[0]} is not written down here", hint="leave it out of the command"
        )


def _times(plan: Plan, model: Model, settings: Settings, timed: bool) -> tuple[tuple[Group, ...], StepTime]:
    own = timing(plan, model) if timed else None
    if own is not None:
        groups = tuple(replace(group, block_size=settings.page_size) for group in own.groups)
        return groups, own.time
    if timed:
        raise CannotPlan("nobody knows how fast this card is: its steps cannot be timed")
    return (Group("full", settings.page_size),), unit(1)


def _notes(plan: Plan, settings: Settings) -> list[str]:
    resolved = plan.resolved
    return all_that_hold(
        (
            True,
            "a request's max_tokens is taken to be what it gets; SGLang reserves by it, so that clients who leave it "
            "out are let in later",
        ),
        (
            resolved.get("swa_max_total_num_tokens"),
            "the pool of the sliding-window layers is taken to be large enough: only that of the others is followed",
        ),
        (
            resolved.get("max_mamba_cache_size"),
            "recurrent states bound the requests that run; that the tree keeps some of them is not followed, so that "
            "prefixes are found more often here",
        ),
        (
            plan.deployment.flags.get("enable_hierarchical_cache"),
            "what HiCache keeps in host memory is not found again",
        ),
        (
            _replicas(plan) > 1,
            f"{_replicas(plan)} schedulers with a pool each: the fullest is simulated and counted as many times; a "
            "user's turns are taken to reach the same one",
        ),
    )
