"""One deployment's KV cache: resolved settings and bytes -> blocks, groups, printed figures, admission, refusals."""

from collections.abc import Sequence

from oomph.engines.vllm.kv.check import KvInput, KvPlan, plan
from oomph.engines.vllm.resolve.steps import Resolved

__all__ = ["KvPlan", "kv", "kv_input"]


def kv_input(resolved: Resolved) -> KvInput:
    return KvInput(
        rules=resolved.facts.kv,
        layers=resolved.kv_layers,
        max_model_len=resolved.max_model_len,
        max_num_batched_tokens=resolved.max_num_batched_tokens,
        in_flight_batches=resolved.max_in_flight_batches,
        mamba_mode=resolved.mamba_cache_mode or "none",  # type: ignore[arg-type]
        dcp=resolved.decode_context_parallel_size,
        pcp=resolved.prefill_context_parallel_size,
        encoder_tokens=resolved.encoder_tokens,
        hybrid_manager=not resolved.disable_hybrid_kv_cache_manager,
        block_outermost=resolved.kv_cache_layout.startswith("B"),
        auto_fit=resolved.auto_fit,
        blocks_override=resolved.num_gpu_blocks_override,
        reserve_full=resolved.reserve_full_isl,
        stages=resolved.pipeline_parallel_size,
        prefix_caching=resolved.enable_prefix_caching,
    )


def kv(resolved: Resolved, available: int | Sequence[int]) -> KvPlan:
    """`available`: bytes for the cache on each pipeline stage; --kv-cache-memory-bytes takes its place."""
    memory = [available] if isinstance(available, int) else list(available)
    if resolved.kv_cache_memory_bytes is not None:
        memory = [resolved.kv_cache_memory_bytes]
    return plan(kv_input(resolved), memory)
