"""L03: Quantising while loading needs the 16-bit weights first.

Quantising a 16-bit checkpoint while it is loaded needs the 16-bit weights first.

What it is: --quantization fp8 on a BF16 checkpoint. Up to 0.12 the whole model is loaded in BF16 and then converted;
0.13 to 0.15 tried to stream it and kept references, so the peak was above BF16; since 0.16 layers are converted one
at a time.

How to recognise it: quantization=fp8 in the flags, a checkpoint that is not FP8 itself, a release before 0.16, and
about 2 bytes per parameter allocated.

Look-alikes: L01 (the quantised weights themselves do not fit), L02 (a pre-quantised checkpoint).

What fixes it: a checkpoint that is already FP8; 0.16.0 or newer; 0.12 if BF16 fits.

What does not: utilization, expandable segments.

Evidence: vllm PR 31914 (fix), issues 32773, 31273 and 4387.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib


@rule("weights_load", at_stage=True, until="0.16.0", dated=False)
def match(case: Case) -> Finding | None:
    if case.before("weights") or str(case.flag("quantization") or "") != "fp8" or case.within("0.16.0") is True:
        return None
    if "fp8" in case.rebuilt.model.lower():
        return None
    release = f"vLLM {case.version}" if case.version else "a release before 0.16"
    worse = case.within("0.13.0", "0.16.0")
    text = f"--quantization fp8 converts this 16-bit checkpoint while it is loaded, and {release} " + (
        "keeps the 16-bit originals alive meanwhile, so the peak is above the 16-bit size."
        if worse
        else "holds all of it in 16 bits before it converts it."
    )
    params, allocated = case.params, case.oom_value("allocated")
    if params and allocated:
        text += f" {gib(allocated)} were allocated, {allocated * case.tp / params:.1f} bytes per parameter."
    remedies = (
        "checkpoint",
        ("release", "0.16.0"),
        "more_gpus",
    )
    return Finding(Tier.COMPUTED, text, case.line("engine_config", "args", "torch_oom"), remedies, {})
