"""R05: Without chunked prefill a whole prompt is one batch.

What it is: V0's default, or enable_chunked_prefill=False: activations follow the context length.

How to recognise it: "enable_chunked_prefill=False" or "Chunked prefill is disabled", and an OOM in profiling or with
long prompts.

Look-alikes: P03 (a large batch with chunking).

What fixes it: --enable-chunked-prefill and --max-num-batched-tokens 2048.

What does not: --swap-space.

Evidence: engine/arg_utils.py (0.8.5); vllm issue 8185.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule


@rule("profile_run", "runtime_request", at_stage=True)
def match(case: Case) -> Finding | None:
    off = case.has("chunked_off") or case.flag("enable_chunked_prefill") is False
    if not off:
        return None
    length = case.whole("max_model_len")
    text = (
        "Chunked prefill is off: a whole prompt"
        + (f" of up to {length:,} tokens" if length else "")
        + " goes through in one batch."
    )
    on = "chunked_prefill"
    return Finding(Tier.COMPUTED, text, case.line("chunked_off", "torch_oom"), (on,), {})
