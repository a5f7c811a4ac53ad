"""What ggml's backends differ in where memory is concerned."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

GIB = 1 << 30


class Head(Struct, frozen=True):
    """Widths of keys and values that flash attention takes, and by how many queries share a key."""

    keys: int
    values: int
    shared: int = 1  # heads of queries for one of keys: at least so many
    multiple: int = 1  # and a multiple of this


class Backend(Struct, frozen=True):
    name: str
    alignment: int = 128
    pads_rows: bool = False  # quantised rows are padded to 512 numbers, once a tensor (MATRIX_ROW_PADDING)
    largest: int = 0  # of one buffer; larger ones are allocated in parts
    offloads: bool = True  # offload_op: weights of the CPU are read for large batches
    fuses_experts: bool = False  # graph_optimize keeps the experts' outputs until they are summed
    flash_copy: bool = False  # flash attention's result has room for an F16 copy of a quantised cache
    reorders: bool = False  # graph_optimize moves nodes (ggml/reorder.py)
    # What it does not run goes to the CPU (supports_op).
    broadcasts: bool = True  # multiplies one matrix with those of several streams
    strides_quantised: bool = True  # multiplies quantised matrices whose rows are apart
    mixes_bf16: bool = True  # flash attention takes keys in BF16 and values that are not, or the other way round
    exact_experts: bool = True  # multiplies the matrices of experts in 32 bits where a model asks for it
    largest_tensor: int = 0  # more bytes than that; 0: no limit
    heads: tuple[Head, ...] | None = None  # flash attention; None: any
    mamba1_states: tuple[int, ...] | None = None  # scans by the size of their state; None: any
    mamba2_states: tuple[int, ...] | None = None
    delta_widths: tuple[int, ...] | None = None  # gated delta nets by the width of a head; None: any


# ggml-cuda/fattn.cu, ggml_cuda_get_best_fattn_kernel; ggml-cuda.cu, supports_op, SSM_SCAN
_CUDA_HEADS: Final = (
    *(Head(width, width) for width in (40, 64, 72, 80, 96, 112, 128, 256)),
    Head(192, 128, 8, 8), Head(320, 256, 32, 32), Head(512, 512, 2), Head(576, 512, 2),
)  # fmt: skip
CUDA: Final = Backend(  # ROCm is the same code
    "CUDA", pads_rows=True, fuses_experts=True, flash_copy=True, heads=_CUDA_HEADS,
    mamba1_states=(16,), mamba2_states=(128, 256),
)  # fmt: skip
# ggml-vulkan.cpp: suballocation_block_size; ggml_backend_vk_device_supports_op. No tensor above maxStorageBufferRange,
# which drivers say to be 4 GiB.
VULKAN: Final = Backend(
    "Vulkan", alignment=16, largest=GIB, reorders=True, broadcasts=False, strides_quantised=False, mixes_bf16=False,
    exact_experts=False,
    largest_tensor=4 * GIB - 1, mamba1_states=(), mamba2_states=(128, 256), delta_widths=(16, 32, 64, 128),
)  # fmt: skip
RPC: Final = Backend("RPC", alignment=64, offloads=False)  # ggml-rpc.cpp: .offload_op = NULL
SYCL: Final = Backend("SYCL")
METAL: Final = Backend("Metal", alignment=32)

BY_VENDOR: Final = {"nvidia": CUDA, "amd": CUDA, "intel": SYCL, "apple": METAL}


def backend_of(vendor: str, device: str = "", environment: Mapping[str, str] | None = None) -> Backend:
    """`device`: --device as it was typed: Vulkan0 or CUDA0."""
    if not device.lower().startswith("vulkan"):
        return BY_VENDOR.get(vendor, CUDA)
    return VULKAN if "GGML_VK_DISABLE_GRAPH_OPTIMIZE" not in (environment or {}) else replace(VULKAN, reorders=False)


# ggml-cpu/repack.cpp, ggml_repack_get_optimal_repack_type: types that a CPU with AVX2 reads in blocks of eight rows.
# They are laid out anew in memory of the process's own (CPU_REPACK); with a GPU its host buffers come first, and none
# are. 11 of 11 sizes that b11549 printed are exactly these tensors.
REPACKED: Final = frozenset(("Q4_0", "Q4_K", "IQ4_NL", "MXFP4"))
REPACKED_ROWS: Final = 8
