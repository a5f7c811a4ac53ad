"""P07: A real prompt needs more than the profiling run showed.

What it is: the profiling run skips attention and the insides of recurrent layers, or a library allocates on its own.
The real peak then grows with the prefill chunk (gated delta net, MoE on ROCm) or with the cached length (sparse
attention indexers, MLA).

How to recognise it: the engine was ready and dies with the first prompts of thousands of tokens, in
chunk_gated_delta, fla, short-conv, indexer or aiter code; hardly anything is cached and unused.

Look-alikes: R02 (prompt logprobs), R03 (rejection sampler), R06 (fragmentation), R08 (something else grew).

What fixes it: --max-num-batched-tokens 2048 or less; utilization lower by the missing share.

What does not: fewer sequences, a shorter context, swap.

Evidence: vllm issue 52872, PRs 52935 and 53222 (9.57 GiB profiled, 26.75 needed).
"""

from oomph.doctor.writing import Case, Finding, Named, Tier, rule
from oomph.units import gib, human

WORDS = (
    "chunk_gated_delta",
    "gated_delta_rule",
    "gdn_linear_attn",
    "fla_chunk",
    "chunk_fwd",
    "causal_conv1d",
    "short_conv",
    "indexer",
    "aiter",
    "mamba_mixer",
)


@rule("runtime_request", "profile_run", at_stage=True, over=("R08",))
def match(case: Case) -> Finding | None:
    named = case.in_traceback(*WORDS)
    if case.stage == "profile_run" and not named:
        return None
    tried, free = case.oom_value("tried"), case.oom_value("free")
    reserved = case.oom_value("reserved")
    ran = case.stage == "runtime_request" and "forward" in case.death.functions
    if not named and (not (case.memory or ran) or (tried and reserved is not None and reserved >= tried)):
        return None
    if case.in_traceback("logprob", "rejection_sampl", "wake_up"):
        return None
    text = (
        "The engine was serving and a request's own buffers did not fit: its peak is above what the profiling run saw."
    )
    if case.stage == "profile_run":
        text = "The recurrent layers' prefill needs scratch memory that no budget holds back."
    if tried and free is not None and case.total:
        text += f" {human(tried)} were asked for, {human(free)} of {gib(case.total)} were free."
    elif tried:
        text += f" {human(tried)} were asked for."
    remedies: list[Named] = ["batch"]
    if case.total and tried:
        share = max(0.02, (tried - (free or 0)) / case.total + 0.01)
        remedies.append(("share_down", case.util - share))
    else:
        remedies.append(("share_down", case.util - 0.05))
    rejected = {
        "sequences": "the peak follows the prefill chunk, not the number of sequences",
        "context": "the peak follows the prefill chunk, not the context limit",
    }
    return Finding(
        Tier.COMPUTED if named else Tier.POSSIBLE if case.death.basis == "guess" else Tier.LIKELY,
        text,
        case.line("torch_oom", "stats", "frame")[:3],
        tuple(remedies),
        rejected,
        settle="the traceback above the error: the function that allocates names the cause",
    )
