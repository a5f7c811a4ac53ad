"""An arm of the search that `fit` makes, as vLLM's flags."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oomph.search.request import Arm

FIELDS = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "ep": "enable_expert_parallel",
    "kv_dtype": "kv_cache_dtype",
    "eager": "enforce_eager",
    "few_graphs": "max_cudagraph_capture_size",
    "text_only": "language_model_only",
    "drafts": "speculative_config",
    "prefix_off": "enable_prefix_caching",
    "tokens": "max_num_batched_tokens",
    "offload_gib": "cpu_offload_gb",
    "online": "quantization",
}


def arm_flags(arm: "Arm") -> dict[str, Any]:
    drafts = {"method": "mtp", "num_speculative_tokens": arm.drafts}
    values = {"ep": True, "drafts": drafts, "prefix_off": False}
    return {FIELDS[name]: values.get(name, wish) for name, wish in arm.wishes.items()}
