"""From a model that is placed to the compute buffers that ggml reserves for it."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.llamacpp.ggml.fusion import fused_experts
from oomph.engines.llamacpp.ggml.reorder import together
from oomph.engines.llamacpp.ggml.scheduler import Machine, Reservation, assign, reserve
from oomph.engines.llamacpp.ggml.tensor import Tensor as Node, weight
from oomph.engines.llamacpp.graph.altup import SPARSE_LAYERS
from oomph.engines.llamacpp.graph.context import Batch, Context, LayerParts, Parts, Weights
from oomph.engines.llamacpp.graph.decoder import build_graph
from oomph.engines.llamacpp.settings import Settings
from oomph.engines.llamacpp.tensors import Tensor
from oomph.facts.llamacpp.builds import graph_facts
from oomph.facts.llamacpp.graphs import FAMILIES, NUMBERS, style_of
from oomph.ir import Attention, Mixer, Model, State

ROPE_FACTORS = ("rope_freqs", "rope_factors_long", "rope_factors_short")
PERIODS = (1, 2, 3, 4, 5, 6, 8, 10, 12)
# Periods of equal layers that are played: of 288 random settings of attention none needed more than 4. What a scan
# leaves free depends on how many layers there were before it, so that a model of scans is played whole.
KEEP = 5

_SCANS = ("mamba1", "mamba2")

# What a catalogue's checkpoint calls vectors that a file has under llama.cpp's names.
VECTORS = {
    "input_layernorm.weight": "attn_norm.weight", "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight", "self_attn.sinks": "attn_sinks.weight",
    "pre_feedforward_layernorm.weight": "ffn_norm.weight", "post_feedforward_layernorm.weight": "post_ffw_norm.weight",
    "self_attn.kv_a_layernorm.weight": "attn_kv_a_norm.weight",
    "self_attn.q_a_layernorm.weight": "attn_q_a_norm.weight",
    "linear_attn.norm.weight": "ssm_norm.weight", "norm.weight": "attn_norm.weight",
    "per_layer_input_gate.weight": "inp_gate.weight", "per_layer_projection.weight": "proj.weight",
    "post_per_layer_input_norm.weight": "post_norm.weight",
}  # fmt: skip


class Piece(Struct, frozen=True):
    """A tensor of a layer, without the layer's number."""

    name: str
    shape: tuple[int, ...]
    nbytes: int


class Outline(Struct, frozen=True, cache_hash=True):
    """What the graphs of a model are built from, in a form that can be compared."""

    family: str
    embd: int
    experts_used: int
    root: tuple[Piece, ...]
    tied: bool
    layers: tuple[tuple[int, tuple[Piece, ...], tuple[Mixer, ...]], ...]
    numbers: tuple[tuple[str, float], ...] = ()


def outline(model: Model, tensors: Sequence[Tensor]) -> Outline:
    used = model.param("expert_used_count")
    layers: dict[int, list[Piece]] = {}
    root = []
    gemma = any(tensor.name.endswith("pre_feedforward_layernorm.weight") for tensor in tensors)
    between = "post_attention_norm.weight" if gemma else "ffn_norm.weight"
    for tensor in tensors:
        if tensor.name.startswith("blk."):
            _, number, name = tensor.name.split(".", 2)
            name = VECTORS.get(name, between if name == "post_attention_layernorm.weight" else name)
            name = f"{name}.weight" if name.endswith("_norm") else name  # PLaMo and Falcon-H1 leave it out
            layers.setdefault(int(number), []).append(Piece(name, tensor.shape, tensor.nbytes))
        elif not tensor.copy:
            root.append(Piece(tensor.name, tensor.shape, tensor.nbytes))
    same: dict[tuple[Piece, ...], tuple[Piece, ...]] = {}
    rows = []
    for layer in model.layers:
        pieces = tuple(layers.get(layer.index, ()))
        rows.append((layer.index, same.setdefault(pieces, pieces), layer.mixers))
    names = {piece.name for piece in root}
    kind = model.model_type
    return Outline(
        FAMILIES.get(kind, kind), model.hidden_size, used if isinstance(used, int) else 0, tuple(root),
        "output.weight" not in names and model.param("output_head") != "none", tuple(rows),
        numbers=_numbers(model),
    )  # fmt: skip


