"""What vLLM refuses because of --linear-backend: a kernel that does not exist, or that this GPU does not run."""

from __future__ import annotations

from oomph.engines.vllm.kv_specs import Refused
from oomph.facts.vllm.linear_backends import LAYERS, NONE_FOUND, PACKED, REASONS, REFUSED, LinearBackends
from oomph.ir import Linear, Model, Scheme


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
