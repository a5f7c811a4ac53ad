"""What the constructors of the layers refuse."""

from __future__ import annotations

from functools import lru_cache

from oomph.engines.vllm.expert_kernel import ExpertSetting, kernel_refusal
from oomph.engines.vllm.kv_specs import Refused
from oomph.engines.vllm.online import online_scheme, quantised
from oomph.engines.vllm.resolve_build import verify_blocks, verify_groups, verify_layers, verify_mxfp8, verify_states
from oomph.engines.vllm.resolve_kernels import kernel_order, verify_kernels
from oomph.engines.vllm.resolve_linear_backend import verify_linear_backend
from oomph.engines.vllm.shard import Layout
from oomph.engines.vllm.traits import Traits
from oomph.facts.vllm.facts import Facts
from oomph.ir import Model


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
        built = _as_built(traits, quantization, habits)
        verify_linear_backend(built, linear_backend, facts.linear_backends, sm)
        verify_blocks(traits, facts.support, habits, tp=tp, dp=dp, ep=ep, sm=sm, towers=towers)
        verify_mxfp8(built, habits, tp=tp, dp=dp, ep=ep, towers=towers)
        refused = kernel_refusal(built, Layout(tp=tp, dp=dp, expert_parallel=ep), experts)
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
