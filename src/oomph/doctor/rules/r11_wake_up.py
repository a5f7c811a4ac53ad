"""R11: Waking up fails: the memory was taken meanwhile.

Waking up fails because the memory was taken meanwhile.

What it is: sleep mode gives GPU memory back; wake_up maps it again and finds it used by others.

How to recognise it: "CUDA Error: out of memory at ... cumem_allocator.cpp" once the engine was up or slept,
create_and_map or wake_up in the traceback.

Look-alikes: R08; the same line while the weights are loaded, since sleep mode creates them in the same allocator.

What fixes it: free the card first; wake up weights, then KV; a lower utilization.

What does not: expandable segments: they do not work with sleep mode.

Evidence: device_allocator/cumem.py (0.21.0); vllm issue 13941.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.text.late import late_pattern
from oomph.units import gib


@rule("runtime_request", engines=("vllm", "sglang"))
def match(case: Case) -> Finding | None:
    if case.has("sg_resume_oom"):
        text = "SGLang gave its memory back, and it was taken by something else before it was resumed."
        remedies = (
            "free_before_resume",
            "resume_in_steps",
            "share_down",
        )
        return Finding(Tier.SAID, text, case.line("sg_resume_oom"), remedies)
    is_claim = case.told_short_at("runtime_request") and any(_WAKES.search(claim.text) for claim in case.claims)
    is_raised = case.failed and case.in_traceback("wake_up", "create_and_map")
    if not (case.has("cumem_oom") or is_raised or is_claim):
        return None
    if case.stage != "runtime_request":
        return None  # its allocator was refused memory at the start, before anything slept
    freed, rest = case.value("slept", "freed"), case.value("slept", "kept")
    text = "The engine slept, and its memory was taken by something else before it woke up."
    if freed is not None:
        text += f" It had given back {gib(freed)}" + (f" and kept {gib(rest)}." if rest is not None else ".")
    return Finding(
        Tier.SAID,
        text,
        case.line("cumem_oom", "slept", "torch_oom"),
        (
            "free_before_wake",
            "wake_in_steps",
            "share_down",
        ),
        {"expandable": "it does not work with sleep mode"},
    )


_WAKES = late_pattern(r"(?i)\bwak(?:e[ _-]?up|es|ing|en|eup)\b|aufwach|aufweck|geweckt|唤醒")
