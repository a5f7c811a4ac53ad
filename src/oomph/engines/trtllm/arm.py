"""An arm of the search that `fit` makes, as TensorRT-LLM's fields."""

from typing import TYPE_CHECKING, Any

from oomph.engines.trtllm.command.options_file import GRAPHS, OFF
from oomph.facts.trtllm.flags import KNOWN_FIELDS

if TYPE_CHECKING:
    from oomph.search.request import Arm

# What an arm may ask for and a plan does not follow: images left out, drafts of the checkpoint, weights in host memory.
UNPLANNED = frozenset(("text_only", "speculative_config.decoding_type", "cpu_offload_gb", "quantization"))
PLANNED = KNOWN_FIELDS - UNPLANNED
FIELDS = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "ep": "moe_expert_parallel_size",
    "kv_dtype": "kv_cache_config.dtype",
    "eager": GRAPHS,
    "few_graphs": f"{GRAPHS}.max_batch_size",
    "text_only": "text_only",
    "drafts": "speculative_config.decoding_type",
    "prefix_off": "kv_cache_config.enable_block_reuse",
    "tokens": "max_num_tokens",
    "offload_gib": "cpu_offload_gb",
    "online": "quantization",
}


def arm_flags(arm: "Arm") -> dict[str, Any]:
    kv_dtype = "fp8" if arm.kv_dtype.startswith("fp8") else arm.kv_dtype
    values = {"kv_dtype": kv_dtype, "eager": OFF, "drafts": "MTP", "prefix_off": False}
    return {FIELDS[name]: values.get(name, wish) for name, wish in arm.wishes.items()}
