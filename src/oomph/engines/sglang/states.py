"""The bytes of one request's recurrent state on one rank (configs/mamba_utils.py, 0.5.23)."""

from __future__ import annotations

from oomph.errors import CannotPlan
from oomph.facts.dtypes import TORCH, nbytes
from oomph.ir import State

_CONVOLUTION = "BF16"  # SGLANG_MAMBA_CONV_DTYPE
_DEFAULT = "F32"


def state_bytes(state: State, ranks: int, wanted: str) -> int:
    """One layer's slot. `wanted`: --mamba-ssm-dtype; else the config's, else float32."""
    convolution, recurrent = _elements(state, ranks)
    dtype = TORCH.get(wanted, "") or state.dtype or _DEFAULT
    return nbytes(_CONVOLUTION, convolution) + nbytes(dtype, recurrent)


def _elements(state: State, ranks: int) -> tuple[int, int]:
    window = state.conv_kernel - 1
    if state.kind in ("mamba2", "gdn"):
        # Mamba2StateShape.create: groups that do not divide are extended so that every rank has its heads' groups
        gdn = state.kind == "gdn"
        inner = state.num_heads * state.head_dim if gdn else state.intermediate
        width = state.key_dim if gdn else state.state_size
        groups = state.groups if state.groups % ranks == 0 else ranks
        convolution = (inner + 2 * groups * width) // ranks * window
        return convolution, state.num_heads // ranks * state.head_dim * width
    if state.kind == "kda":
        projection = state.num_heads * state.head_dim // ranks
        keys = (state.groups or state.num_heads) * (state.key_dim or state.head_dim) // ranks
        return window * (projection + 2 * keys), state.num_heads // ranks * state.head_dim**2
    if state.kind == "short_conv":  # configs/lfm2.py: no recurrent part
        return state.intermediate // ranks * window, 0
    if state.kind == "mamba1":
        return state.intermediate // ranks * window, state.intermediate // ranks * state.state_size
    if state.kind == "linear_attention":  # configs/bailing_hybrid.py
        return 0, state.num_heads // ranks * state.head_dim**2
    raise CannotPlan(f"the size of SGLang's state for {state.kind} layers is not known")
