"""M02: A program that oomph does not plan ran out of memory.

Another engine, a trainer or a build step ran out of memory.

What it is: the text is LMDeploy's, ExLlama's, text-generation-inference's, transformers', a trainer's (axolotl, TRL,
verl, Unsloth, DeepSpeed) or that of a build or a conversion (trtllm-build, convert_checkpoint). Its memory is laid out
in its own way, so that no flag and no mechanism of a serving engine applies.

How to recognise it: folders of its frames, its program in a command, or its name where no engine of ours is named.

Look-alikes: an engine of ours inside a trainer (vLLM in verl): then its own lines or frames are there, and they count.

What fixes it: while training, a smaller step; while building, a larger GPU or a smaller build; else a smaller model or
less at once.

What does not: vLLM's, SGLang's or llama.cpp's flags.

Evidence: the line that names the program.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.ir import STAGES
from oomph.units import gib

LEVERS = {
    "training": ("smaller_step", "smaller_optimizer"),
    "build": ("smaller_build",),
    "engine": ("smaller_model", "less_at_once"),
}


@rule(*tuple(STAGES), engines=("vllm", "sglang", "trtllm", "llamacpp", "ollama"), over=("M01", "L01"))
def match(case: Case) -> Finding | None:
    if case.speaker is None or not case.failed or not case.memory:
        return None
    text = f"{case.speaker.title} ran out of memory."
    total, own = case.total, case.oom_value("in_use") or case.oom_value("allocated")
    tried = case.oom_value("tried")
    if own and total:
        text += f" Its process holds {gib(own)} of {gib(total)}"
        text += f", and {gib(tried)} more did not fit." if tried else "."
    others = total - own - (case.oom_value("free") or 0) if own and total else 0
    levers = LEVERS[case.speaker.kind]
    if total and others > total // 8:
        text += f" {gib(others)} belong to somebody else."
        levers = ("free_card", *levers)
    return Finding(Tier.LIKELY, text, (case.death.line,), levers)
