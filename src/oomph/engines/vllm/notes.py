"""What a plan says beside its figures: where the engine itself turns a saving into a failure, and bare refusals."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.engines.vllm.kv_check import Refusal
from oomph.engines.vllm.resolve import Resolved
from oomph.engines.vllm.safe_utilization import safe_utilization
from oomph.engines.vllm.settings import scaled_rotary
from oomph.engines.vllm.timeline import RankInput
from oomph.facts.vllm.known import GGUF, GGUF_NOTE, GGUF_REFUSAL
from oomph.ir import Model, Plan, Verdict

_AFTER_KV = ("kv_alloc", "cudagraph_capture", "sampler_warmup")


def failure_notes(worst: Verdict, model: Model, resolved: Resolved, inputs: Sequence[RankInput]) -> tuple[str, ...]:
    """Why less context, fewer sequences or an eager start may have made it worse."""
    if worst.fits:
        return ()
    notes = []
    if worst.stage in _AFTER_KV and resolved.kv_cache_memory_bytes is None:
        notes.append(
            "the KV cache takes all that the budget leaves: what is saved before it makes the cache larger, not the "
            "room behind it; --gpu-memory-utilization does"
        )
    longest = max((m.max_tokens for m in model.modalities), default=0)
    if inputs[0].peak == "encoder" and resolved.max_model_len < longest:
        notes.append(
            "profiling encodes as many items as a batch holds, none longer than the context: a shorter context packs "
            "more of them"
        )
    if resolved.enforce_eager and scaled_rotary(model):
        notes.append("an eager start keeps this model's rotary tables in 32 bits: twice what a compiled one holds")
    return tuple(notes)


def utilization_notes(plan: Plan) -> tuple[str, ...]:
    """A start that fits, with less room for what follows it than is safe on such cards."""
    if plan.verdict.outcome != "fits" or "gpu_memory_utilization" not in plan.deployment.flags:
        return ()
    safe, share = safe_utilization(plan), plan.resolved["gpu_memory_utilization"]
    if share <= safe.value:
        return ()
    return (f"--gpu-memory-utilization {share:g} is above {safe.value:.2f}, the highest safe here: {safe.reason}",)


def refusal_text(refusal: Refusal) -> str:
    """An assertion without words has only its type to print."""
    return refusal.message or refusal.type


def refusal_notes(refusal: Refusal, model: Model, resolved: Resolved) -> tuple[str, ...]:
    if model.quantization is not None and model.quantization.method == GGUF:
        return (GGUF_NOTE,) if refusal.message == GGUF_REFUSAL.format(model=model.name) else ()
    tp, heads = resolved.tensor_parallel_size, model.num_kv_heads
    if refusal.message or not heads or tp % heads == 0 or heads % tp == 0:
        return ()
    return (f"{heads} KV heads and tensor parallel size {tp} do not divide: vLLM stops at a bare assertion",)
