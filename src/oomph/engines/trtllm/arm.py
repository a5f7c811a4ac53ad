"""An arm of the search that `fit` makes, as TensorRT-LLM's fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oomph.engines.trtllm.options_file import GRAPHS, OFF
from oomph.facts.trtllm.flags import KNOWN_FIELDS

if TYPE_CHECKING:
    from oomph.search.space import Arm

FEW_GRAPHS = 8  # decode graphs for small batches only
# What an arm may ask for and a plan does not follow: images left out, drafts of the checkpoint, weights in host memory.
UNPLANNED = frozenset(("text_only", "speculative_config.decoding_type", "cpu_offload_gb"))
FIELDS = KNOWN_FIELDS - UNPLANNED


def arm_flags(arm: Arm) -> dict[str, Any]:
    """By the engine's own names, only those that differ from its defaults."""
    flags: dict[str, Any] = {}
    if arm.layout.tp > 1:
        flags["tensor_parallel_size"] = arm.layout.tp
    if arm.layout.pp > 1:
        flags["pipeline_parallel_size"] = arm.layout.pp
    if arm.layout.ep:
        flags["moe_expert_parallel_size"] = arm.layout.tp
    if arm.kv_dtype != "auto":
        flags["kv_cache_config.dtype"] = "fp8" if arm.kv_dtype.startswith("fp8") else arm.kv_dtype
    if arm.eager:
        flags[GRAPHS] = OFF
    if arm.few_graphs:
        flags[f"{GRAPHS}.max_batch_size"] = FEW_GRAPHS
    if arm.text_only:
        flags["text_only"] = True
    if arm.drafts:
        flags["speculative_config.decoding_type"] = "MTP"
    if arm.prefix_off:
        flags["kv_cache_config.enable_block_reuse"] = False
    if arm.tokens:
        flags["max_num_tokens"] = arm.tokens
    if arm.offload_gib:
        flags["cpu_offload_gb"] = arm.offload_gib
    return flags
