"""Which quantisation methods vLLM takes on cards that are not NVIDIA's.

`supported_quantization` of platforms/rocm.py and xpu.py, read off all 31 wheels from 0.8.5 to 0.32.0; an empty list
refuses nothing (interface.py verify_quantization). On NVIDIA's cards the method's own get_min_capability decides
(known.py). Gaudi and Apple are planned by nobody here: see PLUGINS.
"""

from oomph.facts.changes import Facts, changes, members

_ROCM_21 = "deepseek_v4_fp8 fp8_per_block fp8_per_tensor modelopt modelopt_mixed modelopt_mxfp8 mxfp8 online"


class CardFormats(Facts):
    rocm = members(
        "awq compressed-tensors fbgemm_fp8 fp8 gptq quark",
        since={
            "0.10.1": "mxfp4", "0.10.2": "torchao", "0.20.0": "gpt_oss_mxfp4 modelopt_fp4",
            "0.21.0": _ROCM_21, "0.22.0": "auto_gptq", "0.24.0": "auto_awq fp8_per_channel", "0.28.0": "inc",
        },
        until={"0.19.0": "ptpc_fp8", "0.24.0": "gguf"},
    )  # fmt: skip
    # in the list for some releases only
    rocm_for_a_while = changes(
        frozenset[str](),
        ("0.10.2", frozenset({"petit_nvfp4"})),
        ("0.17.0", frozenset({"petit_nvfp4", "bitsandbytes"})),
        ("0.20.0", frozenset({"bitsandbytes"})),
        ("0.28.0", frozenset[str]()),
    )
    xpu_checks = changes(False, ("0.27.0", True))
    xpu = members(
        "auto_awq auto_gptq awq compressed-tensors deepseek_v4_fp8 fp8 fp8_per_block fp8_per_tensor gpt_oss_mxfp4 gptq "
        "inc modelopt mxfp4 mxfp8 online",
        since={"0.30.0": "moe_wna16", "0.32.0": "fp8_per_channel"},
    )
    # model_executor/kernels/linear/__init__.py _POSSIBLE_NVFP4_KERNELS (0.32.0): CUDA and ROCm (emulated), no other
    nvfp4_vendors = ("nvidia", "amd")
    # PyTorch's ATen/native/cuda/Blas.cpp: what _scaled_mm takes of AMD's, gfx942, gfx950, gfx1200 and gfx1201. Only
    # blocks have a kernel of their own (Triton's; kernels/linear/__init__.py _POSSIBLE_FP8_BLOCK_KERNELS, 0.32.0).
    rocm_fp8 = (94, 95, 120)


# AMD's cards that the published ROCm images have no code for: docker/Dockerfile.rocm_base builds gfx90a, gfx942,
# gfx950, gfx1100, gfx1101, gfx1150, gfx1151, gfx1200 and gfx1201 (the images of 0.8 fewer), never these.
NOT_IN_ROCM_IMAGES = {
    "MI100": "gfx908", "MI60": "gfx906", "MI50": "gfx906", "RX 7600 XT": "gfx1102", "RX 6900 XT": "gfx1030",
    "RX 6800 XT": "gfx1030", "RX 6800": "gfx1030", "RX 6700 XT": "gfx1031",
}  # fmt: skip
# PyTorch's refusal in the first pass, without its words about CUDA; 0.32.0 finds no kernel for RDNA 3 before that
# (scaled_mm/pytorch.py:59, "requires a platform with torch FP8 scaled-MM support").
FP8_NOT_ON_THIS_CARD = (
    "torch._scaled_mm is only supported on ... ROCm MI300+ (and RDNA 4): no FP8 kernel for the {card}"
)


# What a maker's own plugin serves, as pypi.org had it on 2026-11-18: the package, its newest release there, what it is.
PLUGINS = {
    "Gaudi": ("vllm-gaudi", "", "It is not on PyPI, and which formats it takes is not checked here"),
    "apple": ("vllm-metal", "0.1.0", "a plugin of its own, whose memory is not planned"),
}
