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
from oomph.ir import Block, Layer, Model, Param, Role, State

INPUT = -1
EVERYWHERE = -2  # one copy on each device that has layers (TENSOR_DUPLICATED: rope_freqs)
_INPUTS = ("token_embd", "per_layer_token_embd", "position_embd", "token_types")
_FIRST = ("per_layer_model_proj", "per_layer_proj_norm")  # loaded as a part of layer 0
# one hidden state more is kept: by its model_type in either format
_KEEPS = frozenset(("cohere2", "cohere2moe", "falcon", "nemotron_h", "nemotron_h_moe"))
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
    unit = INPUT if head in _INPUTS else EVERYWHERE if head in _EVERYWHERE else 0 if head in _FIRST else layers
    return _tensor(param.name, param, unit)


def _tensor(name: str, param: Param, unit: int) -> Tensor:
    return Tensor(name, param.shape[::-1], param.dtype, unit, param.role)


class Width(Struct, frozen=True):
    """The widths that compute buffers are made of."""

    embd: int
    ff: int  # the widest dense MLP, where a product follows it
    heads: int
    query: int  # heads x head width
    vocab: int
    expert_ff: int = 0
    experts_used: int = 0
    gated: bool = True  # gate and up, and their product
    per_layer: int = 0  # Gemma: the token's own input of each layer, all layers together
    side_states: int = (
        0  # Gemma 3n: hidden states side by side, and one layer's own input, twice; others: one hidden state
    )
    before: int = 0  # Llama 4 weighs the experts' input, not their output
    latent_query: int = 0  # MLA: heads x (nope + rope), beside the query in the latent space
    recurrent: int = 0  # what a recurrent layer holds of each token
    carried: int = 0  # and of each sequence
    value: int = 0  # KV heads x value width of one layer: what the transposed V cache is indexed by


def width_of(model: Model, tensors: tuple[Tensor, ...]) -> Width:
    from oomph.ir.model import Attention

    ff = expert_ff = up = per_layer = 0
    gated = False
    for tensor in tensors:
        if tensor.mtp:
            continue
        if tensor.name.endswith((".ffn_down.weight", ".ffn_down_shexp.weight")):
            ff = max(ff, tensor.shape[0])
        elif tensor.name.endswith("ffn_down_exps.weight"):
            expert_ff = max(expert_ff, tensor.shape[0])
        elif tensor.name.endswith(".ffn_up.weight"):
            up = max(up, tensor.shape[-1])
        elif tensor.name.endswith(("ffn_gate.weight", "ffn_gate_exps.weight", "ffn_gate_up_exps.weight")):
            gated = True
        elif tensor.name == "per_layer_token_embd.weight":
            per_layer = tensor.shape[0]
    attentions = [m for layer in model.layers for m in layer.mixers if isinstance(m, Attention)]
    heads = max((a.num_heads for a in attentions), default=0)
    query = max((a.num_heads * a.head_dim for a in attentions), default=0)
    used = model.param("expert_used_count")
    return Width(
        model.hidden_size,
        ff or (0 if expert_ff else model.intermediate_size),
        heads,
        query,
        model.vocab_size,
        expert_ff,
        used if isinstance(used, int) and expert_ff else 0,
        gated or up > ff,  # Phi-3: gate and up in one
        per_layer,
        _kept(model, tensors, per_layer),
        model.hidden_size if model.model_type == "llama4" or model.architecture.startswith("Llama4") else 0,
        max(
            (a.num_heads * (a.qk_nope_head_dim + a.qk_rope_head_dim) for a in attentions if a.kind == "mla"), default=0
        ),
        *_recurrent(model),
        max((a.num_kv_heads * a.head_dim_v for a in attentions if a.kind != "mla"), default=0),
    )


def _kept(model: Model, tensors: tuple[Tensor, ...], per_layer: int) -> int:
    if any(tensor.name.startswith("altup_") for tensor in tensors):
        return 4 * model.hidden_size + 2 * per_layer // max(len(model.layers), 1)
    return model.hidden_size if model.model_type in _KEEPS else 0


def _recurrent(model: Model) -> tuple[int, int]:
    """(numbers a token, numbers a sequence) of the widest recurrent layer; build_mamba_layer, build_delta_net_*.

    Of each token: what goes into the convolution and what comes out of it, the gate, the scan's output. Of each
    sequence: the convolution's history and the state, twice where the scan writes a new one beside it.
    """
    most = (0, 0)
    for layer in model.layers:
        for mixer in layer.mixers:
            if not isinstance(mixer, State):
                continue
            history = max(mixer.conv_kernel - 1, 0)
            if mixer.kind == "mamba1":
                rank = mixer.num_heads
                sizes = (
                    4 * mixer.intermediate + 2 * rank + 2 * mixer.state_size,
                    mixer.state_size * mixer.intermediate,
                )
            elif mixer.kind == "mamba2":
                inner = mixer.intermediate or mixer.num_heads * mixer.head_dim
                conv = inner + 2 * mixer.groups * mixer.state_size
                sizes = (inner + (inner + conv + mixer.num_heads) + 2 * conv, mixer.state_size * inner + history * conv)
            elif mixer.kind == "gdn":
                value, key = mixer.num_heads * mixer.head_dim, mixer.groups * mixer.key_dim
                conv = value + 2 * key
                sizes = (2 * conv + value, 2 * mixer.key_dim * value + history * conv)
            else:
                sizes = (0, 0)
            most = max(most, sizes)
    return most
