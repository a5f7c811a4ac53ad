"""K08: fp8 (e4m3) KV does not compile on this GPU.

What it is: Triton has no e4m3 below compute capability 8.9 (Ampere, Turing, Volta).

How to recognise it: "type fp8e4nv not supported in this architecture" during profiling or compilation.

Look-alikes: K07.

What fixes it: fp8_e5m2 where the checkpoint allows it (K07); a backend that is not Triton; a 16-bit KV cache.

What does not: any memory flag.

Evidence: vllm issue 26431, PR 45040.
"""

from __future__ import annotations

from oomph.doctor.advice import reject
from oomph.doctor.case import Case
from oomph.doctor.rule import Candidate, Remedy, Rule, Tier


def match(case: Case) -> Candidate | None:
    o = case.first("fp8e4nv")
    if o is None or case.has("concurrency"):
        return None
    text = (
        "The KV dtype needs e4m3 kernels, and Triton has none below compute capability 8.9. Memory is not the problem."
    )
    e5 = Remedy(
        "kv_e5m2",
        "--kv-cache-dtype fp8_e5m2",
        "flag",
        {"kv_cache_dtype": "fp8_e5m2"},
        costs="coarser KV values; refused for quantised checkpoints before 0.24",
        rank=1,
    )
    auto = Remedy(
        "kv_auto", "--kv-cache-dtype auto", "flag", {"kv_cache_dtype": None}, costs="a 16-bit KV cache", rank=2
    )
    return Candidate(Tier.SAID, text, (o.line,), (e5, auto), (reject("util_down", "no memory is short"),))


RULE = Rule(
    "K08", "fp8 (e4m3) KV does not compile on this GPU", ("profile_run", "other"), match, evidence=("vllm issue 26431",)
)
