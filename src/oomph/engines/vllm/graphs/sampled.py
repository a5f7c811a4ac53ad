"""CUDA graphs of the V2 runner since 0.29.0: what its profiler estimates, what stays of that, and what capture takes.

The profiler captures every piecewise graph and two full ones (gpu/cudagraph_utils.py profile_cudagraph_memory), reads
free memory before and after, and takes the second full graph's size for all that follow, at least 1 MiB. A capture
begins with an emptied cache, so that this second size is negative: it has given back what the pass that warmed it up
had reserved, and the estimate counts that once more. Then the graphs are dropped, but the driver keeps what it took for
the piecewise ones, and the real capture uses it again. Measured segment by segment on an H200 (0.32.0, torch 2.13;
tests/truth/h200-newest.jsonl).
"""

from msgspec import Struct

from oomph.engines.vllm.graphs.memory import Capture, Graphs
from oomph.ir import Attention, Experts, Model, State, Term
from oomph.units import MIB

# Of the driver, for every piece of a piecewise graph: 137 to 142 KiB in three dense models, 148 to 153 KiB in three
# with experts or recurrent layers. Latent attention, LoRA and Ada cards as the V1 runner's captures were chosen
# (memory.py).
_PIECE, _PIECE_BESIDE, _PIECE_MLA, _PIECE_LORA, _PIECE_ADA = (n * 1024 for n in (139, 150, 360, 190, 245))
# For every layer of a full graph: 38 to 44 KiB in dense models, 51 to 54 in others.
_WHOLE_LAYER, _WHOLE_LAYER_BESIDE = 42 * 1024, 53 * 1024
_STEP = 2 * MIB
# A stream's own segments: small ones, and one of 20 MiB for tensors between 1 and 10 MiB.
_SEGMENTS = 28 * MIB
_SPLITS = 32  # memory.py
# Tensors of more sizes, of which each keeps a segment: 1.4 to 2.4 times what is alive at once in two such captures.
_MORE_SIZES = 1.4
_REST = 12 * MIB  # of a pass that warms a graph up, beside the splits
_LEAST = MIB
_OFF, _LEAST_OFF = 0.15, 56 * MIB  # chosen: nine in ten of 21 starts lie within


class Sampled(Struct, frozen=True):
    estimate: Term
    captured: Term  # what the real capture takes: "Graph capturing finished ..., took X GiB"
    residue: int  # what the driver keeps of the profiler's graphs


def sampled(model: Model, graphs: Graphs, capture: Capture, *, known: bool) -> Sampled:
    if not graphs.piecewise and not graphs.full:
        none = Term("cudagraph", 0, 0, 0, "exact", {}, why="no CUDA graphs")
        return Sampled(none, Term("captured", 0, 0, 0, "exact", {}, why="no CUDA graphs"), 0)
    beside = _is_beside(model)
    largest = graphs.largest if graphs.piecewise else graphs.largest_full
    # the fit may be below zero for a model of a few layers
    live = max(0, round(largest * capture.bytes_per_token * (_MORE_SIZES if beside else 1)))
    splits = _splits(graphs.largest_full, capture)
    pools = capture.cublas_bytes + _SEGMENTS + live + splits
    if capture.drafts:  # its prompts, and its steps of one token for every sequence, on streams of their own
        pools += 2 * (capture.cublas_bytes + _SEGMENTS) + live + splits + _splits(graphs.sequences, capture)
    pieces = _stepped(graphs.piecewise * (capture.layers + 1 + 2 * capture.drafts) * _piece(model, capture, beside))
    again = splits if _is_cut(model, graphs, capture) else 0
    second = max(20 * MIB, splits) + again + _REST if graphs.full > 1 else 0
    further = max(0, graphs.full - 1) * _LEAST
    whole = _stepped(graphs.full * capture.layers * (_WHOLE_LAYER_BESIDE if beside else _WHOLE_LAYER))
    why = f"{graphs.piecewise} piecewise and {graphs.full} full graphs, the largest of {largest} tokens"
    parts = {"pools": pools, "piecewise graphs": pieces, "warm-up counted once more": second, "full graphs": further}
    parts = {name: size for name, size in parts.items() if size}
    estimate = _within("cudagraph", parts, why, known)
    taken = {"pools": pools, "full graphs": whole} | ({"draft logits": capture.draft_logits} if capture.drafts else {})
    captured = _within("captured", taken, "CUDA graphs as captured", known)
    return Sampled(estimate, captured, pieces)


def _within(name: str, parts: dict[str, int], why: str, known: bool) -> Term:
    size = sum(parts.values())
    slack = max(_LEAST_OFF, round(size * _OFF)) * (1 if known else 3)
    return Term(name, size, max(0, size - slack), size + slack, "measured", parts, why=why)


def _splits(tokens: int, capture: Capture) -> int:
    """FlashAttention 3 holds a float32 output of every part that a sequence may be cut into."""
    return _SPLITS * tokens * capture.split_width * 4


def _is_cut(model: Model, graphs: Graphs, capture: Capture) -> bool:
    """Is a block of splits taken twice? States that a head reads stay allocated between the layers. PyTorch cuts a
    tensor beyond 1 MiB out of the block that one layer's splits have given back, so that the next layer's find no block
    of their size: two passes of 512 tokens reserved 1,048 MiB, four blocks of 256 and the rest (0.32.0)."""
    return capture.hands_states and 2 * graphs.largest_full * model.hidden_size > MIB


def _stepped(size: int) -> int:
    return -(-size // _STEP) * _STEP


def _is_beside(model: Model) -> bool:
    """Has a layer more than attention and a dense MLP?"""
    layers = model.layers[-4:]
    return any(isinstance(part, Experts | State) for layer in layers for part in (*layer.block.modules, *layer.mixers))


def _piece(model: Model, capture: Capture, beside: bool) -> int:
    mixers = (mixer for layer in model.layers[-1:] for mixer in layer.mixers)
    latent = any(isinstance(mixer, Attention) and mixer.kind == "mla" for mixer in mixers)
    one = _PIECE_BESIDE if beside else _PIECE
    return max(
        one, _PIECE_MLA if latent else 0, _PIECE_LORA if capture.lora else 0, _PIECE_ADA if capture.sm == 89 else 0
    )
