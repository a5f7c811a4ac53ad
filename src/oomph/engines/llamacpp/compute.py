"""Compute buffers: what ggml's scheduler and allocator reserve for one micro-batch of the worst-case graph.

The graph is built as llama.cpp builds it (graph/), split between the GPUs and the CPU, and placed as ggml-alloc.c
places it (ggml/). Architectures of which a real llama.cpp printed the same sizes are in `VERIFIED`.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.llamacpp.cache import LayerCache
from oomph.engines.llamacpp.ggml.scheduler import MAX_COPIES, Machine
from oomph.engines.llamacpp.graph.reserve import (
    Home,
    Outline,
    attention_stays,
    batch_of,
    flash_stays,
    played,
    reservation,
    seats,
)
from oomph.engines.llamacpp.settings import Settings
from oomph.engines.llamacpp.tensors import FIRST, INPUTS
from oomph.facts.llamacpp.backends import Backend
from oomph.facts.llamacpp.builds import FLASH_COPY_SINCE, FUSED_EXPERTS_SINCE, graph_facts
from oomph.ir import Attention
from oomph.units import MIB

# tests/truth/llamacpp has rows of them: every buffer is within 1 MiB or 1 %
VERIFIED = frozenset((
    "afmoe", "apertus", "arcee", "arctic", "baichuan", "bailingmoe", "bailingmoe2", "bert", "bitnet", "bloom",
    "chameleon", "chatglm", "codeshell", "cogvlm", "cohere2", "cohere2moe", "command-r", "dbrx", "deci", "deepseek",
    "deepseek2", "deepseek2-ocr", "dots1", "dream", "ernie4_5", "ernie4_5-moe", "eurobert", "exaone", "exaone-moe",
    "exaone4", "falcon", "falcon-h1", "gemma", "gemma-embedding", "gemma2", "gemma3", "gemma3n", "gemma4", "glm4",
    "glm4moe", "gpt-oss", "gpt2", "gptneox", "granite", "granitehybrid", "granitemoe", "grok", "grovemoe",
    "hunyuan-dense", "hunyuan-moe", "hunyuan_vl", "internlm2", "jais", "jais2", "jamba", "jina-bert-v3", "kimi-linear",
    "laguna", "lfm2", "lfm2moe", "llada", "llada-moe", "llama", "llama-embed", "llama4", "maincoder", "mamba", "mamba2",
    "mellum", "mimo2", "minicpm", "minicpm3", "minimax-m2", "mistral3", "mistral4", "modern-bert", "mpt", "nemotron",
    "nemotron_h", "nemotron_h_moe", "neo-bert", "nomic-bert", "nomic-bert-moe", "olmo", "olmo2", "olmoe", "openelm",
    "orion", "paddleocr", "pangu-embedded", "phi2", "phi3", "phimoe", "plamo", "plamo2", "plamo3", "qwen", "qwen2",
    "qwen2moe", "qwen2vl", "qwen3", "qwen35", "qwen35moe", "qwen3moe", "qwen3next", "qwen3vl", "qwen3vlmoe", "refact",
    "rnd1", "seed_oss", "smallthinker", "smollm3", "stablelm", "starcoder", "starcoder2", "step35", "talkie", "xverse",
))  # fmt: skip


class Buffer(Struct, frozen=True):
    nbytes: int
    low: int
    high: int
    parts: dict[str, int]
    why: str


NO_BUFFER = Buffer(0, 0, 0, {}, "")


class Layout(Struct, frozen=True):
    """Which backend has what: the GPUs are 0, 1, ..., the CPU is the number behind them."""

    units: tuple[int, ...]  # of each layer, and the output's last
    gpus: int
    full: bool  # every unit is on a GPU
    home: Home | None = None
    measured: bool = False  # as --fit measures: nothing is pinned to its layer (ggml_backend_sched_reserve_size)


class Reserved(Struct, frozen=True):
    buffers: tuple[Buffer, ...]  # of the GPUs, and of the host
    flash: bool


def pipelined(settings: Settings, *, full: bool, gpus: int) -> bool:
    """llama_context's constructor: several GPUs with every layer, split by layers, nothing overridden."""
    typed = [rule for rule in settings.overrides if rule not in settings.refused]
    return full and gpus > 1 and settings.split_mode == "layer" and settings.kv_offload and not typed


def machine_of(settings: Settings, backend: Backend, layout: Layout) -> Machine:
    copies = MAX_COPIES if pipelined(settings, full=layout.full, gpus=layout.gpus) else 1
    return Machine(
        layout.gpus, backend, op_offload=settings.op_offload and backend.offloads, copies=copies,
        fuses_experts=backend.fuses_experts and settings.build >= FUSED_EXPERTS_SINCE,
        reorders=backend.reorders,
        all_inputs=graph_facts(settings.build).all_inputs,
    )  # fmt: skip


