"""D08: A neighbour's start was charged to this engine.

Two engines that start together are charged for each other.

What it is: memory outside of PyTorch is measured as the change on the whole device. What a neighbour loads meanwhile
is charged to this engine, and its KV memory comes out small or negative.

How to recognise it: available KV far below utilization x total - weights - activations - 0.6 GiB, with another engine
starting on the same GPU in the same minute.

Look-alikes: K01 (the model really leaves nothing), D03 (unified memory), P06 (memory left by kernel tuning).

What fixes it: start one after the other; --kv-cache-memory-bytes, which measures nothing; shares that sum below 1.

What does not: a higher utilization for the victim.

Evidence: vllm issues 55827 and 18974 (0.9.0 and older charge everything on the device).
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import GIB, gib


@rule("kv_check", "kv_alloc", over=("K01",))
def match(case: Case) -> Finding | None:
    kv, weights, total = case.value("available_kv", "available"), case.value("weights", "weights"), case.total
    if kv is None or weights is None or not total or case.stage not in ("kv_check", "kv_alloc"):
        return None
    activation = case.account.get("activations") or 0
    expected = round(case.util * total) - weights - activation
    missing = expected - kv
    if missing < 6 * GIB or case.tp > 1 or case.unified:
        return None
    text = (
        f"{case.util:g} x {gib(total)} - {gib(weights)} of "
        f"weights{f' - {gib(activation)} of activations' if activation else ''}"
        f" = {gib(expected)}, but {gib(kv)} were left for KV: {gib(missing)} more than an engine needs for itself were"
        " charged. A neighbour that was loading at the same time explains it."
    )
    remedies = (
        "one_after_the_other",
        ("kv_bytes", max(GIB, expected - 2 * GIB)),
    )
    outside = case.account.get("context") or 0
    return Finding(
        Tier.COMPUTED if outside > 6 * GIB else Tier.LIKELY,
        text,
        case.line("available_kv", "weights"),
        remedies,
        {"share_up": "the neighbour's growth would be charged again, and both must fit"},
        settle="nvidia-smi while the engine starts: a second process that grows",
    )
