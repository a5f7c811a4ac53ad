"""CUDA graphs: how many, what the profiler estimates for them, and the throw-away KV cache it allocates to do so."""

from msgspec import Struct

from oomph.ir import Attention, Experts, Linear, Model, State, Term
from oomph.units import MIB, round_up

# The profiler captures the two largest graphs of each mode and takes the second's size for all that follow, at least
# 1 MiB (gpu_model_runner.py:6049, 0.21.0). What a capture takes:
# - the warm-up pass and the graph's pool each hold the activations of the largest graph; a pool takes memory in
#   segments of 2 and 20 MiB (CUDACachingAllocator.cpp kSmallBuffer, kLargeBuffer)
# - FlashAttention 3 cuts every sequence into as many parts as there may ever be, and holds a float32 output of each
#   (flash_attn.py:376, 0.21.0); to the byte in four traced captures on an H200
# - a second stream brings a cuBLAS workspace and a pool of its own: shared experts run on one beside the routed ones,
#   and a drafter is captured after the model (60 MiB in five of five estimates whose lines were kept)
# - the driver takes 2 MiB at a time for the executable graphs, piecewise and full. Chosen so that start-ups come out,
#   not derived: twenty-five on an H200 (tests/truth/h200.jsonl, h200-served.jsonl) for 142 KiB a piece, more
#   where the experts are MXFP4 or LoRA adds kernels; what posted start-ups printed (docs/field.md) for latent attention
#   and for Ada cards.
#   Gated delta nets with experts: 1.54 GiB for Qwen3.5-35B-A3B (0.24.0) and 0.26 for eight of its layers (0.26.0).
#   One 2 MiB step more or less is a tenth of the whole estimate.
_SPLITS = 32
_SMALL_POOLS, _LARGE_POOL = 8 * MIB, 28 * MIB
_STEP_BYTES, _GRAPH_BYTES, _MLA_GRAPH_BYTES, _ADA_GRAPH_BYTES = 2 * MIB, 142 * 1024, 360 * 1024, 245 * 1024
_GDN_GRAPH_BYTES, _GDN_EXPERTS_GRAPH_BYTES, _LORA_GRAPH_BYTES = 165 * 1024, 557 * 1024, 190 * 1024
_LEAST_BYTES = MIB
_FULL_LAYER_BYTES = 66 * 1024
_V2_FURTHER = 1.1  # actual over estimated, in the same start-ups

# How far off: of nine estimates in tests/truth/activation.jsonl (H200) eight within a quarter; twice that elsewhere.
_OFF_WHERE_MEASURED, _OFF_ELSEWHERE = 0.25, 0.5


class Graphs(Struct, frozen=True):
    piecewise: int  # how many graphs of each mode
    full: int
    largest: int  # tokens of the largest
    largest_full: int
    configured: int  # the largest size before it is rounded to whole sequences of drafts
    sequences: int = 0  # of the largest decode batch


