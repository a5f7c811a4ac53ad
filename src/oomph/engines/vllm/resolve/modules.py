"""What the constructors of the layers refuse."""

from functools import lru_cache

from oomph.engines.common.expert_kernel import ExpertSetting, kernel_refusal
from oomph.engines.common.shard import Layout
from oomph.engines.vllm.kv.specs import Refused
from oomph.engines.vllm.resolve.build import (
    verify_blocks,
    verify_groups,
    verify_layers,
    verify_mxfp8,
    verify_online_experts,
    verify_states,
)
from oomph.engines.vllm.resolve.kernels import kernel_order, verify_kernels
from oomph.engines.vllm.traits import Traits
from oomph.engines.vllm.weights.online import online_scheme, quantised
from oomph.facts.vllm.facts import Facts
from oomph.facts.vllm.linear_backends import LAYERS, NONE_FOUND, PACKED, REASONS, REFUSED, LinearBackends
from oomph.ir import Linear, Model, Scheme


@lru_cache(maxsize=1024)
def refusal_of_modules(
    traits: Traits,
    facts: Facts,
    tp: int,
    dp: int,
    ep: bool,
    sm: int,
    dtype: str,
    towers: bool,
    quantization: str | None,
    experts: ExpertSetting,
    linear_backend: str,
) -> Refused | None:
    """The first refusal, if any. Lengths, requests and shares play no part in it."""
    habits = facts.structure.habits(sm)
    try:
        verify_states(traits, facts.support, tp=tp, quantised=quantization is not None)
        verify_layers(traits, habits, tp=tp, dp=dp, ep=ep)
        verify_online_experts(traits, quantization, sm)
        modules = _as_built(traits, quantization, habits)
        verify_linear_backend(modules, linear_backend, facts.linear_backends, sm)
        verify_blocks(traits, facts.support, habits, tp=tp, dp=dp, ep=ep, sm=sm, towers=towers)
        verify_mxfp8(modules, habits, tp=tp, dp=dp, ep=ep, towers=towers)
        refused = kernel_refusal(modules, Layout(tp=tp, dp=dp, expert_parallel=ep), experts)
        if refused:
            raise Refused("ValueError", refused)
        order = kernel_order(facts.linear_kernels.order, linear_backend)
        verify_kernels(traits, facts.linear_kernels, order, tp=tp, sm=sm, dtype=dtype)
        verify_groups(traits, facts.support, tp=tp, dp=dp, ep=ep)
    except Refused as refusal:
        return refusal
    return None


def _as_built(traits: Traits, quantization: str | None, habits: frozenset[str]) -> Model:
    """The model with its layers in the scheme that quantising on the fly gives them."""
    scheme = online_scheme(traits.model, quantization)
    return quantised(traits, scheme, habits) if scheme is not None else traits.model


# What vLLM refuses because of --linear-backend: a kernel that does not exist, or that this GPU does not run.


def verify_linear_backend(model: Model, backend: str, facts: LinearBackends, sm: int) -> None:
    """The first quantised layer that has a kind decides; layers of packed integers are asked in resolve_kernels.py."""
    if backend == "auto":
        return
    for kind, scheme in _kinds(model).items():
        there = PACKED if kind == "wna16" else facts.kernels[kind]
        if backend not in there:
            if facts.must_exist:
                raise Refused("ValueError", REFUSED.format(backend=backend, layers=LAYERS[kind]))
            continue
        if kind != "wna16" and not _runs(facts, kind, backend, scheme, sm):
            reason = REASONS.get((kind, backend), f"the kernels of {backend} do not run on this GPU")
            raise Refused("ValueError", NONE_FOUND.format(reason=reason.format(sm=sm)))


def _runs(facts: LinearBackends, kind: str, backend: str, scheme: Scheme, sm: int) -> bool:
    low, high = facts.kernels[kind][backend]
    if kind == "fp8" and backend == "flashinfer_cutlass":
        # scaled_mm/flashinfer.py can_implement: one scale for all weights and one for all activations, which is what
        # static activations have
        return low <= sm and scheme.activation == "static" and scheme.strategy == "tensor"
    return low <= sm < high


def _kinds(model: Model) -> dict[str, Scheme]:
    """The kinds of quantised linear layers in the order in which they are built."""
    kinds: dict[str, Scheme] = {}
    for layer in model.layers[:8]:
        for module in layer.block.modules:
            if isinstance(module, Linear) and module.scheme is not None:
                kinds.setdefault(_kind(module.scheme), module.scheme)
    return {kind: scheme for kind, scheme in kinds.items() if kind}


def _kind(scheme: Scheme) -> str:
    """ "": a method that chooses its kernels in another way."""
    if scheme.method in ("awq", "bitsandbytes", "gguf", "mxfp4"):
        return ""
    if scheme.kind == "int":
        return "int8" if scheme.input_bits == 8 else "wna16"
    if scheme.bits == 4:
        return "nvfp4" if scheme.strategy == "tensor_group" or "fp4" in scheme.method else ""
    if scheme.group_size == 32:
        return "mxfp8"
    return "fp8_block" if scheme.strategy == "block" else "fp8"
