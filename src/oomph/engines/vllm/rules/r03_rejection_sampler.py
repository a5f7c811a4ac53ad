"""R03: The rejection sampler needs more than was profiled.

What it is: the warm-up draws one draft token per request; under load there are max_num_seqs x (k + 1) rows of the
vocabulary in float32.

How to recognise it: speculative decoding, and an OOM in the rejection sampler under load.

Look-alikes: P04 (at start-up), P07.

What fixes it: fewer sequences, fewer drafted tokens, 0.03 less utilization.

What does not: a shorter context.

Evidence: gpu_model_runner.py:5775 (0.21.0); vllm PR 37521.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule


@rule("runtime_request", "sampler_warmup")
def match(case: Case) -> Finding | None:
    if not case.failed or not case.in_traceback("rejection_sampl", "RejectionSampler"):
        return None
    seqs = case.whole("max_num_seqs")
    text = (
        "The rejection sampler ran out of memory: sequences x (drafted tokens + 1) x vocabulary x 4 bytes, while "
        "the warm-up"
        " used one drafted token each."
    )
    return Finding(
        Tier.COMPUTED,
        text,
        case.line("torch_oom"),
        (("sequences", max(1, (seqs or 256) // 2)), ("share_down", case.util - 0.03)),
        {"context": "its buffers are rows of the vocabulary"},
    )
