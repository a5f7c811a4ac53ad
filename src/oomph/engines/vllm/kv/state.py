"""Bytes of one recurrent state on one rank (model_executor/layers/mamba/mamba_utils.py)."""

from oomph.engines.vllm.kv.dtypes import width
from oomph.engines.vllm.kv.specs import Refused
from oomph.engines.vllm.resolve.limits import torch_dtype
from oomph.facts.vllm.facts import Facts
from oomph.ir import State


def _divide(n: int, tp: int) -> int:
    """distributed/utils.py divide: ensures divisibility."""
    if n % tp:
        raise Refused("AssertionError", f"{n} is not divisible by {tp}")
    return n // tp


def state_bytes(state: State, tp: int, drafts: int, conv_dtype: str, ssm_dtype: str, facts: Facts) -> int:
    """`conv_dtype`: of the convolution's window; `ssm_dtype`: of the recurrent state ("" = as the model fixes it)."""
    conv = width(conv_dtype)
    ssm = width(ssm_dtype or torch_dtype(state.dtype) or conv_dtype)
    kernel = state.conv_kernel - 1
    match state.kind:
        case "mamba1":
            inner = _divide(state.intermediate, tp)
            return inner * kernel * conv + inner * state.state_size * ssm
        case "mamba2":
            groups = state.groups if state.groups % tp == 0 else tp
            window = kernel + (drafts if facts.states.mamba2_drafts else 0)
            conv_dim = state.intermediate + 2 * groups * state.state_size
            return (
                _divide(conv_dim, tp) * window * conv
                + _divide(state.num_heads, tp) * state.head_dim * state.state_size * ssm
            )
        case "gdn":
            conv_dim = 2 * state.key_dim * state.groups + state.head_dim * state.num_heads
            window = kernel + drafts
            return (
                _divide(conv_dim, tp) * window * conv
                + _divide(state.num_heads, tp) * state.head_dim * state.key_dim * ssm
            )
        case "kda":
            inner = _divide(state.num_heads * state.head_dim, tp)
            keys = _divide((state.groups or state.num_heads) * (state.key_dim or state.head_dim), tp)
            window = kernel + (drafts if facts.states.kda_drafts else 0)
            recurrent = _divide(state.num_heads, tp) * state.head_dim * state.head_dim * width(ssm_dtype or "float32")
            return (inner + 2 * keys) * window * conv + recurrent
        case "short_conv":
            return _divide(state.intermediate, tp) * (kernel + (drafts if facts.states.short_conv_drafts else 0)) * conv
        case "linear_attention":
            return state.num_heads // tp * state.head_dim * state.head_dim * conv
