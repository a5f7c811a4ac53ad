"""Compute buffers: what ggml's graph allocator reserves for one micro-batch of the worst-case graph.

The sizes were read off the allocator of each build named in facts/llamacpp/builds.py; see docs/llamacpp.md for what
was tried. They do not depend on how many layers a device has.
"""

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.llamacpp.settings import Settings
from oomph.engines.llamacpp.tensors import Width
from oomph.facts.llamacpp.builds import Compute, compute_row

F32, F16 = 4, 2
COPIES = 4  # GGML_SCHED_MAX_COPIES: inputs are kept so often with pipeline parallelism


class Buffer(Struct, frozen=True):
    nbytes: int
    low: int
    high: int
    parts: dict[str, int]
    why: str


class Graph(Struct, frozen=True):
    """The tensors that decide, in bytes."""

    hidden: int
    ff: int  # the widest activations between two matrix products
    query: int
    logits: int
    mask_full: int
    mask_window: int
    scores: int  # K x Q, materialised without flash attention
    index: int  # where the rows of a transposed V go: one 64-bit number a value, without flash attention
    moe: bool
    recurrent: int  # a recurrent layer's activations and states
    inputs: int  # Gemma: every layer's own input, kept from the first to the last
    looked_up: int  # and what of it is looked up on the host
    carried: int  # the states of all sequences, once more where few tokens are spread over many
    without_experts: int  # `ff` of a GPU whose experts are on the CPU: what they give back
    experts: int  # and what they need there

    @property
    def mask(self) -> int:
        return self.mask_full + self.mask_window

    @property
    def widest(self) -> int:
        """The step of a layer that needs most: MLP or experts, attention, a recurrent layer."""
        return max(self.ff, 2 * self.query, self.recurrent)

    def between(self) -> int:
        """What lies between hidden states and scores without flash attention; read off five shapes."""
        if self.mask_window:
            return 4 * self.hidden + 2 * self.query
        return max(4 * self.hidden + self.query, 2 * self.hidden + 3 * self.query)


def graph(width: Width, settings: Settings, cells: int, window_cells: int) -> Graph:
    micro_batch = min(settings.n_ubatch, settings.n_ctx)
    hidden = width.embd * micro_batch * F32
    parts = 3 if width.gated else 1
    ff = dense = parts * width.ff * micro_batch * F32
    down = experts = 0
    before = width.before * width.experts_used * micro_batch * F32
    if width.experts_used:
        # gate, up and their product; what comes down fits into the hole that two of them leave, or is put behind them
        one, down = (
            width.expert_ff * width.experts_used * micro_batch * F32,
            width.embd * width.experts_used * micro_batch * F32,
        )
        experts = parts * one + (down if down > (parts - 1) * one else 0)
        ff = max(ff, experts + before)
    query = width.query * micro_batch * F32
    if width.latent_query:
        dense = max(dense, 2 * query + width.latent_query * micro_batch * F32)
        ff = max(ff, dense)
    wide = F16 if settings.flash_attn else F32
    caches = (cells > 0) + (window_cells > 0)
    return Graph(
        hidden,
        ff,
        query,
        width.vocab * min(micro_batch, settings.n_outputs_max) * F32,
        micro_batch * wide * cells,
        micro_batch * wide * window_cells,
        0 if settings.flash_attn else max(cells, window_cells) * micro_batch * width.heads * F32,
        0 if settings.flash_attn else micro_batch * width.value * 8 * caches,
        width.experts_used > 0,
        (width.recurrent * micro_batch + width.carried * settings.n_seq_max) * F32,
        (width.per_layer + width.side_states + (width.embd if width.per_layer else 0)) * micro_batch * F32,
        width.per_layer * micro_batch * F32,
        width.carried * settings.n_seq_max * F32,
        max(dense + before, down),
        experts,
    )


def pipelined(settings: Settings, *, full: bool, gpus: int) -> bool:
    """llama_context's constructor: several GPUs with every layer, split by layers, nothing overridden."""
    return full and gpus > 1 and settings.split_mode == "layer" and settings.kv_offload and not settings.overrides


