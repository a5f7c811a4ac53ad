"""D10: The rank with the least memory decides for all.

What it is: the number of KV blocks is the smallest over all workers. A desktop on GPU 0, unequal pipeline stages or
mixed cards waste what the others have.

How to recognise it: several "Available KV cache memory" lines with different values; newer releases print one rank
only (the others at DEBUG).

Look-alikes: K02 when all ranks are equally short.

What fixes it: the desktop off GPU 0, VLLM_PP_LAYER_PARTITION, fewer layers on the smaller card.

What does not: more utilization on all ranks.

Evidence: get_kv_cache_configs takes the minimum (0.21.0); vllm issue 34076.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import GIB, gib


@rule("kv_check", failure=False)
def match(case: Case) -> Finding | None:
    values: dict[int, int] = {}
    for observation in case.all("available_kv"):
        number = observation.values.get("available")
        if observation.rank is not None and isinstance(number, int):
            values[observation.rank] = number
    if len(values) < 2 or max(values.values()) - min(values.values()) < max(GIB // 2, max(values.values()) // 20):
        return None
    low = min(values, key=lambda rank: values[rank])
    shown = ", ".join(f"rank {rank}: {gib(n)}" for rank, n in sorted(values.items()))
    waste = max(values.values()) - values[low]
    text = (
        f"KV memory differs by rank ({shown}); rank {low} decides for all, {gib(waste)} on the best rank stay unused."
    )
    tier = Tier.LIKELY if case.failed and case.stage == "kv_check" else Tier.POSSIBLE
    return Finding(
        tier,
        text,
        case.line("available_kv"),
        (
            ("free_rank", low),
            "layer_partition",
        ),
        {},
    )
