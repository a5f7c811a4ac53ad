"""CUDA graphs: how many, what the profiler estimates for them, and the throw-away KV cache it allocates to do so."""

from __future__ import annotations

from msgspec import Struct

from oomph.ir.ledger import Term
from oomph.ir.model import Attention, Experts, Model
from oomph.units import MIB, cdiv

# Fitted, not derived: these constants were chosen so that eleven start-ups of eight models on an H200, vLLM 0.21.0
# (tests/truth/h200.jsonl) come out within 19 %. The shape is physical (a pool, activations of the largest graph, driver
# memory in 2 MiB steps that grows with the launches of a graph); the numbers were never checked on another start-up.
_POOL_BYTES = 40 * MIB
_LAUNCHES_PER_STEP = 288
_STEP_BYTES = 2 * MIB
# Kernel launches of one layer: guesses of the right order, adjusted with the constants above. Nobody counted them.
_DENSE_LAUNCHES, _NORM_LAUNCHES, _ATTENTION_LAUNCHES = 8, 2, 2
_EXPERT_LAUNCHES, _MXFP4_LAUNCHES, _MLA_LAUNCHES, _STATE_LAUNCHES = 8, 17, 22, 8


class Graphs(Struct, frozen=True):
    piecewise: int  # how many graphs of each mode
    full: int
    largest: int  # tokens of the largest


def count_graphs(mode: str, sizes: tuple[int, ...], seqs: int, drafts: int, lora_cases: int = 1) -> Graphs:
    """cudagraph_dispatcher.py:165: piecewise graphs for every size, full decode graphs for those a decode batch can
    have."""
    query = 1 + drafts
    decode = [s for s in sizes if query <= s <= seqs * query]
    piecewise = len(sizes) if "PIECEWISE" in mode else 0
    full = len(decode) if mode in ("FULL_AND_PIECEWISE", "FULL_DECODE_ONLY") else len(sizes) if mode == "FULL" else 0
    return Graphs(piecewise * lora_cases, full * lora_cases, max(sizes, default=0))


def estimate(model: Model, graphs: Graphs, bytes_per_token: int, layers: int, *, known: bool) -> Term:
    """gpu_model_runner.py:6049: the first capture, then the second's size for every further graph of each mode."""
    if not graphs.piecewise and not graphs.full:
        return Term("cudagraph", 0, 0, 0, "exact", {}, "no CUDA graphs")
    launches = _launches(model)
    piece = cdiv(layers * launches, _LAUNCHES_PER_STEP) * _STEP_BYTES
    whole = cdiv(layers * (launches + _ATTENTION_LAUNCHES), _LAUNCHES_PER_STEP) * _STEP_BYTES
    first = _POOL_BYTES + graphs.largest * bytes_per_token
    total = first + max(0, graphs.piecewise - 1) * piece + max(0, graphs.full - 1) * whole
    spread = 0.25 if known else 0.5
    parts = {"first capture": first, "further graphs": total - first}
    low, high = round(total * (1 - spread)), round(total * (1 + spread))
    why = f"{graphs.piecewise} piecewise and {graphs.full} full graphs, the largest of {graphs.largest} tokens"
    return Term("cudagraph", total, low, high, "measured", parts, why)


def _launches(model: Model) -> int:
    """Kernel launches of the layer kind that has most."""
    best = 0
    seen: set[int] = set()
    for layer in model.layers:
        if id(layer.block) in seen:
            continue
        seen.add(id(layer.block))
        n = _DENSE_LAUNCHES
        names = [m.name for m in layer.block.modules]
        n += _NORM_LAUNCHES * any("q_norm" in x for x in names)
        for m in layer.block.modules:
            if isinstance(m, Experts):
                n += _MXFP4_LAUNCHES if m.scheme is not None and m.scheme.method == "mxfp4" else _EXPERT_LAUNCHES
        for mixer in layer.mixers:
            n += _MLA_LAUNCHES * (isinstance(mixer, Attention) and mixer.kind == "mla")
            n += _STATE_LAUNCHES * (not isinstance(mixer, Attention))
        best = max(best, n)
    return best


def throwaway_blocks(runner: str, graphs: Graphs, seqs: int) -> int:
    """Blocks of the KV cache that is allocated only to profile graphs: gpu_model_runner.py:6049 (V1), the V2 runner
    takes no more than there can be requests (gpu/cudagraph_utils.py:873, 0.32.0)."""
    return min(seqs, graphs.largest) if runner == "v2" else graphs.largest
