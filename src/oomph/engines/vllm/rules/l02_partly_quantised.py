"""L02: Only a part of this 4-bit checkpoint is 4-bit.

A "4-bit" checkpoint of which a large part is not 4-bit.

What it is: quantisation configs exclude modules. Attention, embeddings, output head, draft layers or the vision tower
stay in BF16, so a checkpoint sold as 4-bit weighs two or three times its parameters / 2.

How to recognise it: the load fails with a quantised checkpoint (NVFP4, AWQ, GPTQ, compressed-tensors) although
parameters x 0.56 bytes would fit; allocated bytes per parameter lie between 0.7 and 1.5. The size of the allocation
that failed tells how that module is stored: out x in / 2 bytes is 4-bit, four times as much is BF16.

Look-alikes: L01 (honestly too large), L03 (quantised only while loading: then the failing allocation is 16-bit).

What fixes it: a checkpoint whose attention is quantised too (an INT4 AWQ of the same model), more ranks,
--cpu-offload-gb.

What does not: waiting for "low-memory loading": the parameters are created at their stored width, nothing is expanded
first. --quantization on a checkpoint that carries its own config. Utilization.

Evidence: modelopt.py is_layer_excluded (0.21.0); vllm issue 40291: 29.4 GiB on one card for a 31B NVFP4 checkpoint.
"""

from oomph.doctor.rules.l01_weights_larger_than_card import room
from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import GIB, gib, human

FOUR_BIT = (
    "fp4",
    "awq",
    "gptq",
    "mxfp4",
    "nvfp4",
    "int4",
    "w4a16",
    "modelopt",
    "compressed-tensors",
    "auto_round",
    "4bit",
)


@rule("weights_load", at_stage=True, plan_adds="weights")
def match(case: Case) -> Finding | None:
    if case.before("weights"):
        return None
    named = f"{case.flag('quantization') or ''} {case.rebuilt.model}".lower()
    if not (case.has("nvfp4") or any(word in named for word in FOUR_BIT)):
        return None
    allocated, params = case.oom_value("allocated"), case.params
    if allocated is None or not params:
        return Finding(
            Tier.LIKELY,
            "The checkpoint is quantised, but which of its modules are is not in the log.",
            case.line("nvfp4", "torch_oom"),
            settle="oomph inspect MODEL shows the bytes by dtype",
        )
    per_parameter = allocated * case.tp / params
    if per_parameter < 0.7:
        return None
    four_bit = params * 9 // 16 // case.tp
    tried = case.oom_value("tried") or 0
    text = (
        f"{gib(allocated)} were allocated on one of {case.tp} rank(s) for {params / 1e9:.0f}B parameters: at least "
        f"{per_parameter:.2f} bytes each, and the load had not finished. All of it in 4 bits with scales would be "
        "about "
        f"{gib(four_bit)} per rank. So a large part of this checkpoint is not 4-bit (typically attention and "
        "embeddings, in "
        f"BF16)."
    )
    if case.total:
        text += f" {room(case)}"
    module = case.module(tried)
    if module:
        text += (
            f" Nothing is loaded in full precision first: the {human(tried)} that failed are {module}, as stored; "
            "in 16 bits they would be several times as much."
        )
    rejected = {
        "full_precision_first": "a pre-quantised checkpoint is created at its stored width"
        + (f": the {human(tried)} that failed are {module}, packed" if module else ""),
        "quantize_flag": "the checkpoint brings its own quantisation; the flag cannot shrink what it left in BF16",
    }
    remedies = (
        "checkpoint",
        "more_gpus",
        ("offload", 3 * GIB),
    )
    return Finding(Tier.COMPUTED, text, case.line("nvfp4", "load_oom", "torch_oom"), remedies, rejected)