def _numbers(model: Model) -> tuple[tuple[str, float], ...]:
    """Of a file's metadata. A catalogue's entry has none: its experts' shares sum to one, but for DeepSeek-V2's."""
    if model.source == "llama-quantize's rules":
        return () if model.model_type == "deepseek_v2" else (("expert_weights_norm", 1.0),)
    return tuple((key, float(value)) for key, value in model.params if key in NUMBERS)


Home = Callable[[str], int | None]  # a tensor's name -> the backend that an override gives it


class Seat(Struct, frozen=True):
    """Where a layer is: its row in the outline, the backends of its unit and its cache, and of tensors apart."""

    row: int
    device: int
    cache: int
    moved: tuple[tuple[int, int], ...] = ()  # (piece, backend)


def seats(outline: Outline, units: Sequence[int], caches: Sequence[int], home: Home | None) -> tuple[Seat, ...]:
    """Of every layer. `units`, `caches`: the backend of each layer and of its cache."""
    all_seats = []
    rows = {index: row for row, (index, _, _) in enumerate(outline.layers)}
    for row, (index, pieces, mixers) in enumerate(outline.layers):
        moved: tuple[tuple[int, int], ...] = ()
        if home is not None:
            homes = ((at, home(f"blk.{index}.{piece.name}")) for at, piece in enumerate(pieces))
            moved = tuple((at, backend) for at, backend in homes if backend is not None and backend != units[row])
        owner = next((m.shares_cache_of for m in mixers if isinstance(m, Attention)), None)
        cache = caches[row if owner is None else rows.get(owner, row)]
        all_seats.append(Seat(row, units[row], cache, moved))
    return tuple(all_seats)


def played(outline: Outline, all_seats: Sequence[Seat]) -> tuple[Seat, ...]:
    """Those that decide: of equal layers some stand for all."""
    if any(isinstance(m, State) and m.kind in _SCANS for _, _, mixers in outline.layers for m in mixers):
        return tuple(all_seats)
    looks = [
        (
            *outline.layers[seat.row][1:],
            seat.device,
            seat.cache,
            seat.moved,
            _phase(outline, outline.layers[seat.row][0]),
        )
        for seat in all_seats
    ]
    return tuple(all_seats[index] for index in shorten(looks))


def _phase(outline: Outline, index: int) -> tuple[int, bool, bool, bool]:
    """What a layer does by its number alone."""
    style, numbers = style_of(outline.family), dict(outline.numbers)
    step = index % style.step if style.rope.startswith("stepped") else 0
    dense = style.dense_rotated and index < numbers.get("leading_dense_block_count", 0)
    sparse = outline.family == "gemma3n" and index < SPARSE_LAYERS
    return step, index < numbers.get("n_deepstack_layers", 0), dense, sparse


def attention_stays(outline: Outline, chosen: Sequence[Seat]) -> bool:
    """Whether what overrides move is of feed-forward blocks alone: then each layer's attention runs where it is."""
    moved = ((outline.layers[seat.row][1][at].name, backend) for seat in chosen for at, backend in seat.moved)
    return all(name.startswith("ffn_") for name, _ in moved)


@lru_cache(maxsize=512)
def reservation(
    outline: Outline, chosen: tuple[Seat, ...], root: tuple[int, ...], output: int, batch: Batch, machine: Machine,
    pinned: bool,
) -> Reservation:  # fmt: skip
    """`root`: the backend of each tensor outside the layers; `output`: of the output's matrix; `pinned`: norms stay
    with their layer."""
    optimize = fused_experts if machine.fuses_experts else together if machine.reorders else None
    return reserve(_graph(outline, chosen, root, output, batch, machine, pinned).graph, machine, optimize)


