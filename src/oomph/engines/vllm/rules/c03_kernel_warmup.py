"""C03: Kernel warm-up does not fit beside the KV cache.

Kernel warm-up or tuning does not fit beside the KV cache.

What it is: FlashInfer's autotuner, DeepGEMM and MoE tuning allocate after the KV cache was made.

How to recognise it: the OOM lies between "GPU KV cache size" and the capture, with kernel_warmup, autotune or
DeepGEMM in the log or the traceback.

Look-alikes: C01.

What fixes it: the autotuner off, VLLM_DEEP_GEMM_WARMUP=skip, 0.02 less utilization.

What does not: a shorter context.

Evidence: model_executor/warmup/kernel_warmup.py (0.21.0).
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import human

FRAMES = frozenset({"kernel_warmup", "flashinfer_autotune", "deep_gemm_warmup"})  # they prove it


@rule("cudagraph_capture", "sampler_warmup", at_stage=True, over=("C01", "P04"))
def match(case: Case) -> Finding | None:
    own = any("/warmup/" in path for path in case.death.files) or not FRAMES.isdisjoint(case.death.functions)
    is_seen = case.in_traceback("kernel_warmup", "autotune", "deep_gemm_warmup", "/warmup/")
    if not own and not is_seen and not case.before("autotune", "kernel_warmup"):
        return None
    if not own and (case.stage == "sampler_warmup" or case.before("capture_begin")):
        return None  # the estimate of the graphs prints a capture's lines, too
    text = "Kernels were being tuned or warmed up after the KV cache had been made, and their buffers did not fit."
    tried, free = case.oom_value("tried"), case.oom_value("free")
    if tried and free is not None:
        text += f" {human(tried)} were asked for, {human(free)} were free."
    tuner = "no_autotune"
    return Finding(
        Tier.COMPUTED,
        text,
        case.line("autotune", "kernel_warmup", "torch_oom"),
        (
            tuner,
            "no_deep_gemm_warmup",
            ("share_down", case.util - 0.02),
        ),
        {},
    )
