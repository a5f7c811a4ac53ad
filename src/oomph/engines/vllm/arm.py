"""An arm of the search that `fit` makes, as vLLM's flags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oomph.search.space import Arm

FEW_GRAPHS = 8  # graphs for small batches only


def arm_flags(arm: Arm) -> dict[str, Any]:
    """By the engine's own names, only those that differ from its defaults."""
    flags: dict[str, Any] = {}
    if arm.layout.tp > 1:
        flags["tensor_parallel_size"] = arm.layout.tp
    if arm.layout.pp > 1:
        flags["pipeline_parallel_size"] = arm.layout.pp
    if arm.layout.ep:
        flags["enable_expert_parallel"] = True
    if arm.kv_dtype != "auto":
        flags["kv_cache_dtype"] = arm.kv_dtype
    if arm.eager:
        flags["enforce_eager"] = True
    if arm.few_graphs:
        flags["max_cudagraph_capture_size"] = FEW_GRAPHS
    if arm.text_only:
        flags["language_model_only"] = True
    if arm.drafts:
        flags["speculative_config"] = {"method": "mtp", "num_speculative_tokens": arm.drafts}
    if arm.prefix_off:
        flags["enable_prefix_caching"] = False
    if arm.tokens:
        flags["max_num_batched_tokens"] = arm.tokens
    if arm.offload_gib:
        flags["cpu_offload_gb"] = arm.offload_gib
    return flags
