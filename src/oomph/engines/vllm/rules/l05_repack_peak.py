"""L05: Repacking after the load needs two copies of a layer.

Repacking after the load needs old and new copies at once.

What it is: Marlin, MXFP4/NVFP4 MoE and FP8 requantisation rewrite tensors layer by layer after the files were read.
While one layer is rewritten both forms exist; for a MoE layer that is all its experts twice.

How to recognise it: "Loading weights took" is there, "Model loading took" is not, and the traceback runs through
process_weights_after_loading (or a repack, swizzle or moe function).

Look-alikes: L01 (no "Loading weights took"), L07 (draft load).

What fixes it: 0.26 or newer for FP4 MoE (one expert at a time), another MoE backend, more ranks, a card without
neighbours: one MoE layer more of room is enough.

What does not: utilization, context length.

Evidence: vllm PR 47851 and 55103; base_loader.py process_weights_after_loading (0.21.0).
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import human


@rule("weights_load", at_stage=True)
def match(case: Case) -> Finding | None:
    if not case.in_traceback("process_weights_after_loading", "repack", "swizzle"):
        return None
    tried = case.oom_value("tried") or 0
    text = "All files had been read; the allocation that failed is the second copy of a layer that is being repacked"
    text += f" ({human(tried)})." if tried else "."
    remedies = (
        ("release", "0.26.0"),
        "moe_backend",
        "more_gpus",
        "offload",
    )
    return Finding(Tier.COMPUTED, text, case.line("load_files_done", "torch_oom"), remedies, {})
