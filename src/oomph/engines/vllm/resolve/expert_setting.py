"""What the flags, the card and the environment say about the kernel of the experts."""

from collections.abc import Mapping

from oomph.engines.common.expert_kernel import ExpertSetting
from oomph.engines.vllm.resolve.plain_flags import PlainFlags
from oomph.facts.vllm.expert_kernels import DEEPGEMM, MARLIN, MXFP4_CUTLASS, MXFP4_TRTLLM
from oomph.facts.vllm.facts import Facts


def expert_setting(
    facts: Facts, sm: int, flags: PlainFlags, environment: Mapping[str, str], online: str = ""
) -> ExpertSetting:
    """`online`: the method of an unquantised checkpoint that is quantised while it is loaded."""
    excluded: set[str] = set()
    if "0" in (environment.get("VLLM_USE_DEEP_GEMM"), environment.get("VLLM_MOE_USE_DEEP_GEMM")):
        excluded.add(DEEPGEMM)
    bf16 = environment.get("VLLM_USE_FLASHINFER_MOE_MXFP4_BF16")
    if bf16 == "0":
        excluded |= {MXFP4_TRTLLM, MXFP4_CUTLASS}
    forced = ""
    if bf16 == "1" and sm == 90:
        forced = MXFP4_CUTLASS
    elif environment.get("VLLM_MXFP4_USE_MARLIN") == "1":
        forced = MARLIN
    return ExpertSetting(
        facts.expert_kernels,
        sm=sm,
        backend=flags.moe_backend.replace("-", "_"),
        lora=flags.lora is not None,
        eplb=flags.balancing is not None,
        excluded=frozenset(excluded),
        online_multiple=facts.expert_kernels.online_block if online == "fp8_per_block" else 1,
        forced=forced,
        online_pairs=bool(online) and facts.expert_kernels.online_pairs,
    )
