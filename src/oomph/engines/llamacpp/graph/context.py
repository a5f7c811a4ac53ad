"""What the graph of one micro-batch is built with: its size, its inputs, weights by name (llama-graph.cpp)."""

from collections.abc import Mapping

from msgspec import Struct

from oomph.engines.llamacpp.ggml.tensor import (
    F16,
    F32,
    I32,
    I64,
    Graph,
    Tensor,
    cache,
    cast,
    graph_input,
    mul_mat,
    strided,
    unary,
    weight,
)
from oomph.engines.llamacpp.settings import Pooling
from oomph.facts.dtypes import BLOCKS
from oomph.facts.llamacpp.builds import NEWEST_GRAPH, GraphFacts
from oomph.facts.llamacpp.graphs import LLAMA, Style
from oomph.ir import Attention, Mixer


def bytes_of(kind: str) -> float:
    """One number of a cache type."""
    block, size = BLOCKS[kind.upper()]
    return size / block


class Batch(Struct, frozen=True):
    """llama_context::graph_reserve: the micro-batch that is reserved for."""

    tokens: int
    sequences: int
    outputs: int
    streams: int
    cells: int
    window_cells: int
    flash: bool
    key_type: str = "f16"
    value_type: str = "f16"
    turned_values: bool = False  # the cache of values was made for attention without flash
    kv_offload: bool = True
    embeddings: bool = False
    pooling: Pooling = ""
    snapshots: int = 0  # n_rs_seq: states that are kept of each sequence so that drafts can be taken back
    facts: GraphFacts = NEWEST_GRAPH
    flash_copy: bool = False  # CUDA: flash attention's result has room for an F16 copy of a quantised cache

    @property
    def key_bytes(self) -> float:
        """Of one number in the cache."""
        return bytes_of(self.key_type)

    @property
    def value_bytes(self) -> float:
        return bytes_of(self.value_type)

    @property
    def sequence_tokens(self) -> int:
        return self.tokens // self.sequences


class Weights(dict[str, Tensor]):
    """By name. A matrix that the graph needs and the model does not name (a catalogue entry) is as wide as a hidden
    state: it decides nothing beside those that are named."""

    def __init__(self, named: Mapping[str, Tensor], embd: int, home: int) -> None:
        super().__init__(named)
        self.embd, self.home = embd, home

    def __missing__(self, name: str) -> Tensor:
        return weight((self.embd, self.embd), 0, self.home)


class LayerParts(Struct, frozen=True):
    """One layer: its weights by their names without the block, and the backend that holds its cache."""

    weights: Weights
    mixers: tuple[Mixer, ...]
    device: int
    cache_home: int
    index: int

    def small(self, name: str) -> Tensor:
        """A vector that every such layer has, whatever its file calls it."""
        return self.weights.get(name) or weight((1,), F32, self.device)


class Parts(Struct, frozen=True):
    """A model as its graph needs it."""

    family: str
    root: Weights
    layers: tuple[LayerParts, ...]
    embd: int
    experts_used: int
    cpu: int
    pinned: bool  # every layer is on a GPU: norms stay with their layer (graph_get_cb)
    window_widest: int = 0  # values of the widest layer, all heads
    rope: Mapping[int, Tensor] = {}  # factors of the rotary frequencies, on each backend
    style: Style = LLAMA
    depth: int = 0  # layers of the whole model; some of equal ones are not played
    numbers: Mapping[str, float] = {}  # of the file's metadata: what adds a step


