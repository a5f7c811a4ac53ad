"""K04: Hybrid models have very large KV blocks.

What it is: an attention page must be as large as a recurrent state, so blocks grow to hundreds or thousands of
tokens. Every request rounds up to whole blocks and holds one to 2 + drafted state pages per recurrent group.

How to recognise it: "Setting attention block size to B tokens", "Padding mamba page size by P%", "Add N padding
layers".

Look-alikes: K02 and K06, which say what does not fit; this says why it is so large.

What fixes it: a 16-bit state (--mamba-ssm-cache-dtype bfloat16), prefix caching off (one state page less), fewer
speculative tokens.

What does not: --block-size: it is overridden.

Evidence: platforms/interface.py:646 (0.21.0), models/config.py:215 (0.19.1).
"""

from oomph.doctor.writing import Case, Finding, Tier, rule


@rule("kv_check", "kv_alloc", failure=False)
def match(case: Case) -> Finding | None:
    block = case.value("attention_block", "block_size")
    if block is None and not case.has("padding_layers"):
        return None
    added, waste = case.value("padding_layers", "layers"), case.real("padding_layers", "percent")
    text = ""
    if block:
        text = (
            f"Attention blocks are {block:,} tokens, so that a block is as large as a recurrent state: short "
            "requests round up to that."
        )
    if added and waste is not None:
        text += f" {added} layers of padding waste up to {waste:g} % of the cache."
    state = "state_dtype"
    off = "prefix_caching"
    notable = (block or 0) >= 1024 or (waste or 0) >= 5
    tier = (
        Tier.POSSIBLE
        if case.failed and case.stage in ("kv_check", "kv_alloc")
        else Tier.POSSIBLE
        if notable and not case.failed
        else Tier.REMARK
    )
    return Finding(
        tier,
        text.strip(),
        case.line("attention_block", "page_padding", "padding_layers"),
        (state, off) if block else (),
        {"block_size": "hybrid models set it themselves"},
    )
