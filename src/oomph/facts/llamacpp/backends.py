"""What ggml's backends differ in where memory is concerned."""

from typing import Final

from msgspec import Struct

GIB = 1 << 30


class Backend(Struct, frozen=True):
    name: str
    alignment: int = 128
    pads_rows: bool = False  # quantised rows are padded to 512 numbers, once a tensor (MATRIX_ROW_PADDING)
    largest: int = 0  # of one buffer; larger ones are allocated in parts
    offloads: bool = True  # offload_op: weights of the CPU are read for large batches
    broadcasts: bool = True  # multiplies one matrix with those of several streams
    fuses_experts: bool = False  # graph_optimize keeps the experts' outputs until they are summed
    flash_copy: bool = False  # flash attention's result has room for an F16 copy of a quantised cache


CUDA: Final = Backend("CUDA", pads_rows=True, fuses_experts=True, flash_copy=True)  # ROCm is the same code
# ggml-vulkan.cpp: suballocation_block_size; ggml_backend_vk_device_supports_op, MUL_MAT; its graph_optimize, which
# reorders nodes, is not followed: 38 of 38 sizes were within 7 %.
VULKAN: Final = Backend("Vulkan", alignment=16, largest=GIB, broadcasts=False)
RPC: Final = Backend("RPC", alignment=64, offloads=False)  # ggml-rpc.cpp: .offload_op = NULL
SYCL: Final = Backend("SYCL")
METAL: Final = Backend("Metal", alignment=32)

BY_VENDOR: Final = {"nvidia": CUDA, "amd": CUDA, "intel": SYCL, "apple": METAL}


def backend_of(vendor: str, device: str = "") -> Backend:
    """`device`: --device as it was typed: Vulkan0 or CUDA0."""
    if device.lower().startswith("vulkan"):
        return VULKAN
    return BY_VENDOR.get(vendor, CUDA)


# ggml-cpu/repack.cpp, ggml_repack_get_optimal_repack_type: types that a CPU with AVX2 reads in blocks of eight rows.
# They are laid out anew in memory of the process's own (CPU_REPACK); with a GPU its host buffers come first, and none
# are. 11 of 11 sizes that b11549 printed are exactly these tensors.
REPACKED: Final = frozenset(("Q4_0", "Q4_K", "IQ4_NL", "MXFP4"))
REPACKED_ROWS: Final = 8
