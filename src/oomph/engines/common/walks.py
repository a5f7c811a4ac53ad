"""For engines that divide some parts of a model otherwise than the rest: a part is taken from the walk that fits it."""

from collections.abc import Callable
from functools import cache

from msgspec.structs import replace

from oomph.engines.common.created import Placed
from oomph.ir import Block, Experts, Layer, Model


def choose_parts(places: tuple[Placed, ...], others: tuple[Placed, ...], parts: tuple[str, ...]) -> tuple[Placed, ...]:
    """The same places, with the tensors of some parts as another walk has them."""
    return tuple(
        replace(
            place,
            tensors=tuple(
                other_tensor if tensor.part in parts else tensor
                for tensor, other_tensor in zip(place.tensors, other.tensors, strict=True)
            ),
        )
        for place, other in zip(places, others, strict=True)
    )


def with_experts(model: Model, change: Callable[[Experts], Experts]) -> Model:
    """The model with changed experts; layers that share a block keep sharing one."""

    @cache
    def changed(block: Block) -> Block:
        return Block(tuple(change(module) if isinstance(module, Experts) else module for module in block.modules))

    def layers(of: tuple[Layer, ...]) -> tuple[Layer, ...]:
        return tuple(replace(layer, block=changed(layer.block)) for layer in of)

    return replace(model, layers=layers(model.layers), drafts=layers(model.drafts))
