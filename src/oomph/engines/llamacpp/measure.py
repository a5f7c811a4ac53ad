"""What each device holds for given settings: the figures of llama.cpp's own memory breakdown."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from oomph.engines.llamacpp.cache import LayerCache, layer_caches, output_bytes
from oomph.engines.llamacpp.compute import Buffer, Graph, dequantised, gpu_buffer, graph, host_buffer
from oomph.engines.llamacpp.placement import HOST, Placement, place
from oomph.engines.llamacpp.settings import Settings
from oomph.engines.llamacpp.tensors import Tensor, Width, tensors_of, units_of, width_of
from oomph.ir import Attention, Model

NOTHING = Buffer(0, 0, 0, {}, "")


class Subject(Struct, frozen=True):
    """A model in GGUF form with what is asked of it again and again."""

    model: Model
    tensors: tuple[Tensor, ...]
    width: Width
    units: int  # layers, those of multi-token prediction, and the output


class Use(Struct, frozen=True):
    weights: int
    parts: dict[str, int]
    kv: int
    state: int
    compute: Buffer
    kv_parts: dict[str, int]

    @property
    def own(self) -> int:
        """llama.cpp's "self": model + context + compute."""
        return self.weights + self.kv + self.state + self.compute.nbytes


class Measured(Struct, frozen=True):
    devices: tuple[Use, ...]
    host: Use
    output: int
    placement: Placement
    caches: tuple[LayerCache, ...]


def subject(model: Model) -> Subject:
    tensors = tensors_of(model)
    return Subject(model, tensors, width_of(model, tensors), units_of(model))


def measure(subject: Subject, settings: Settings, free: Sequence[int], *, cuda: bool = True) -> Measured:
    count = subject.units
    placed = place(subject.tensors, count, settings, free, cuda=cuda)
    caches = layer_caches(subject.model.layers, settings)
    cells = {c.kind: c.cells for c in caches}
    largest_graph = graph(
        subject.width, settings, max(cells.get("full", 0), cells.get("mla", 0)), cells.get("sliding_window", 0)
    )
    busy = [d for d in range(len(free)) if d in placed.units]
    full = placed.offloaded == count
    copy = dequantised(settings, _widest(subject.model, settings)) if cuda else 0
    uses = []
    for device in range(len(free)):
        buffer = NOTHING
        if device in busy:
            buffer = gpu_buffer(
                largest_graph, settings, full=full, output=placed.units[-1] == device, first=device == busy[0],
                last=device == busy[-1], gpus=len(busy), mask=_mask(largest_graph, device, placed, caches),
                experts=bool(placed.weights.get(device, {}).get("experts")),
            )  # fmt: skip
            if copy:
                buffer = Buffer(
                    buffer.nbytes + copy, buffer.low, buffer.high + copy,
                    {**buffer.parts, "F16 copy of one layer's KV": copy}, buffer.why,
                )  # fmt: skip
        uses.append(_use(device, placed, caches, settings, buffer))
    has_experts = bool(placed.weights.get(HOST, {}).get("experts"))
    buffer = host_buffer(largest_graph, settings, full=full and bool(busy), gpus=len(busy), experts=has_experts)
    host = _use(HOST, placed, caches, settings, buffer)
    return Measured(tuple(uses), host, output_bytes(subject.model.vocab_size, settings), placed, tuple(caches))


def _mask(graph: Graph, device: int, placed: Placement, caches: Sequence[LayerCache]) -> int:
    """A GPU without full-attention layers has no use for their mask."""
    kinds = {c.kind for c in caches if placed.units[c.layer] == device}
    return graph.mask_full * bool(kinds & {"full", "mla"}) + graph.mask_window * ("sliding_window" in kinds)


def _use(device: int, placed: Placement, caches: Sequence[LayerCache], settings: Settings, buffer: Buffer) -> Use:
    kv = state = 0
    parts: dict[str, int] = {}
    for cache in caches:
        home = placed.units[cache.layer] if settings.kv_offload else HOST
        if home != device:
            continue
        parts[cache.kind] = parts.get(cache.kind, 0) + cache.nbytes
        if cache.kind == "state":
            state += cache.nbytes
        else:
            kv += cache.nbytes
    return Use(placed.total(device), placed.weights.get(device, {}), kv, state, buffer, parts)


def _widest(model: Model, settings: Settings) -> int:
    """F16 keys and values of the layer that has most of them."""
    most = 0
    for layer in model.layers:
        for mixer in layer.mixers:
            if isinstance(mixer, Attention) and mixer.shares_cache_of is None and not mixer.window:
                width = (
                    mixer.head_dim if mixer.kind == "mla" else mixer.num_kv_heads * (mixer.head_dim + mixer.head_dim_v)
                )
                most = max(most, width * settings.n_ctx_seq * settings.n_stream * 2)
    return most
