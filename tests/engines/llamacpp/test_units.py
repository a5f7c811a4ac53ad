"""Where llama.cpp puts each tensor: the input, the layers, those of multi-token prediction, and the output last."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oomph.engines.llamacpp.tensors import EVERYWHERE, INPUT, tensors_of, units_of
from oomph.ir.model import Block, Param

ROOT = ("token_embd.weight", "output_norm.weight", "output.weight", "rope_freqs.weight", "per_layer_model_proj.weight")


def _model(layers: int, drafts: int, root: tuple[str, ...] = ROOT, head: str = "") -> Any:
    def block(*names: str) -> Block:
        return Block(tuple(Param(name, (64, 32), "F32", "other") for name in names))

    def layer(index: int) -> Any:
        return SimpleNamespace(index=index, block=block("attn_q.weight"))

    indices = range(layers + drafts)
    return SimpleNamespace(
        root=block(*root), layers=[layer(index) for index in indices[:layers]],
        drafts=[layer(index) for index in indices[layers:]], param=lambda name: head,
    )  # fmt: skip


@pytest.mark.parametrize(("layers", "drafts"), [(1, 0), (3, 0), (3, 1), (4, 2)])
def test_the_output_stands_behind_all_layers(layers: int, drafts: int) -> None:
    model = _model(layers, drafts)
    units = {tensor.name: tensor.unit for tensor in tensors_of(model)}
    blocks = {f"blk.{index}.attn_q.weight": index for index in range(layers + drafts)}
    last = layers + drafts
    assert units == {**dict(zip(ROOT, (INPUT, last, last, EVERYWHERE, 0), strict=True)), **blocks}
    assert units_of(model) == last + 1
    assert [tensor.name for tensor in tensors_of(model) if tensor.mtp] == list(blocks)[layers:]


@pytest.mark.parametrize(
    ("root", "head", "copies"),
    [
        (ROOT, "", []), (ROOT[:2], "", ["gpu"]), (ROOT[:2], "again", ["always"]), (ROOT[:2], "none", []),
        (ROOT[1:2], "", []), (ROOT, "again", []),
    ],
)  # fmt: skip
def test_without_an_output_the_embedding_is_loaded_once_more(
    root: tuple[str, ...], head: str, copies: list[str]
) -> None:
    tensors = tensors_of(_model(2, 1, root, head))
    again = [tensor for tensor in tensors if tensor.copy]
    assert [tensor.copy for tensor in again] == copies
    assert all((tensor.unit, tensor.role, tensor.name) == (3, "lm_head", "token_embd.weight") for tensor in again)
