"""K08: fp8 (e4m3) KV does not compile on this GPU.

What it is: Triton has no e4m3 below compute capability 8.9 (Ampere, Turing, Volta).

How to recognise it: "type fp8e4nv not supported in this architecture" during profiling or compilation.

Look-alikes: K07.

What fixes it: a 16-bit KV cache; a newer card.

What does not: any memory flag; fp8_e5m2, which the same check refuses (triton_attn.py).

Evidence: vllm issue 26431, PR 45040.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule


@rule("profile_run", "other")
def match(case: Case) -> Finding | None:
    line = case.first("fp8e4nv")
    if line is None or case.has("concurrency"):
        return None
    text = (
        "An 8-bit KV cache needs compute capability 8.9 (Ada, Hopper and newer) in vLLM's Triton backend; this card is"
        " older. Memory is not the problem."
    )
    useless = {
        "e5m2": "the same backend refuses every fp8 format below capability 8.9",
        "share_down": "no memory is short",
    }
    return Finding(Tier.SAID, text, (line.line,), ("kv_auto",), useless)
