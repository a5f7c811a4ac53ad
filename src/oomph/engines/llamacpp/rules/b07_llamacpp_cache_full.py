"""B07: llama.cpp: the KV cache is full, a request was refused.

Llama.cpp's KV cache has no cells left for a request.

What it is: the cache is allocated once, for -c tokens, and shared by the slots. A prompt, or all slots together, can
need more cells than are free: llama-server halves the batch until one fits, and refuses the request in the end. No
memory is missing, and the server goes on.

How to recognise it: "failed to find free space in the KV cache, retrying with smaller batch size" (older builds:
"smaller n_batch"), "failed to find a memory slot for batch of size", "request (9000 tokens) exceeds the available
context size (4096 tokens)", "Context size has been exceeded."

Look-alikes: B02 (the cache itself does not fit on the GPU when the server starts).

What fixes it: a larger -c (its cells are allocated at start), fewer slots (-np) so that each has more, an 8-bit cache
that pays for the longer context, shorter prompts.

What does not: a smaller -b or -ub (the retries do just that), fewer layers on the GPU.

Evidence: llama.cpp tools/server/server-context.cpp (update_slots), src/llama-context.cpp (decode); issues 6603, 4185.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule


@rule("runtime_request", engines=("llamacpp", "ollama"), failure=False)
def match(case: Case) -> Finding | None:
    if case.failed or not case.has("lc_kv_full"):
        return None
    wanted, room = case.value("lc_kv_full", "asked"), case.value("lc_kv_full", "room")
    if wanted and room:
        text = f"A request of {wanted:,} tokens came to a slot of {room:,}: llama-server refused it and went on."
    else:
        text = (
            "The KV cache had no free cells for a batch. It is as large as the context that was set, for all "
            "slots together; no memory is missing, and the server goes on."
        )
    up = max(8192, 2 * -(-wanted // 4096) * 4096) if wanted else None
    remedies = (
        ("context_up", up) if up else "context_up",
        "sequences",
        "kv_dtype",
    )
    rejected = {"layers": "the cells are counted by the context, wherever the layers are"}
    return Finding(Tier.COMPUTED, text, case.line("lc_kv_full"), remedies, rejected)
