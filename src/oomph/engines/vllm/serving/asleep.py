"""What an engine that sleeps keeps on the GPU, and what it needs at once to wake up.

device_allocator/cumem.py (0.32.0): everything in its pools is unmapped, the weights and what the runner keeps for
sequences (they are copied to the host at level 1), the experts' workspace and the KV cache. What is not in a pool
stays: the CUDA context, the kernels that were loaded, a cuBLAS workspace for every stream, and graphs unless
--sleep-mode-offload-cudagraph takes them. The allocator's cache is emptied. Both levels leave the same on the GPU.
"""

from oomph.engines.vllm.kv.budget import Terms
from oomph.engines.vllm.kv.check import KvPlan
from oomph.facts.vllm.activation import CUBLAS_WORKSPACE_HOPPER
from oomph.ir import Term
from oomph.ir.gate import best_case, spread, worst_case
from oomph.ir.plan import Asleep
from oomph.units import MIB

_STREAM = CUBLAS_WORKSPACE_HOPPER + 2 * MIB  # and a segment of small tensors
_OFF = 24 * MIB  # chosen: gpt-oss-20b keeps 16 MiB more than this


def asleep(terms: Terms, kv: KvPlan, *, has_experts: bool, graphs_stay: bool) -> Asleep:
    """Experts run on a stream of their own beside the rest."""
    stays = [terms.context, terms.non_torch, *([terms.captured] if graphs_stay else [])]
    parts = {term.name: term.bytes for term in stays if term.bytes}
    parts |= {"graphs of the profiler": terms.graphs_kept, "workspaces": _STREAM * (2 if has_experts else 1)}
    size, slacks = sum(parts.values()), spread(*stays)
    low, high = size - best_case(slacks) - _OFF, size + worst_case(slacks) + _OFF
    left = Term("asleep", size, low, high, "measured", parts, why="what is in none of sleep mode's pools")
    cache = kv.num_blocks * max(kv.stage_bytes_per_block, default=kv.bytes_per_block)
    return Asleep(left, terms.weights.bytes + terms.runner.bytes + cache)
