"""B03: llama.cpp: --fit gave up because of a flag.

Llama.cpp: --fit is on, but a flag of yours keeps it from moving layers.

What it is: --fit measures the model before it is loaded and would move layers or experts to the CPU. With -ngl, -ts or
-ot on the command line (or a split mode it does not know) it gives up, and loading goes on with what was asked for.

How to recognise it: "n_gpu_layers already set by user to 99, abort" (tensor_split, tensor_buft_overrides) before the
allocation that fails.

Look-alikes: B01 and B02 name the buffer that failed; without the abort line --fit was off or had nothing to do.

What fixes it: taking -ngl (-ts, -ot) away; or choosing smaller ones oneself.

What does not: --fit on: it is on already. -ngl 99 "to be safe".

Evidence: llama.cpp common_fit_params; issue 19437.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib

_FLAGS = {"n_gpu_layers": "-ngl", "tensor_split": "-ts", "tensor_buft_overrides": "-ot"}


@rule("weights_load", "kv_alloc", at_stage=True)
def match(case: Case) -> Finding | None:
    abort = next(iter(case.all("lc_fit_abort")), None)
    if abort is None:
        return None
    what = str(abort.values.get("what", ""))
    flag = _FLAGS.get(what, "--split-mode")
    setting = f"{flag} {abort.values['value']}" if "value" in abort.values else flag
    text = (
        f"--fit would have moved layers off the GPU, but {setting} is on the command line, and it does not overrule "
        "that."
    )
    need, free = case.value("lc_fit_need", "need"), case.value("lc_fit_need", "free")
    if need and free:
        text += f" It had foreseen {gib(need)} where {gib(free)} are free."
    before, after = case.value("lc_fit_context", "before"), case.value("lc_fit_context", "after")
    if before and after:
        text += f" It did lower the context from {before:,} to {after:,} tokens first."
    rejected = {"fit_on": "it is on already: the flag beside it is what stops it"}
    return Finding(
        Tier.SAID, text, case.line("lc_fit_abort", "lc_malloc", "lc_fit_need"), (("fit", flag), "checkpoint"), rejected
    )