def reserved(
    outline: Outline, settings: Settings, layout: Layout, caches: Sequence[LayerCache], backend: Backend
) -> Reserved:
    cells = {cache.kind: cache.cells for cache in caches}
    full_cells = max(cells.get("full", 0), cells.get("mla", 0))
    batch = batch_of(
        settings,
        full_cells,
        cells.get("sliding_window", 0),
        flash_copy=backend.flash_copy and settings.build >= FLASH_COPY_SINCE,
    )
    machine, cpu = machine_of(settings, backend, layout), layout.gpus
    homes = [unit if settings.kv_offload else cpu for unit in layout.units]
    all_seats = seats(outline, layout.units, homes, layout.home)
    sizes = played(outline, all_seats)
    root = tuple(_root_home(piece.name, layout) for piece in outline.root)
    if layout.measured:  # ggml_backend_sched_reserve_size forgets what was put on the CPU for -nkvo
        batch = replace(batch, kv_offload=True)
    # With everything on one GPU the scheduler gives a norm to that GPU, pinned or not: one graph answers for both.
    alone = layout.full and layout.gpus == 1 and layout.home is None and settings.kv_offload
    # graph_get_cb: norms stay with their layer
    pinned = (layout.full or batch.tokens < machine.offload_batch) and not layout.measured and not alone
    everywhere = layout.full and settings.kv_offload and attention_stays(outline, sizes)
    everywhere = everywhere and _every_head_runs(outline, backend)
    everywhere = everywhere and (backend.mixes_bf16 or settings.type_k == settings.type_v)
    probes = batch.flash and settings.flash_auto and layout.gpus and not everywhere
    if probes and not flash_stays(outline, sizes, root, layout.units[-1], batch, machine, pinned):
        batch = replace(batch, flash=False)
    result = reservation(outline, sizes, root, layout.units[-1], batch, machine, pinned)
    cuts_layers = result.splits > len(sizes)
    if cuts_layers and machine.copies > 1 and sizes != all_seats:
        # The copies of what each cut brings all stay, so that every layer counts.
        result = reservation(outline, all_seats, root, layout.units[-1], batch, machine, pinned)
    nbytes = result.nbytes
    mask = batch.tokens * (2 if batch.flash else 4) * (full_cells + cells.get("sliding_window", 0))
    exact = outline.family in VERIFIED
    hidden = 4 * outline.embd * batch.tokens
    buffers = [_buffer(size, mask, hidden, exact=exact) for size in nbytes[:-1]]
    return Reserved((*buffers, _buffer(nbytes[-1], mask, hidden, exact=exact)), batch.flash)


def _every_head_runs(outline: Outline, backend: Backend) -> bool:
    """Flash attention of these widths runs on a GPU whatever the sizes of the batch are."""
    if not backend.heads:
        return True
    widths = {head.keys for head in backend.heads if head.keys == head.values and head.shared == 1}
    attentions = (m for _, _, mixers in outline.layers for m in mixers if isinstance(m, Attention))
    return all(m.kind != "mla" and m.head_dim == m.head_dim_v and m.head_dim in widths for m in attentions)


def larger(one: Reserved, other: Reserved) -> Reserved:
    """Where it is not known which backend runs: the larger of both buffers."""
    return Reserved(tuple(max(a, b, key=_size) for a, b in zip(one.buffers, other.buffers, strict=True)), one.flash)


def _size(buffer: Buffer) -> int:
    return buffer.nbytes


def _root_home(name: str, layout: Layout) -> int:
    moved = layout.home(name) if layout.home is not None else None
    if moved is not None:
        return moved
    head = name.partition(".")[0]
    if head in INPUTS:
        return layout.gpus
    return layout.units[0] if head in FIRST else layout.units[-1]


def _buffer(nbytes: int, mask: int, hidden: int, *, exact: bool) -> Buffer:
    if not nbytes:
        return NO_BUFFER
    mask = min(mask, nbytes)
    # Not measured: one or two hidden states more or less, which is what architectures differ in.
    spread = max(nbytes // 100, MIB) if exact else max(nbytes // 20, 2 * hidden, MIB)
    why = "as ggml reserves it: mask, hidden states, the widest tensors"
    return Buffer(nbytes, max(nbytes - spread, 0), nbytes + spread, {"mask": mask, "activations": nbytes - mask}, why)
