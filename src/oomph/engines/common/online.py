"""Quantisation while loading: layers of a checkpoint that is not quantised, in the scheme that an engine gives them."""

from functools import lru_cache

from msgspec.structs import replace

from oomph.ir import Block, Experts, Layer, Linear, Model, Module, Scheme


def quantise_layers(model: Model, scheme: Scheme, habits: frozenset[str]) -> Model:
    """The model with every linear layer and expert of its decoder layers in `scheme`."""

    def in_scheme(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
        return tuple(replace(layer, block=_block(layer.block, scheme, habits)) for layer in layers)

    return replace(model, layers=in_scheme(model.layers), drafts=in_scheme(model.drafts))


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