def gpu_buffer(
    graph: Graph, settings: Settings, *, full: bool, output: bool, first: bool, last: bool, gpus: int, mask: int = -1,
    experts: bool = True,
) -> Buffer:  # fmt: skip
    """One GPU's buffer. `full`: every unit is on a GPU; `gpus`: how many have some; `mask`: of this GPU's layers;
    `experts`: it has some."""
    row = compute_row(settings.build)
    if not experts:
        graph = replace(graph, ff=graph.without_experts)
    mask = graph.mask if mask < 0 else mask
    if pipelined(settings, full=full, gpus=gpus):
        return _pipeline(graph, row, mask, first=first, last=last)
    partial = 3 if graph.moe else 2
    n = mask + graph.inputs + graph.widest
    n += row.hidden * graph.hidden + row.query * graph.query if full else partial * graph.hidden
    if output:
        copies = row.logits if full else min(row.logits, partial)
        n = max(n, mask * row.logits_mask + copies * graph.hidden + graph.logits)
    if row.mask_cast and not graph.scores:
        n = max(n, 3 * mask + 5 * graph.hidden)
    if graph.scores:
        n = max(n, mask + graph.scores + graph.index + graph.between())
    parts = {"mask": mask, "activations": n - mask}
    slack = max(n // 50, 1 << 20) + graph.carried
    if full:
        return Buffer(n, n - max(2 * graph.query, 1 << 20), n + slack, parts, "mask, hidden states, the widest tensors")
    return Buffer(
        n, min(graph.hidden, n), n + slack + 2 * graph.hidden, parts, "mask, hidden states, the widest tensors"
    )


def _pipeline(graph: Graph, row: Compute, mask: int, *, first: bool, last: bool) -> Buffer:
    """Two GPUs measured; a GPU in the middle is taken like the first."""
    n = graph.widest + graph.inputs + COPIES * mask + row.pipeline_first * graph.hidden + graph.query
    if last and not first:
        wide = max(graph.logits + 8 * graph.hidden, graph.widest + 10 * graph.hidden)
        n = wide + graph.inputs + COPIES * mask + graph.query
    n += graph.scores + COPIES * graph.index
    parts = {"mask, 4 copies": COPIES * mask, "activations": n - COPIES * mask}
    # the low end: a last GPU with one layer works on the few tokens whose logits are wanted
    low = COPIES * mask + 10 * graph.hidden if last else n - n // 8
    return Buffer(n, min(low, n), n + n // 20 + (1 << 20), parts, "pipeline parallelism: inputs in 4 copies")


def host_buffer(graph: Graph, settings: Settings, *, full: bool, gpus: int, experts: bool = False) -> Buffer:
    """`experts`: of layers that are on a GPU."""
    row, mask = compute_row(settings.build), graph.mask
    if pipelined(settings, full=full, gpus=gpus):
        n = COPIES * (mask + graph.index) + row.pipeline_host * graph.hidden + graph.looked_up
    elif full:
        cast = mask if row.mask_cast and not graph.scores else 0
        n = mask + cast + row.hidden_host * graph.hidden + graph.index + graph.looked_up
        if experts:
            n = max(n, mask + 2 * graph.hidden + graph.experts)
    else:
        n = mask + row.hidden_cpu * graph.hidden + graph.inputs + graph.widest + graph.scores + graph.index
        n = max(n, mask * row.logits_mask + (row.logits + 1) * graph.hidden + graph.logits)
    return Buffer(n, n // 2, n + n // 10 + (1 << 20), {"mask": mask, "activations": n - mask}, "inputs and CPU layers")


def dequantised(settings: Settings, widest_layer: int) -> int:
    """CUDA's prefill kernels read F16: other cache types get an F16 copy of one layer's keys and values."""
    return widest_layer if settings.flash_attn and "f16" not in (settings.type_k, settings.type_v) else 0
