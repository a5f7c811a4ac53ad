"""Quantisation while loading: --quantization fp8 or bitsandbytes on a checkpoint that is not quantised."""

from functools import lru_cache

from msgspec.structs import replace

from oomph.engines.vllm.traits import Traits
from oomph.ir import Block, Experts, Linear, Model, Module, Scheme

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
    """The model with every linear layer and expert of its decoder layers in `scheme`."""
    model = traits.model
    layers = tuple(replace(layer, block=_block(layer.block, scheme, habits)) for layer in model.layers)
    drafts = tuple(replace(layer, block=_block(layer.block, scheme, habits)) for layer in model.drafts)
    return replace(model, layers=layers, drafts=drafts)


def is_quantised_online(module: Module, habits: frozenset[str], *, encoder: bool = False) -> bool:
    """Routers, convolutions and layers with a dtype of their own get no quantisation config. `encoder`: whether an
    encoder's layer is meant."""
    if isinstance(module, Experts):
        return module.scheme is None
    return (
        isinstance(module, Linear)
        and module.scheme is None
        and module.quantisable
        and (not module.quantised_by or module.quantised_by in habits)
        and module.role != "router"
        and (module.role == "multimodal") == encoder
        and not module.alias
        and not module.created_dtype
        and "conv" not in module.name
    )


@lru_cache(maxsize=64)
def _block(block: Block, scheme: Scheme, habits: frozenset[str]) -> Block:
    modules = tuple(
        replace(module, scheme=scheme)
        if isinstance(module, Linear | Experts) and is_quantised_online(module, habits)
        else module
        for module in block.modules
    )
    return replace(block, modules=modules)
