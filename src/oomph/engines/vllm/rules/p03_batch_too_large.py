"""P03: The profiling batch does not fit.

The profiling batch is too large for the card.

What it is: activations grow with max_num_batched_tokens x (about 3 intermediate + 3 hidden) x 2 bytes, and the
profiling run takes a full batch. Without chunked prefill the batch is the context length.

How to recognise it: "Model loading took" is there, "Available KV cache memory" is not, and the traceback goes through
profile_run and _dummy_run into the model.

Look-alikes: P01 (the tower), P04 (the sampler), P06 (memory that kernel tuning leaves), K01.

What fixes it: --max-num-batched-tokens 2048 or 1024, roughly linear; fewer sequences for the logits.

What does not: utilization: the profiling run does not obey it. The context length, with chunked prefill. The value
4096 that circulates is more than the 2048 that small cards get by default.

Evidence: v1/worker/gpu_model_runner.py profile_run (0.21.0); vllm issue 13604.
"""

from oomph.doctor.writing import Case, Finding, Named, Tier, rule
from oomph.text.late import late_pattern
from oomph.units import gib, human


@rule("profile_run", at_stage=True)
def match(case: Case) -> Finding | None:
    if case.has("freed_while_profiling", "fp8e4nv"):
        return None
    if case.told_short_at("profile_run") and any(_WORKSPACE.search(claim.text) for claim in case.claims):
        text = "By what you say it is the workspace of a kernel that does not fit: it grows with the batch."
        return Finding(Tier.COMPUTED, text, (case.death.line,), ("moe_backend", "backend", ("batch", 2048)))
    tokens = case.whole("max_num_batched_tokens")
    tried, free = case.oom_value("tried"), case.oom_value("free")
    weights = case.value("weights", "weights")
    text = "The weights were loaded; the profiling run, one full batch through the model, did not fit."
    if weights:
        text += f" Weights are {gib(weights)}."
    if tried and free is not None:
        text += f" {human(tried)} were asked for, {human(free)} were free."
    if tokens:
        text += f" The batch was {tokens:,} tokens; activations grow with it."
    elif case.v0:
        length = case.whole("max_model_len")
        text += " Without chunked prefill the batch is the whole context"
        text += f", {length:,} tokens." if length else "."
    smaller = 1024 if tokens and tokens <= 2048 else 2048
    if case.v0 and not tokens:
        levers: tuple[Named, ...] = ("context", "chunked_prefill", "sequences", "checkpoint")
    else:
        levers = (("batch", smaller), "sequences", "checkpoint", "more_gpus")
    return Finding(Tier.LIKELY, text, case.line("weights", "torch_oom"), levers)


_WORKSPACE = late_pattern(r"(?i)\bworkspace\b|arbeitsbereich|工作区|\bmoe[- ](?:kernel|backend)\b")
