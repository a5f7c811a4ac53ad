"""What an engine that sleeps keeps on the GPU, and what it needs at once to wake up.

device_allocator/cumem.py (0.32.0): everything in its pools is unmapped, the weights and what the runner keeps for
sequences (they are copied to the host at level 1) and the KV cache. What is not in a pool stays: the CUDA context, the
kernels that were loaded, workspaces that profiling left, and graphs unless --sleep-mode-offload-cudagraph takes them.
The allocator's cache is emptied. Both levels leave the same on the GPU.
"""

from oomph.engines.vllm.kv.check import KvPlan
from oomph.engines.vllm.serving.after_start import KERNELS_AFTER_PROFILING
from oomph.engines.vllm.timeline import Terms
from oomph.ir import Term
from oomph.ir.gate import best_case, spread, worst_case
from oomph.ir.plan import Asleep


def asleep(terms: Terms, kv: KvPlan, *, graphs_stay: bool) -> Asleep:
    stays = [terms.context, terms.non_torch, *([terms.captured] if graphs_stay else [])]
    parts = {term.name: term.bytes for term in stays if term.bytes}
    parts |= {"workspaces": terms.persistent, "kernels": KERNELS_AFTER_PROFILING}
    size, slacks = sum(parts.values()), spread(*stays)
    low, high = size - best_case(slacks) - KERNELS_AFTER_PROFILING, size + worst_case(slacks) + KERNELS_AFTER_PROFILING
    left = Term("asleep", size, low, high, "measured", parts, "what is in none of sleep mode's pools")
    cache = kv.num_blocks * max(kv.stage_bytes_per_block, default=kv.bytes_per_block)
    return Asleep(left, terms.weights.bytes + terms.runner.bytes + cache)
