"""The kernel that runs one layer's experts in one deployment, and what it does to their sizes.

vLLM asks its kernels one after the other whether they take the layer (facts/vllm/expert_kernels.py); here the question
is put together from the model, the card and the flags.
"""

from collections import Counter

from msgspec import Struct

from oomph.engines.common.shard import Layout
from oomph.facts.vllm.create_weights import Creation
from oomph.facts.vllm.expert_kernels import (
    FI_CUTLASS,
    ExpertKernels,
    Query,
)
from oomph.ir import Experts, Model, Routing, Scheme
from oomph.units import round_up


class ExpertSetting(Struct, frozen=True):
    """What, besides the layer, decides which kernel runs its experts."""

    facts: ExpertKernels | None = None
    sm: int = 0
    backend: str = "auto"
    lora: bool = False
    eplb: bool = False
    excluded: frozenset[str] = frozenset()
    online_multiple: int = 1  # quantising on the fly rounds both sizes up to a multiple of this
    forced: str = ""  # a kernel that an environment variable asks for, of MXFP4 experts
    online_pairs: bool = False  # quantising on the fly creates a gate for experts that have none


# fused_moe/config.py get_routing_method_type (0.32.0)
def routing_method(routing: Routing) -> str:
    if routing.custom:
        return routing.custom
    if routing.scoring == "sqrtsoftplus":
        return "deepseek_v4"
    if routing.biased:
        if routing.scoring != "sigmoid" or not routing.renormalised:
            return "unspecified"
        return "deepseek_v3" if routing.groups > 0 else "minimax2"
    if routing.scoring == "sigmoid":
        return "sigmoid_renorm" if routing.renormalised else "sigmoid"
    return "renormalize_naive" if routing.renormalised else "default"


def scheme_family(scheme: Scheme | None) -> str:
    """The selection that a quantisation goes through; "" where there is none (packed integers)."""
    if scheme is None:
        return "plain"
    if scheme.method == "mxfp4" or scheme.format == "mxfp4-pack-quantized":
        return "mxfp4"
    if scheme.method == "modelopt_fp4" or scheme.format == "nvfp4-pack-quantized":
        return "nvfp4"
    if scheme.method == "modelopt_mxfp8":
        return "mxfp8"
    if scheme.kind == "float" and scheme.bits == 8 and scheme.method != "bitsandbytes":
        if scheme.strategy in ("block", "channel"):
            return f"fp8_{scheme.strategy}"
        return "fp8_static" if scheme.activation == "static" else "fp8_tensor"
    return ""


def expert_kernel(experts: Experts, scheme: Scheme | None, layout: Layout, setting: ExpertSetting) -> str:
    """vLLM's own name of the kernel; "" where its choice is not known (packed integers have methods of their own)."""
    family = scheme_family(scheme)
    if not family or setting.facts is None:
        return ""
    if family == "mxfp4" and setting.forced:
        return setting.forced
    return setting.facts.kernel(_query(experts, scheme, family, layout, setting))


def _query(experts: Experts, scheme: Scheme | None, family: str, layout: Layout, setting: ExpertSetting) -> Query:
    return Query(
        family,
        sm=setting.sm,
        activation=experts.activation,
        gated=experts.gated,
        routing=routing_method(experts.routing),
        count=experts.count,
        lora=setting.lora,
        eplb=setting.eplb,
        dp=layout.dp,
        expert_parallel=layout.expert_parallel and layout.moe_ranks > 1,
        cutlass=scheme is not None and scheme.method == "compressed-tensors",
        backend=setting.backend,
        excluded=setting.excluded,
    )


def kernel_refusal(model: Model, layout: Layout, setting: ExpertSetting) -> str:
    """Why vLLM refuses --moe-backend for this model; "" where it does not."""
    if setting.facts is None or setting.backend == "auto":
        return ""
    seen: set[tuple[str, Scheme | None]] = set()
    for layer in model.layers:
        for module in layer.block.modules:
            if not isinstance(module, Experts) or (module.name, module.scheme) in seen:
                continue
            seen.add((module.name, module.scheme))
            family = scheme_family(module.scheme)
            if family:
                text = setting.facts.refusal(_query(module, module.scheme, family, layout, setting))
            else:
                text = _packed_refusal(module.scheme, setting)
            if text:
                return text
    return ""


def _packed_refusal(scheme: Scheme | None, setting: ExpertSetting) -> str:
    if setting.facts is None or scheme is None or scheme.kind == "float" or scheme.format == "int-quantized":
        return ""
    return setting.facts.packed_refusal(setting.backend, setting.sm, scheme.method, zeros=not scheme.symmetric)


def padded_sizes(
    experts: Experts, scheme: Scheme | None, share: int, layout: Layout, setting: ExpertSetting
) -> tuple[int, int]:
    """One rank's hidden and intermediate size as the layer is created with them; `share` is the rank's own part."""
    hidden, share = round_up(experts.hidden, setting.online_multiple), round_up(share, setting.online_multiple)
    if setting.facts is None:
        return hidden, share
    multiples = setting.facts.multiples(scheme_family(scheme), expert_kernel(experts, scheme, layout, setting))
    return round_up(hidden, multiples[0]), round_up(share, multiples[1])


def layer_kernels(model: Model, layout: Layout, setting: ExpertSetting, table: Creation) -> tuple[str, ...]:
    """The kernels of a model's expert layers by vLLM's names, most layers first."""
    count = Counter(
        expert_kernel(module, module.scheme, layout, setting) or _packed_kernel(module, table)
        for layer in model.layers
        for module in layer.block.modules
        if isinstance(module, Experts)
    )
    return tuple(name for name, _ in count.most_common() if name)


def _packed_kernel(experts: Experts, table: Creation) -> str:
    """Packed integers: Marlin, or moe_wna16.py where Marlin does not take the sizes."""
    scheme = experts.scheme
    if scheme is None or scheme.kind == "float":
        return ""
    if scheme.bits == 8 and scheme.format == "int-quantized":
        return "TRITON"
    return "MARLIN" if table.experts_scheme(scheme, experts.hidden, experts.intermediate) is scheme else "MOE_WNA16"


# oracle/nvfp4.py is_global_sf_supported_for_nvfp4_backend: FlashInfer's kernels take the input scales of all experts
GLOBAL_SCALES = frozenset({"FLASHINFER_TRTLLM", FI_CUTLASS, "FLASHINFER_CUTEDSL"})