class Context:
    """Builds one graph. Names follow llama-graph.cpp."""

    def __init__(self, parts: Parts, batch: Batch) -> None:
        self.parts, self.batch, self.graph = parts, batch, Graph()
        self.fused: list[tuple[Tensor, int]] = []  # flash attention and the backend of its layer
        self.caches: dict[tuple[str, int], Tensor] = {}  # what and of which layer
        self.style, self.numbers = parts.style, parts.numbers
        self.positions = graph_input((batch.tokens * self._positions_per_token(),), I32)
        self.output_ids = graph_input((batch.outputs,), I32)
        mixers = [m for layer in parts.layers for m in layer.mixers]
        attentions = [m for m in mixers if isinstance(m, Attention)]
        self.windowed = any(a.kind in ("sliding_window", "chunked_local") for a in attentions)
        self.query_scale = graph_input((1, 1, batch.tokens), F32)
        self.batch_masks = tuple(graph_input((batch.tokens,) * 2, F16 if batch.flash else F32) for _ in range(2))
        self.full = self._attention_inputs(batch.cells, attentions)
        self.window = self._attention_inputs(batch.window_cells, attentions) if self.windowed else None
        self.states = graph_input((batch.sequences,), I32)
        self.copied_states = strided(self.states, (batch.sequences,), ())
        self.extra_states = strided(self.states, (0,), ())

    def _positions_per_token(self) -> int:
        """n_pos_per_embd."""
        set_there = self.style.mrope == "if set" and self.numbers.get("rope.dimension_sections")
        return 4 if self.style.mrope == "always" or set_there else 1

    def _attention_inputs(self, cells: int, attentions: list[Attention]) -> "AttentionInputs":
        batch = self.batch
        values = max((a.num_kv_heads * a.head_dim_v for a in attentions), default=0)
        indices = batch.tokens * (values if batch.turned_values else 1)
        cast_later = batch.flash and batch.facts.mask_cast
        wide = F32 if cast_later or not batch.flash else F16
        mask = graph_input((cells, batch.tokens // batch.streams, 1, batch.streams), wide)
        if cast_later:
            mask = cast(mask, F16)
        first = attentions[0] if attentions else None
        rotate_k = bool(first) and batch.key_bytes < F16 and first.head_dim % 64 == 0 and first.kind != "mla"  # type: ignore[union-attr]
        rotate_v = bool(first) and batch.value_bytes < F16 and first.head_dim_v % 64 == 0 and first.kind != "mla"  # type: ignore[union-attr]
        width = 64
        while rotate_k and first is not None and first.head_dim % (2 * width) == 0:
            width *= 2
        return AttentionInputs(
            graph_input((batch.tokens,), I64),
            graph_input((indices,), I64),
            mask,
            graph_input((width, width), F32) if rotate_k else None,
            graph_input((64, 64), F32) if rotate_v else None,
        )

    def cache(self, owner: tuple[str, int], width: int, cells: int, home: int) -> Tensor:
        """Keys or values of a layer; layers that share them read the same tensor."""
        if owner not in self.caches:
            streams = self.batch.streams
            tensor = cache((width, cells, streams), F16, home)
            tensor.dtype = self.batch.key_type if owner[0] == "keys" else self.batch.value_type
            tensor.size = int(width * bytes_of(tensor.dtype)) * cells * streams
            self.caches[owner] = tensor
        return self.caches[owner]

    def norm(self, source: Tensor, weight: Tensor | None, layer: LayerParts | None, bias: Tensor | None = None,
             op: str = "") -> Tensor:  # fmt: skip
        """build_norm: one with a weight stays with its layer."""
        by_file = self.style.norm_by_file and self.numbers.get("attention.layer_norm_rms_epsilon")
        result = unary(op or ("RMS_NORM" if by_file else self.style.norm), source)
        if weight is not None or bias is not None:
            if layer is not None and self.parts.pinned:
                result.backend = layer.device
            if weight is not None:
                result = unary("MUL", result, weight)
            if bias is not None:
                result = unary("ADD", result, bias)
        return result

    def scaled(self, source: Tensor, key: str, default: bool) -> Tensor:
        return unary("SCALE", source) if self.numbers.get(key, default) else source

    def rope(self, source: Tensor, layer: LayerParts, *, windowed: bool = False) -> Tensor:
        factors = self.parts.rope.get(layer.device)
        if factors is None or (windowed and self.parts.family in ("gemma4", "step35")):
            return unary("ROPE", source, self.positions)
        return unary("ROPE", source, self.positions, factors)

    def product(self, weight: Tensor, source: Tensor, bias: Tensor | None = None) -> Tensor:
        result = mul_mat(weight, source)
        return unary("ADD", result, bias) if bias is not None else result


class AttentionInputs(Struct, frozen=True):
    key_ids: Tensor
    value_ids: Tensor
    mask: Tensor
    rotate_k: Tensor | None
    rotate_v: Tensor | None
