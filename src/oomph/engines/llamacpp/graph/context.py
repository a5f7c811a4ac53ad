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
from oomph.facts.llamacpp.builds import NEWEST_GRAPH, GraphFacts
from oomph.ir import Attention, Mixer


class Batch(Struct, frozen=True):
    """llama_context::graph_reserve: the micro-batch that is reserved for."""

    tokens: int
    sequences: int
    outputs: int
    streams: int
    cells: int
    window_cells: int
    flash: bool
    key_bytes: float  # of one number in the cache
    value_bytes: float
    turned_values: bool = False  # the cache of values was made for attention without flash
    kv_offload: bool = True
    embeddings: bool = False
    pooling: Pooling = ""
    snapshots: int = 0  # n_rs_seq: states that are kept of each sequence so that drafts can be taken back
    facts: GraphFacts = NEWEST_GRAPH
    flash_copy: bool = False  # CUDA: flash attention's result has room for an F16 copy of a quantised cache

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


class Context:
    """Builds one graph. Names follow llama-graph.cpp."""

    def __init__(self, parts: Parts, batch: Batch) -> None:
        self.parts, self.batch, self.graph = parts, batch, Graph()
        self.fused: list[tuple[Tensor, int]] = []  # flash attention and the backend of its layer
        self.positions = graph_input((batch.tokens,), I32)
        self.output_ids = graph_input((batch.outputs,), I32)
        mixers = [m for layer in parts.layers for m in layer.mixers]
        attentions = [m for m in mixers if isinstance(m, Attention)]
        self.windowed = any(a.kind in ("sliding_window", "chunked_local") for a in attentions)
        self.full = self._attention_inputs(batch.cells, attentions)
        self.window = self._attention_inputs(batch.window_cells, attentions) if self.windowed else None
        self.states = graph_input((batch.sequences,), I32)
        self.copied_states = strided(self.states, (batch.sequences,), ())
        self.extra_states = strided(self.states, (0,), ())

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

    def norm(self, source: Tensor, weight: Tensor | None, layer: LayerParts | None, bias: Tensor | None = None,
             op: str = "RMS_NORM") -> Tensor:  # fmt: skip
        result = unary(op, source)
        if weight is not None or bias is not None:
            if layer is not None and self.parts.pinned:
                result.backend = layer.device
            if weight is not None:
                result = unary("MUL", result, weight)
            if bias is not None:
                result = unary("ADD", result, bias)
        return result

    def rope(self, source: Tensor, layer: LayerParts, *, windowed: bool = False) -> Tensor:
        factors = self.parts.rope.get(layer.device)
        if factors is None or (windowed and self.parts.family == "gemma4"):
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


def cache_tensor(width: int, cells: int, streams: int, nbytes: float, home: int) -> Tensor:
    tensor = cache((width, cells, streams), F16, home)
    tensor.size = int(width * nbytes) * cells * streams
    return tensor
