"""K07: fp8_e5m2 KV is refused for any quantised checkpoint.

What it is: the check was meant for checkpoints with FP8 KV scales but asks whether the layer is quantised at all, so
INT4 checkpoints are refused too. Since 0.24 only real FP8 KV checkpoints are.

How to recognise it: "fp8_e5m2 kv-cache is not supported with fp8 checkpoints" with an INT4, AWQ or GPTQ checkpoint.

Look-alikes: K08 (the GPU cannot do e4m3).

What fixes it: 0.24 or newer; a 16-bit KV cache.

What does not: fp8_e4m3 on GPUs below compute capability 8.9.

Evidence: attention.py:205 (0.32.0); vllm PR 45040, issue 39137.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule


@rule("other", "weights_load", until="0.24.0", dated=False)
def match(case: Case) -> Finding | None:
    line = case.first("e5m2_refused") or (case.first("e5m2_mentioned") if not case.has("concurrency") else None)
    if line is None:
        return None
    text = (
        "fp8_e5m2 KV was refused because this release asks whether the checkpoint is quantised, not whether it "
        "brings FP8 KV"
        " scales. 0.24.0 asks the right question."
    )
    e4m3 = {"e4m3": "below compute capability 8.9 Triton cannot compile it"}
    old_card = case.has("fp8e4nv") or bool(case.capability and float(case.capability) < 8.9)
    newer = () if old_card else (("release", "0.24.0"),)  # there the Triton backend refuses every fp8 format
    return Finding(Tier.SAID if case.failed else Tier.POSSIBLE, text, (line.line,), (*newer, "kv_auto"), e4m3)
