"""A plan of TensorRT-LLM -> what its schedulers work with, and how long its steps take."""

from oomph.engines.trtllm.command.options_file import GRAPHS, OFF
from oomph.engines.trtllm.kv.blocks import Window
from oomph.engines.trtllm.scheduler.capacity import Capacity
from oomph.engines.trtllm.scheduler.loop import CapacityLoop
from oomph.errors import CannotPlan
from oomph.facts.trtllm.facts import at
from oomph.ir import Deployment, Experts, Model, Plan
from oomph.simulate.accuracy import taken_over
from oomph.simulate.build import Built, require_start
from oomph.simulate.config import Config, Group
from oomph.simulate.links import layout_of
from oomph.simulate.speed import PlainFactors, Timing, plain_timing
from oomph.simulate.timing import StepTime, unit
from oomph.text.tables import all_that_hold
from oomph.units import cdiv

# llmapi/llm.py _check_arguments; without chunked prefill a prompt is one batch
_TOO_LONG = "The sum of prompt length ({prompt}), query length ({output}) should not exceed max_seq_len ({length})"
_TOO_WIDE = "The sum of prompt length ({prompt}), query length (0) should not exceed max_num_tokens (%d)"


def build(deployment: Deployment, model: Model, plan: Plan, *, accepted: float = 0.6, timed: bool = True) -> Built:
    """`accepted`: the share of drafted tokens that the model keeps."""
    require_start(plan)
    capacity = capacity_of(deployment, plan, accepted)
    _refuse_beams(capacity)
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
        error=taken_over(routed, layout_of(deployment.gpus[0].name, int(plan.resolved["tp_size"]))),
        notes=(*deployment.notes, *_notes(capacity, accepted)),
        loop=lambda config, time, workload, observer, _: CapacityLoop(capacity, config, time, workload, observer),
        too_long=_too_long(capacity),
        max_concurrency=plan.kv.max_concurrency if plan.kv is not None else 0.0,
    )


def capacity_of(deployment: Deployment, plan: Plan, accepted: float = 0.6) -> Capacity:
    resolved, rules = plan.resolved, at(deployment.engine.version).memory
    pools = sorted((int(window), int(count)) for window, count in resolved["blocks_per_window"].items())
    length, tokens = int(resolved["served_max_seq_len"]), int(resolved["max_num_tokens"])
    block, drafts = int(resolved["tokens_per_block"]), int(resolved["draft_tokens"])
    return Capacity(
        policy=resolved["policy"],
        windows=tuple((window_of(size, block, length, tokens), count) for size, count in pools),
        max_batch_size=int(resolved["max_batch_size"]),
        max_num_tokens=tokens,
        max_seq_len=length,
        chunked=bool(resolved["chunked_prefill"]),
        slack=rules.window_slack,
        beams=int(resolved["max_beam_width"]),
        drafts=drafts,
        accepted=round(1000 * drafts * accepted),
        reuses=bool(resolved["enable_block_reuse"]),
        counts_shared=rules.counts_shared_blocks,
    )


def window_of(size: int, block: int, length: int, max_num_tokens: int) -> Window:
    """resource_manager.py _set_temp_attention_window_inputs, kvCacheManager.h calculateTemporaryAttentionWindow: what a
    chunk may hold beyond a window; kvCacheManager.cpp maxTokenNum: every pool takes sequences of the whole context."""
    return Window(size, block, max(0, min(max_num_tokens, length - 1 - size)), max(size, length))


def _too_long(capacity: Capacity) -> str:
    """The engine's words for a request that it refuses: the first limit that a long prompt meets."""
    whole = capacity.chunked or capacity.max_num_tokens >= capacity.max_seq_len
    return _TOO_LONG if whole else _TOO_WIDE % capacity.max_num_tokens


def _refuse_beams(capacity: Capacity) -> None:
    """kvCacheManager.cpp detachFrontBlock and removeToken, in their own words."""
    if capacity.beams > 1 and capacity.slides:
        raise CannotPlan(
            "max_beam_width > 1 over a sliding window: [kv cache manager] detachBlock does not support beamWidth > 1 "
            "now",
            hint="leave kv_cache_config.max_attention_window out",
        )
    if capacity.beams > 1 and capacity.drafts:
        raise CannotPlan("max_beam_width > 1 with drafts: removeToken does not support beamWidth > 1")


def _times(plan: Plan, model: Model, capacity: Capacity, timed: bool) -> tuple[tuple[Group, ...], StepTime]:
    own = timing(plan, model) if timed else None
    if own is not None:
        return own.groups, own.time
    if timed:
        raise CannotPlan("nobody knows how fast this card is: its steps cannot be timed")
    groups = (Group("full", capacity.windows[-1][0].block),)
    return groups, unit(len(groups))


def _notes(capacity: Capacity, accepted: float) -> list[str]:
    window, blocks = capacity.windows[-1]
    whole = cdiv(capacity.max_seq_len, window.block) * capacity.beams
    return all_that_hold(
        (True, "no speed of TensorRT-LLM was compared: its steps take what vLLM's would"),
        (
            capacity.policy != "MAX_UTILIZATION",
            f"{capacity.policy} reserves blocks up to a request's max_tokens, taken to be what it gets; clients that "
            f"leave max_tokens out reserve {capacity.max_seq_len:,} tokens, and at most {blocks // whole:,} run at "
            "once",
        ),
        (
            not capacity.chunked,
            f"chunked prefill is off: prompts of more than {capacity.max_num_tokens:,} tokens are refused",
        ),
        (capacity.beams > 1, f"every request asks for {capacity.beams} beams (max_beam_width)"),
        (
            capacity.drafts,
            f"{accepted:.0%} of the drafted tokens are taken to be accepted (--accepted); their own layers take no "
            "time",
        ),
        (
            capacity.reuses and capacity.slides,
            "with sliding windows prompts are not found again here, although enable_block_reuse is on",
        ),
    )


# How long TensorRT-LLM's steps take: vLLM's factors, since no published speed of it is held.

FACTORS = PlainFactors(overhead_ms=0.5)  # the shares are vLLM's on the card


def timing(plan: Plan, model: Model | None) -> Timing | None:
    if model is None:
        return None
    routed = any(isinstance(module, Experts) for layer in model.layers for module in layer.block.modules)
    parallel = max(1, int(plan.resolved["tp_size"]))
    chunk = int(plan.resolved["max_num_tokens"])
    kv_bytes = (
        1.0 if str(plan.resolved["kv_dtype"]).startswith("F8") else 0.5625 if plan.resolved["kv_dtype"] == "F4" else 2.0
    )
    layout = layout_of(plan.deployment.gpus[0].name, parallel) if plan.deployment.gpus else "one"
    return plain_timing(
        plan,
        model,
        FACTORS,
        taken_over(routed, layout),
        parallel=parallel,
        chunk=max(chunk, 128),
        kv_bytes=kv_bytes,
        eager=plan.deployment.flags.get(GRAPHS) == OFF,
    )
