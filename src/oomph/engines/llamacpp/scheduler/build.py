"""A plan of llama.cpp -> what its server's slots work with, and how long its steps take."""

from collections.abc import Mapping
from typing import Any

from oomph.engines.llamacpp.scheduler.loop import SlotLoop
from oomph.engines.llamacpp.scheduler.slots import Slots
from oomph.engines.llamacpp.timing import timing
from oomph.errors import CannotPlan
from oomph.facts.llamacpp.builds import SLOTS_READ, parse_build
from oomph.ir import Attention, Deployment, Model, Plan
from oomph.simulate.accuracy import taken_over
from oomph.simulate.build import Built, require_start
from oomph.simulate.config import Config, Group
from oomph.simulate.step_costs import Factors
from oomph.simulate.timing import unit
from oomph.text.tables import all_that_hold
from oomph.units import MIB

# server-context.cpp, pre_decode
_TOO_LONG = "request ({prompt} tokens) exceeds the available context size ({length} tokens), try increasing it"


def build(
    deployment: Deployment, model: Model, plan: Plan, factors: Factors, *, accepted: float = 0.6, timed: bool = True
) -> Built:
    """`factors` are vLLM's: llama.cpp's own stand in timing.py. Drafts are not played."""
    slots = slots_of(deployment.flags, model, plan)
    return built(plan, model, slots, _notes(deployment, plan, slots), _TOO_LONG, scale=factors.scale, timed=timed)


def slots_of(flags: Mapping[str, Any], model: Model, plan: Plan) -> Slots:
    require_start(plan)
    resolved = plan.resolved
    if flags.get("embeddings") or flags.get("reranking"):
        raise CannotPlan("a server of embeddings answers without generating: there is nothing to simulate")
    kinds = {group.kind: group for group in plan.kv.groups} if plan.kv is not None else {}
    window = kinds.get("sliding_window") if not resolved["swa_full"] else None
    unified, recurrent = bool(resolved["kv_unified"]), "state" in kinds
    cache = int(flags.get("cache_ram", resolved["host"]["prompt_cache_limit"] // MIB))
    return Slots(
        count=int(resolved["n_seq_max"]),
        cells=int(resolved["n_ctx"]),
        context=_slot_context(flags, model, int(resolved["n_ctx_seq"])),
        batch=int(resolved["n_batch"]),
        micro_batch=int(resolved["n_ubatch"]),
        unified=unified,
        split="simple" if unified and not recurrent else "equal" if unified else "sequential",
        similarity=_number(flags.get("slot_prompt_similarity"), 0.1),
        mixes=bool(flags.get("cont_batching", True)),
        shifts=bool(flags.get("context_shift", False)),
        cache_bytes=cache * MIB if cache > 0 else cache,
        saves_idle=bool(flags.get("cache_idle_slots", True)),
        token_bytes=max(1, plan.kv.bytes_per_block) if plan.kv is not None else 1,
        checkpoints=int(flags.get("ctx_checkpoints", 32)) if recurrent or window is not None else 0,
        window=_window(model) if window is not None else 0,
        window_cells=window.blocks_per_request if window is not None else 0,
    )


def _slot_context(flags: Mapping[str, Any], model: Model, context: int) -> int:
    """n_ctx_slot: never more than the model was trained for."""
    capped = min(context, int(flags.get("kv_unified_per_slot") or context))
    return min(capped, model.max_position or capped)


def _window(model: Model) -> int:
    """llama_model_n_swa."""
    mixers = (mixer for layer in model.layers for mixer in layer.mixers)
    return max((mixer.window or mixer.chunk for mixer in mixers if isinstance(mixer, Attention)), default=0)


def _number(text: object, usual: float) -> float:
    try:
        return float(str(text)) if text is not None else usual
    except ValueError:
        return usual


def built(
    plan: Plan, model: Model, slots: Slots, notes: tuple[str, ...], too_long: str, *, scale: float, timed: bool
) -> Built:
    own = timing(plan, model) if timed else None
    if timed and own is None:
        raise CannotPlan("nobody knows how fast this card is: its steps cannot be timed")
    groups = own.groups if own is not None else (Group("full", 1),)
    time = own.time.scaled(scale) if own is not None else unit(1)
    config = Config(
        groups=groups,
        num_blocks=slots.cells + 1,
        max_num_seqs=slots.count,
        max_num_batched_tokens=slots.batch,
        max_model_len=slots.context,
    )
    return Built(
        config=config,
        time=time,
        error=own.error if own is not None else taken_over(False, "one"),
        notes=notes,
        loop=lambda config, time, workload, observer, _: SlotLoop(slots, config, time, workload, observer),
        too_long=too_long,
        max_concurrency=0.0,  # it prints none
    )


def _notes(deployment: Deployment, plan: Plan, slots: Slots) -> tuple[str, ...]:
    build = int(parse_build(deployment.engine.version))
    return (
        *deployment.notes,
        *all_that_hold(
            (
                build != SLOTS_READ,
                f"the slots are those of b{SLOTS_READ} (v0.5.0), whose source was read and whose server was run",
            ),
            (
                slots.unified and slots.count > 1,
                f"the {slots.count} slots share {slots.cells:,} cells: where they are full, idle slots forget their "
                'prompts, and then all requests end with "Context size has been exceeded."',
            ),
            (plan.resolved["beside"], "drafts are not played: every step gives one token"),
        ),
    )
