"""Quantisation while loading: --quantization fp8 or bitsandbytes on a checkpoint that is not quantised."""

from functools import lru_cache

from oomph.engines.common.online import quantise_layers
from oomph.engines.vllm.traits import Traits
from oomph.ir import Model, Scheme

_FP8 = Scheme("fp8", 8, "float", "tensor", activation="dynamic")
_FP8_BLOCK = Scheme("fp8", 8, "float", "block", block=(128, 128), activation="dynamic")
_SCHEMES = {
    "fp8": _FP8,
    "fp8_per_tensor": _FP8,  # online/fp8.py
    "fp8_per_block": _FP8_BLOCK,
    "mxfp8": Scheme("modelopt_mxfp8", 8, "float", "group", group_size=32),
    "bitsandbytes": Scheme("bitsandbytes", 4, "float", "group", group_size=64),
}


def online_scheme(model: Model, quantization: str | None) -> Scheme | None:
    """None: the checkpoint is loaded as it is."""
    return _SCHEMES.get(quantization or "") if model.quantization is None else None


@lru_cache(maxsize=64)
def quantised(traits: Traits, scheme: Scheme, habits: frozenset[str]) -> Model:
    return quantise_layers(traits.model, scheme, habits)
