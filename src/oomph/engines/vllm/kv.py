"""One deployment's KV cache: resolved settings and bytes -> blocks, groups, printed figures, admission, refusals."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.engines.vllm.kv_check import KvInput, KvPlan, plan
from oomph.engines.vllm.resolve import Resolved

__all__ = ["KvPlan", "kv", "kv_input"]


def kv_input(r: Resolved) -> KvInput:
    return KvInput(
        rules=r.facts.kv,
        layers=r.kv_layers,
        max_model_len=r.max_model_len,
        max_num_batched_tokens=r.max_num_batched_tokens,
        in_flight_batches=r.max_in_flight_batches,
        mamba_mode=r.mamba_cache_mode or "none",  # type: ignore[arg-type]
        dcp=r.decode_context_parallel_size,
        pcp=r.prefill_context_parallel_size,
        encoder_tokens=r.encoder_tokens,
        hybrid_manager=not r.disable_hybrid_kv_cache_manager,
        block_outermost=r.kv_cache_layout.startswith("B"),
        auto_fit=r.auto_fit,
        blocks_override=r.num_gpu_blocks_override,
        reserve_full=r.reserve_full_isl,
        stages=r.pipeline_parallel_size,
        prefix_caching=r.enable_prefix_caching,
    )


def kv(r: Resolved, available: int | Sequence[int]) -> KvPlan:
    """`available`: bytes for the cache on each pipeline stage; --kv-cache-memory-bytes takes its place."""
    memory = [available] if isinstance(available, int) else list(available)
    if r.kv_cache_memory_bytes is not None:
        memory = [r.kv_cache_memory_bytes]
    return plan(kv_input(r), memory)
