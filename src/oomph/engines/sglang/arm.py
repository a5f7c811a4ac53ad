"""An arm of the search that `fit` makes, as SGLang's flags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oomph.search.space import Arm

FEW_GRAPHS = 8  # decode graphs for small batches only
# Flags that an arm may ask for and a plan does not follow: drafts.
UNPLANNED = frozenset(("speculative_algorithm",))


def arm_flags(arm: Arm) -> dict[str, Any]:
    """By SGLang's own names, only those that differ from its defaults."""
    flags: dict[str, Any] = {}
    if arm.layout.tp > 1:
        flags["tp_size"] = arm.layout.tp
    if arm.layout.pp > 1:
        flags["pp_size"] = arm.layout.pp
    if arm.layout.ep:
        flags["ep_size"] = arm.layout.tp
    if arm.kv_dtype != "auto":
        flags["kv_cache_dtype"] = "fp8_e4m3" if arm.kv_dtype == "fp8" else arm.kv_dtype
    if arm.eager:
        flags["disable_cuda_graph"] = True
    if arm.few_graphs:
        flags["cuda_graph_max_bs_decode"] = FEW_GRAPHS
    if arm.text_only:
        flags["language_model_only"] = True
    if arm.drafts:
        flags["speculative_algorithm"] = "NEXTN"
    if arm.prefix_off:
        flags["disable_radix_cache"] = True
    if arm.tokens:
        flags["chunked_prefill_size"] = arm.tokens
    if arm.offload_gib:
        flags["cpu_offload_gb"] = arm.offload_gib
    return flags
