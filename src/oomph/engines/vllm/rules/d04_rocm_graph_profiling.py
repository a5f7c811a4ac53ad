"""D04: ROCm: graph profiling spoils the free-memory figure.

On ROCm the graph profiling of 0.17 and 0.18 spoils the free-memory figures.

What it is: mem_get_info and graph pools were not reliable under HIP; the pass is skipped there from 0.19 to 0.26.

How to recognise it: a ROCm build of 0.17 or 0.18 whose free memory is nonsense at the check.

Look-alikes: D01.

What fixes it: 0.19 or newer; --enforce-eager.

What does not: a lower utilization.

Evidence: vllm PR 36720; gpu_worker.py:695 (0.32.0).
"""

from oomph.doctor.writing import Case, Finding, Tier, rule


@rule("startup_free_memory", "kv_check", since="0.17.0", until="0.19.0", over=("D01",))
def match(case: Case) -> Finding | None:
    if (
        not case.rocm
        or case.within("0.17.0", "0.19.0") is not True
        or not case.has("free_short", "torch_oom", "kv_none")
        or case.stage in ("weights_load", "profile_run", "runtime_request")  # no figure that it spoils is read there
    ):
        return None
    text = f"vLLM {case.version} on ROCm profiles CUDA graphs with figures that HIP does not report reliably."
    return Finding(
        Tier.COMPUTED,
        text,
        case.line("free_short", "torch_oom", "kv_none"),
        (("release", "0.19.0"), "no_graphs"),
        {"share_down": "the measured figure is wrong, not the share"},
    )