@lru_cache(maxsize=64)
def flash_stays(
    outline: Outline, chosen: tuple[Seat, ...], root: tuple[int, ...], output: int, batch: Batch, machine: Machine,
    pinned: bool,
) -> bool:  # fmt: skip
    """llama_context::resolve_fused_ops: -fa auto is off where a layer's attention would run on another device."""
    probe = replace(batch, tokens=batch.sequences, outputs=batch.sequences)
    build = _graph(outline, chosen, root, output, probe, machine, pinned)
    assign(build.graph, machine)
    return all(node.backend == device for node, device in build.fused)


def _graph(
    outline: Outline, chosen: tuple[Seat, ...], root: tuple[int, ...], output: int, batch: Batch, machine: Machine,
    pinned: bool,
) -> Context:  # fmt: skip
    tops = {p.name: weight(p.shape, p.nbytes, at) for p, at in zip(outline.root, root, strict=True)}
    if "output.weight" in tops:
        tops["output"] = tops["output.weight"]
    elif outline.tied and "token_embd.weight" in tops:
        table = tops["token_embd.weight"]
        tops["output"] = weight(table.ne[:2], table.size, output)
    layers = tuple(_layer(outline, seat, seat.row) for seat in chosen)
    factors = next((p for p in outline.root if p.name.partition(".")[0] in ROPE_FACTORS), None)
    rope = {} if factors is None else {
        at: weight(factors.shape, factors.nbytes, at) for at in {seat.device for seat in chosen}
    }  # fmt: skip
    attentions = [m for _, _, mixers in outline.layers for m in mixers if isinstance(m, Attention)]
    widest = max((a.num_kv_heads * a.head_dim_v for a in attentions), default=0)
    parts = Parts(
        outline.family,
        Weights(tops, outline.embd, machine.gpus),
        layers,
        outline.embd,
        outline.experts_used,
        machine.gpus,
        pinned=pinned,
        window_widest=widest,
        rope=rope,
        style=style_of(outline.family),
        depth=len(outline.layers),
        numbers=dict(outline.numbers),
    )
    return build_graph(parts, batch)


def _layer(outline: Outline, seat: Seat, row: int) -> LayerParts:
    index, pieces, mixers = outline.layers[row]
    moved = dict(seat.moved)
    named: Mapping[str, Node] = {
        piece.name: weight(piece.shape, piece.nbytes, moved.get(at, seat.device)) for at, piece in enumerate(pieces)
    }
    return LayerParts(Weights(named, outline.embd, seat.device), mixers, seat.device, seat.cache, index)


def batch_of(settings: Settings, cells: int, window_cells: int, *, flash_copy: bool = False) -> Batch:
    tokens = min(settings.n_ctx, settings.n_ubatch)
    tokens = -(-tokens // settings.n_seq_max) * settings.n_seq_max
    return Batch(
        tokens,
        sequences=settings.n_seq_max,
        outputs=min(tokens, settings.n_outputs_max),
        streams=settings.n_stream,
        cells=cells,
        window_cells=window_cells,
        flash=settings.flash_attn,
        key_type=settings.type_k,
        value_type=settings.type_v,
        turned_values=not settings.flash_attn,
        kv_offload=settings.kv_offload,
        embeddings=settings.embeddings,
        pooling=settings.pooling,
        snapshots=settings.snapshots,
        facts=graph_facts(settings.build),
        flash_copy=flash_copy,
    )


def shorten(rows: Sequence[object]) -> list[int]:
    """The indices that are played: of equal layers in a row, or of a repeated pattern, KEEP periods."""
    sample = list(range(len(rows)))
    for period in PERIODS:
        at = 0
        while at < len(sample):
            end = at + period
            while end < len(sample) and rows[sample[end]] == rows[sample[end - period]]:
                end += 1
            extra = (end - at) // period - KEEP
            if extra > 0:
                del sample[at + KEEP * period : at + (KEEP + extra) * period]
                at += KEEP * period
            else:
                at += 1
    return sample
