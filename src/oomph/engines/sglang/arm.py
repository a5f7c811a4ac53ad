"""An arm of the search that `fit` makes, as SGLang's flags."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oomph.search.request import Arm

# Flags that an arm may ask for and no speed is known with: drafts.
UNPLANNED = frozenset(("speculative_algorithm",))
FIELDS = {
    "tp": "tp_size",
    "pp": "pp_size",
    "ep": "ep_size",
    "kv_dtype": "kv_cache_dtype",
    "eager": "disable_cuda_graph",
    "few_graphs": "cuda_graph_max_bs_decode",
    "text_only": "language_model_only",
    "drafts": "speculative_algorithm",
    "prefix_off": "disable_radix_cache",
    "tokens": "chunked_prefill_size",
    "offload_gib": "cpu_offload_gb",
    "online": "quantization",
}


def arm_flags(arm: "Arm") -> dict[str, Any]:
    values = {"drafts": "NEXTN", "kv_dtype": "fp8_e4m3" if arm.kv_dtype == "fp8" else arm.kv_dtype}
    return {FIELDS[name]: values.get(name, wish) for name, wish in arm.wishes.items()}
