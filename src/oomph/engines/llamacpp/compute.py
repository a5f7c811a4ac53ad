"""Compute buffers: what ggml's graph allocator reserves for one micro-batch of the worst-case graph.

The sizes were read off the allocator of each build named in facts/llamacpp/builds.py; see docs/llamacpp.md for what
was tried. They do not depend on how many layers a device has.
"""

from __future__ import annotations

from msgspec import Struct

from oomph.engines.llamacpp.settings import Settings
from oomph.engines.llamacpp.tensors import Width
from oomph.facts.llamacpp.builds import compute_row

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
    ff: int  # the widest activation between two matrix products
    query: int
    logits: int
    mask: int
    scores: int  # K x Q, materialised without flash attention

    @property
    def widest(self) -> int:
        return max(self.logits, self.ff, self.query)


def graph(w: Width, s: Settings, cells: int, window_cells: int) -> Graph:
    u = min(s.n_ubatch, s.n_ctx)
    hidden = w.embd * u * F32
    ff = 3 * w.ff * u * F32
    if w.experts_used:
        ff = max(ff, 3 * w.expert_ff * w.experts_used * u * F32, 2 * w.embd * w.experts_used * u * F32 + hidden)
    mask = u * (F16 if s.flash_attn else F32) * (cells + window_cells)
    logits = w.vocab * min(u, s.n_outputs_max) * F32
    scores = 0 if s.flash_attn else max(cells, window_cells) * u * w.heads * F32
    return Graph(hidden, ff, 2 * w.query * u * F32, logits, mask, scores)


def gpu_buffer(g: Graph, s: Settings, *, full: bool, output: bool, first: bool, last: bool, gpus: int) -> Buffer:
    """One GPU's buffer. `full`: every unit is on a GPU; `gpus`: how many have some."""
    row = compute_row(s.build)
    mask = 0 if row.mask_overlaps else g.mask
    if full and gpus > 1 and s.split_mode == "layer" and s.kv_offload and not s.overrides:
        return _pipeline(g, mask, first=first, last=last)
    largest = max(g.logits if output else 0, g.ff, g.query)
    n = mask + row.hidden * g.hidden + max(largest, g.scores + g.query if g.scores else 0)
    parts = {"mask": mask, "hidden": row.hidden * g.hidden, "widest activation": n - mask - row.hidden * g.hidden}
    if full:
        return Buffer(n, n - max(g.query, 1 << 20), n + max(n // 50, 1 << 20), parts, "mask + hidden + widest tensor")
    low = (g.logits if output else 0) + g.hidden
    return Buffer(n, min(low, n), n + n // 20, parts, "as with all layers on the GPU: an upper bound for some of them")


def _pipeline(g: Graph, mask: int, *, first: bool, last: bool) -> Buffer:
    """Two GPUs measured; a GPU in the middle is taken like the first."""
    one = g.widest if g.query > g.ff else g.ff
    n = one + COPIES * mask + 16 * g.hidden
    if last and not first:
        n = max(g.logits + COPIES * mask + 9 * g.hidden, one + COPIES * mask + 11 * g.hidden)
    n += g.scores
    parts = {"mask, 4 copies": COPIES * mask, "activations": n - COPIES * mask}
    return Buffer(n, n - n // 8, n + n // 20 + (1 << 20), parts, "pipeline parallelism: inputs in 4 copies")


def host_buffer(g: Graph, s: Settings, *, full: bool, gpus: int) -> Buffer:
    row = compute_row(s.build)
    mask = 0 if row.mask_overlaps else g.mask
    if full and gpus > 1 and s.split_mode == "layer" and s.kv_offload and not s.overrides:
        n = COPIES * mask + 10 * g.hidden
    elif full:
        n = mask + row.hidden * g.hidden
    else:
        n = mask + row.hidden_cpu * g.hidden + max(g.logits, g.ff, g.query) + g.scores
    return Buffer(n, n // 2, n + n // 10 + (1 << 20), {"mask": mask, "activations": n - mask}, "inputs and CPU layers")


def dequantised(s: Settings, widest_layer: int) -> int:
    """CUDA's prefill kernels read F16: other cache types get an F16 copy of one layer's keys and values."""
    return widest_layer if s.flash_attn and "f16" not in (s.type_k, s.type_v) else 0
