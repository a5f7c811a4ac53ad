"""R02: Prompt log-probabilities need logits of every token.

Prompt log-probabilities need logits of every prompt token.

What it is: prompt_logprobs or echo computes tokens of the chunk x vocabulary x (2 + 4 + 4) bytes, which the profiling
run does not know.

How to recognise it: log_softmax or _get_prompt_logprobs_dict in the traceback; dies with a single request.

Look-alikes: P07 (a prefill's own buffers).

What fixes it: --max-num-batched-tokens 512, or that much less utilization, or not asking for them.

What does not: fewer sequences, a shorter context limit.

Evidence: gpu_model_runner.py _get_prompt_logprobs_dict (0.21.0); vllm issues 5907 and 38830.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import human


@rule("runtime_request", at_stage=True)
def match(case: Case) -> Finding | None:
    if not case.in_traceback("prompt_logprobs", "compute_logprobs", "get_logprobs", "log_softmax", "loglikelihood"):
        return None
    tried = case.oom_value("tried")
    text = (
        "Log-probabilities of the prompt were asked for: chunk tokens x vocabulary x 10 bytes, outside of what was "
        "profiled."
    )
    if tried:
        text += f" {human(tried)} were missing."
    return Finding(
        Tier.SAID if case.memory else Tier.LIKELY,
        text,
        case.line("torch_oom", "prompt_logprobs"),
        (("batch", 512), ("share_down", case.util - 0.05)),
        {"sequences": "one request is enough", "context": "the chunk counts, not the limit"},
    )
