"""--linear-backend: which of its values has a kernel for which kind of quantised layer, and on which GPUs.

model_executor/kernels/linear/__init__.py: _LINEAR_BACKEND_KERNEL_MAP, the _POSSIBLE_*_KERNELS lists of CUDA and each
kernel's is_supported.
"""

from oomph.facts.changes import Dated, Facts, changes, since

Gpus = tuple[int, int]  # compute capabilities, from and to (exclusive)
ALL: Gpus = (0, 1000)
_BLACKWELL: Gpus = (100, 1000)
_DATA_CENTRE: Gpus = (100, 110)

# what a layer of the kind is called where no kernel exists for it
LAYERS = {
    "fp8": "this layer type",
    "fp8_block": "this layer type",
    "int8": "this layer type",
    "wna16": "mixed-precision layers",
    "mxfp8": "MXFP8 layers",
    "nvfp4": "NVFP4 layers",
}
REFUSED = "--linear-backend={backend} was requested but no '{backend}' kernel exists for {layers}."
NONE_FOUND = "Failed to find a kernel that can implement the ScaledMM linear layer. Reasons: \n{reason}."

# kind of layer -> backend -> the GPUs whose kernel it has (0.27.0; later releases add some)
_KERNELS: dict[str, dict[str, Gpus]] = {
    "fp8": {
        "marlin": ALL, "humming": ALL, "cutlass": (89, 1000), "torch": (89, 1000), "flashinfer_cutlass": _BLACKWELL,
    },
    "fp8_block": {
        "marlin": ALL, "humming": ALL, "triton": ALL, "cutlass": (90, 1000), "flashinfer_cutlass": (90, 91),
        "deep_gemm": (90, 110),
    },
    "int8": {"cutlass": ALL, "triton": ALL, "humming": ALL},
    "mxfp8": {
        "marlin": ALL, "humming": ALL, "emulation": ALL, "flashinfer_cutlass": _BLACKWELL,
        "flashinfer_cutedsl": _DATA_CENTRE,
    },
    "nvfp4": {
        "marlin": ALL, "humming": ALL, "emulation": ALL, "cutlass": _BLACKWELL, "flashinfer_cutlass": _BLACKWELL,
        "flashinfer_trtllm": ALL, "flashinfer_cudnn": ALL, "flashinfer_cutedsl": _DATA_CENTRE,
        "flashinfer_b12x": (120, 1000), "fbgemm": ALL,
    },
}  # fmt: skip
_LATER = {
    **_KERNELS,
    "fp8_block": {**_KERNELS["fp8_block"], "torch": (90, 91)},
    "mxfp8": {**_KERNELS["mxfp8"], "flashinfer_trtllm": _DATA_CENTRE},
    "nvfp4": {**_KERNELS["nvfp4"], "torch": _DATA_CENTRE},
}
# the kernels for packed integers (resolve_kernels.py) by the backend that chooses them
PACKED = {
    "cutlass": "CutlassW4A8",
    "machete": "Machete",
    "marlin": "Marlin",
    "conch": "Conch",
    "exllama": "Exllama",
    "triton": "TritonW4A16",
    "humming": "Humming",
}
# what a kernel says of a GPU that it does not run on
REASONS = {
    ("fp8_block", "deep_gemm"): (
        "DeepGemmFp8BlockScaledMMKernel Currently, only Hopper and Blackwell GPUs are supported."
    ),
    ("fp8_block", "cutlass"): ("CutlassFp8BlockScaledMMKernel The device compute capability of{sm} is not supported."),
    ("fp8", "cutlass"): "CutlassFP8ScaledMMLinearKernel CUTLASS FP8 kernels not available",
    ("fp8", "flashinfer_cutlass"): "FlashInferFP8ScaledMMLinearKernel requires compute capability 100 and above.",
}


class LinearBackends(Facts):
    kernels: Dated[dict[str, dict[str, Gpus]]] = changes(_KERNELS, ("0.29.0", _LATER))
    # a backend without a kernel for a kind of layer: an error first, later a warning and the usual choice
    must_exist = changes(False, ("0.22.0", True), ("0.28.0", False))


# The kernels that vLLM asks for a packed integer linear layer, in order, by release.

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