def count_graphs(
    mode: str, sizes: tuple[int, ...], seqs: int, drafts: int, lora_cases: int, *, v2: bool = False
) -> Graphs:
    """cudagraph_dispatcher.py:165: piecewise graphs for every size, full decode graphs for those a decode batch can
    have. Where sequences decode several tokens at once, sizes are rounded up to whole sequences
    (adjust_cudagraph_sizes_for_spec_decode, 0.19.0 to 0.32.0); the V2 runner rounds those of full graphs alone
    (gpu/cudagraph_utils.py _init_candidates)."""
    query, configured, count = 1 + drafts, max(sizes, default=0), len(sizes)
    if mode.startswith("FULL") and query > 1:
        sizes = tuple(sorted({n for n in (round_up(size, query) for size in sizes) if n <= max(sizes)})) or sizes
    decode = [s for s in sizes if query <= s <= seqs * query]
    piecewise = (count if v2 else len(sizes)) if "PIECEWISE" in mode else 0
    full = len(decode) if mode in ("FULL_AND_PIECEWISE", "FULL_DECODE_ONLY") else len(sizes) if mode == "FULL" else 0
    whole = decode if mode in ("FULL_AND_PIECEWISE", "FULL_DECODE_ONLY") else sizes if full else ()
    largest = max(sizes, default=0)
    largest_full = max(whole, default=0)
    return Graphs(
        piecewise * lora_cases, full * lora_cases, largest, largest_full, configured, min(seqs, largest_full // query)
    )


class Capture(Struct, frozen=True):
    """What a captured pass of the model holds."""

    bytes_per_token: int
    layers: int  # that have a mixer: a piecewise pass ends at each
    cublas_bytes: int
    split_width: int = 0  # attention output of one token where FlashAttention 3 splits sequences, else 0
    sm: int = 90
    mxfp4_bytes: int = 0  # of a layer's piecewise graph where the experts are MXFP4
    drafts: bool = False  # a drafter is captured too
    lora: bool = False
    draft_logits: int = 0  # bytes that the V2 runner's warm-up keeps for the drafter's probabilities
    hands_states: bool = False  # hidden states between the layers are outputs too: an EAGLE-3 head reads them


def estimate(model: Model, graphs: Graphs, capture: Capture, *, known: bool) -> Term:
    """The first capture of the larger mode, then the second's size for every further graph of each mode."""
    if not graphs.piecewise and not graphs.full:
        return Term("cudagraph", 0, 0, 0, "exact", {}, why="no CUDA graphs")
    live = graphs.largest * capture.bytes_per_token
    pools = max(2 * live, _LARGE_POOL if live > MIB else _SMALL_POOLS)
    splits = _SPLITS * graphs.largest_full * capture.split_width * 4
    stream = capture.cublas_bytes + _LARGE_POOL
    beside = stream if _has_shared_experts(model) else 0
    first = max(capture.cublas_bytes + pools + beside, splits) + (stream if capture.drafts else 0) + _STEP_BYTES
    piece = max(_LEAST_BYTES, _driver_bytes(model, capture))
    whole = max(_LEAST_BYTES, _FULL_LAYER_BYTES * capture.layers // _STEP_BYTES * _STEP_BYTES)
    total = first + max(0, graphs.piecewise - 1) * piece + max(0, graphs.full - 1) * whole
    parts = {"first capture": first, "further graphs": total - first}
    spread = _OFF_WHERE_MEASURED if known else _OFF_ELSEWHERE
    low, high = round(total * (1 - spread)), round(total * (1 + spread))
    why = f"{graphs.piecewise} piecewise and {graphs.full} full graphs, the largest of {graphs.largest} tokens"
    return Term("cudagraph", total, low, high, "measured", parts, why=why)


def v2_captured(parts: dict[str, int]) -> int:
    """The V2 runner does not empty the cache after capture, so that the passes which warm the graphs up stay beside the
    graphs' own pool (gpu/model_runner.py capture_model)."""
    return 2 * parts["first capture"] + round(_V2_FURTHER * parts.get("further graphs", 0))


def _driver_bytes(model: Model, capture: Capture) -> int:
    """Piecewise, a graph ends at every mixer, and one follows the last."""
    schemes = [module.scheme for x in model.layers[-1:] for module in x.block.modules if isinstance(module, Experts)]
    latent = any(isinstance(m, Attention) and m.kind == "mla" for x in model.layers[-1:] for m in x.mixers)
    one = capture.mxfp4_bytes if any(s is not None and s.method == "mxfp4" for s in schemes) else _GRAPH_BYTES
    gated = any(isinstance(m, State) and m.kind == "gdn" for x in model.layers for m in x.mixers)
    one = max(one, _LORA_GRAPH_BYTES if capture.lora else 0)
    one = max(one, _MLA_GRAPH_BYTES if latent else 0, _ADA_GRAPH_BYTES if capture.sm == 89 else 0)
    if gated:
        one = max(one, _GDN_EXPERTS_GRAPH_BYTES if schemes else _GDN_GRAPH_BYTES)
    return (capture.layers + 1) * one // _STEP_BYTES * _STEP_BYTES


def _has_shared_experts(model: Model) -> bool:
    return any(
        isinstance(module, Linear) and module.role == "shared_experts"
        for layer in model.layers[-1:]
        for module in layer.block.modules
    )


def throwaway_blocks(graphs: Graphs, seqs: int, *, per_sequence: bool) -> int:
    """Blocks of the KV cache that is allocated only to profile graphs: gpu_model_runner.py:6049 (0.21.0); since 0.26.0
    (gpu_model_runner.py:6448) and in the V2 runner (gpu/cudagraph_utils.py:873, 0.32.0) no more than requests."""
    return min(seqs, graphs.configured) if per_sequence else graphs.configured
