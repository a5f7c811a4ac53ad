"""A model as llama.cpp loads it: its tensors with ggml's shapes and types, each in the unit that places it.

Units: -1 is the input (always on the host), 0 to L-1 the layers, those of multi-token prediction behind them, and the
output last.
"""

from collections.abc import Iterator
from math import prod
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from oomph.errors import CannotPlan
from oomph.facts.dtypes import BLOCKS
from oomph.ir import Block, Layer, Model, Param, Role

INPUT = -1
EVERYWHERE = -2  # one copy on each device that has layers (TENSOR_DUPLICATED: rope_freqs)
INPUTS = ("token_embd", "per_layer_token_embd", "position_embd", "token_types")
FIRST = ("per_layer_model_proj", "per_layer_proj_norm", "token_embd_norm")  # loaded as a part of layer 0
_EVERYWHERE = ("rope_freqs", "rope_factors_long", "rope_factors_short")


class Tensor(Struct, frozen=True):
    name: str
    shape: tuple[int, ...]  # ggml's order: ne[0] is a row
    dtype: str
    unit: int
    role: Role = "other"
    copy: Literal["", "gpu", "always"] = ""  # the embedding once more, for the output: not beside itself, or always
    mtp: bool = False  # multi-token prediction: in the file, and loaded only for --spec-type draft-mtp

    @property
    def nbytes(self) -> int:
        block, size = BLOCKS[self.dtype]
        return prod(self.shape) // block * size


def tensors_of(model: Model) -> tuple[Tensor, ...]:
    """The tensors of a model whose blocks are a GGUF file's."""
    root = [_root(p, units_of(model) - 1) for p in _params(model.root)]
    return (
        *root,
        *_head(model, root),
        *(tensor for layer in model.layers for tensor in _of_layer(layer)),
        *(replace(tensor, mtp=True) for layer in model.drafts for tensor in _of_layer(layer)),
    )


def _of_layer(layer: Layer) -> Iterator[Tensor]:
    return (_tensor(f"blk.{layer.index}.{p.name}", p, layer.index) for p in _params(layer.block))


def units_of(model: Model) -> int:
    return len(model.layers) + len(model.drafts) + 1


def _head(model: Model, root: list[Tensor]) -> list[Tensor]:
    """No output.weight in the file: the embedding is loaded once more for the output (TENSOR_DUPLICATED)."""
    table = next((t for t in root if t.name == "token_embd.weight"), None)
    head = model.param("output_head")
    if table is None or head == "none" or any(t.name == "output.weight" for t in root):
        return []
    copy: Literal["gpu", "always"] = "always" if head == "again" else "gpu"
    return [Tensor(table.name, table.shape, table.dtype, units_of(model) - 1, "lm_head", copy)]


def _params(block: Block) -> list[Param]:
    out = []
    for module in block.modules:
        if not isinstance(module, Param) or module.dtype not in BLOCKS:
            raise CannotPlan("this model is not in GGUF form")
        out.append(module)
    return out


def _root(param: Param, layers: int) -> Tensor:
    head = param.name.partition(".")[0]
    unit = INPUT if head in INPUTS else EVERYWHERE if head in _EVERYWHERE else 0 if head in FIRST else layers
    return _tensor(param.name, param, unit)


def _tensor(name: str, param: Param, unit: int) -> Tensor:
    return Tensor(name, param.shape[::-1], param.dtype, unit, param.role)
