"""The kernels that vLLM asks for a packed integer linear layer, in order, by release."""

from __future__ import annotations

from oomph.facts.changes import Dated, Facts, changes, since

# name -> the compute capability it asks for (model_executor/kernels/linear/mixed_precision/)
CAPABILITY = {
    "CutlassW4A8": 90,
    "Machete": 90,
    "AllSpark": 80,
    "Marlin": 75,
    "Conch": 80,
    "Exllama": 60,
    "TritonW4A16": 0,
    "Humming": 75,
}


# distributed/utils.py verify_group_size_divides_partition
CUT_GROUP = (
    "Weight input_size_per_partition={c.k} for layer '{layer}' is not divisible by group_size={c.group}. This happens "
    "when tensor_parallel_size splits the layer input into shards that are not a whole number of quant groups. "
    "Consider reducing tensor_parallel_size."
)

_FIRST = ("CutlassW4A8", "Machete", "AllSpark", "Marlin")
_LAST = ("Conch", "Exllama", "TritonW4A16", "Humming")


class LinearKernels(Facts):
    # kernels/linear/__init__.py _POSSIBLE_KERNELS
    order: Dated[tuple[str, ...]] = changes(
        (*_FIRST, "Conch", "Exllama"),
        ("0.23.0", (*_FIRST, "Humming", "Conch", "Exllama", "TritonW4A16")),
        ("0.25.0", (*_FIRST, *_LAST)),
        ("0.31.0", ("CutlassW4A8", "Machete", "Marlin", *_LAST)),
    )
    marlin_pads = since("0.24.0")  # what does not divide
    # compressed_tensors_wNa16.py looks at the groups before any kernel is asked, and names the layer
    names_cut_layers = since("0.25.0")
