"""K10: The budget said yes, the device says no.

What it is: the KV cache was sized from utilization x total, and then could not be allocated: a neighbour grew
meanwhile, the accounting of unified memory or of another vendor's driver is off, or utilization is close to 1.

How to recognise it: an OOM in initialize_from_config or _allocate_kv_cache_tensors, after "GPU KV cache size".

Look-alikes: P05 (profile_cudagraph_memory in the traceback: the throw-away cache), K09 (sized by hand).

What fixes it: 0.05 less utilization; the neighbour gone; expandable segments if much is cached and unused.

What does not: a shorter context: the pool keeps its size.

Evidence: gpu_model_runner.py:6652 (0.21.0): one torch.zeros per KV tensor.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib, human


@rule("kv_alloc", at_stage=True)
def match(case: Case) -> Finding | None:
    if case.has("manual_kv"):
        return None
    tried, free, total = case.oom_value("tried"), case.oom_value("free"), case.total
    text = "The KV cache was sized from the budget, and then the device could not give it."
    share = 0.05
    if tried and free is not None and total:
        text += f" {human(tried)} were asked for, {human(free)} of {gib(total)} were free."
        share = max(0.05, min(0.3, (tried - free) / total + 0.01))
        if tried > total * 0.6 and not case.before("kv_tokens"):
            text += (
                " One buffer of most of a card, before any KV size was printed: a cache sized by sequences or by "
                "the model's"
                " full context, not by the budget."
            )
            return Finding(
                Tier.LIKELY,
                text,
                case.line("torch_oom", "weights"),
                (("sequences", 16), ("context", 8192), ("share_down", case.util - share)),
            )
    remedies = (("share_down", case.util - share), "free_card_last")
    return Finding(Tier.COMPUTED, text, case.line("torch_oom", "kv_tokens", "kv_alloc_failed"), remedies, {})
