"""L09: More ranks than KV heads: KV is replicated.

More ranks than KV heads: the KV cache stops shrinking.

What it is: a rank holds at least one KV head. Beyond tensor parallel = KV heads every further rank keeps a copy, so
the KV cache per token and rank no longer falls. With MLA there is one latent vector and it never falls.

How to recognise it: tensor_parallel_size larger than the model's number of KV heads, and a KV check that fails.

Look-alikes: K02 without replication.

What fixes it: tensor parallel = KV heads and pipeline parallel for the rest; --decode-context-parallel-size.

What does not: still more tensor parallelism in order to gain context.

Evidence: QKVParallelLinear (0.21.0): num_kv_heads = max(1, total // tp).
"""

from oomph.doctor.writing import Case, Finding, Tier, rule


@rule("kv_check", at_stage=True, over=("K02",))
def match(case: Case) -> Finding | None:
    if not case.kv_heads or case.tp <= case.kv_heads:
        return None
    copies = case.tp // case.kv_heads
    text = (
        f"{case.tp} ranks share {case.kv_heads} KV heads: every head is stored {copies} times, so a token costs as much"
        f" KV memory per GPU as with {case.kv_heads} ranks."
    )
    return Finding(
        Tier.COMPUTED,
        text,
        case.line("kv_need", "kv_none", "args"),
        (("stages", case.kv_heads),),
        {"more_gpus": "ranks beyond the KV heads only copy the cache"},
    )
