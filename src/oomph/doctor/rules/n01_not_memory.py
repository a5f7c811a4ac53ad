"""N01: Not a memory failure, as far as this log goes.

Not a memory failure, as far as the log goes.

What it is: the error that ended the run is there, in words, and none of them is about memory: a value that is refused,
a shape that does not match, a kernel that does not compile, a file that is not there.

How to recognise it: an exception with its message, no OOM of PyTorch, CUDA, NCCL or the host anywhere.

Look-alikes: R13 (only the parent's report is there), errors that hide a lack of memory: "unhandled cuda error" of
NCCL, CUBLAS_STATUS_ALLOC_FAILED, a worker that was killed.

What fixes it: what the message says; another release; during capture, no graphs, to see whether the rest works.

What does not: any memory flag.

Evidence: the message itself.
"""

from oomph.doctor.reading.failure import OF_ANYTHING
from oomph.doctor.reading.meanings import WEAK
from oomph.doctor.reading.worded import load_words, own_words, quoted_words
from oomph.doctor.writing import Case, Finding, Tier, rule


@rule(
    "other",
    "startup_free_memory",
    "weights_load",
    "profile_run",
    "cudagraph_profile",
    "kv_check",
    "kv_alloc",
    "cudagraph_capture",
    "sampler_warmup",
    "runtime_request",
    engines=("vllm", "sglang", "trtllm", "llamacpp", "ollama"),
    about_memory=False,
)
def match(case: Case) -> Finding | None:
    if not case.failed or case.memory:
        return None
    if case.death.kind == "said_failed" and (quote := quoted_words(case.death.quote)):
        text = f'Its title quotes the error: "{quote}". Nothing in this text speaks of a lack of memory.'
        return Finding(Tier.LIKELY, text, (case.death.line,), _ways(case), _USELESS)
    reports = [observation.text for observation in case.observations if observation.kind in OF_ANYTHING]
    reason = next((words for report in reports if (words := load_words(report))), "")
    if case.death.kind in OF_ANYTHING and reason:
        text = f'The load ended with: "{reason}". Nothing in this text speaks of a lack of memory.'
        return Finding(Tier.LIKELY, text, (case.death.line,), _ways(case), _USELESS)
    if case.death.kind not in WEAK:
        return None
    worded = ((observation, own_words(observation)) for observation in case.all("exception"))
    observation, message = next((pair for pair in worded if pair[1]), (None, ""))
    if observation is None:
        return None
    text = f"What ended this run is {message[:300].rstrip('. ')}. No line of this log speaks of a lack of memory."
    return Finding(Tier.SAID, text, (observation.line,), _ways(case), _USELESS)


_USELESS = {"gpu_flags": "memory is not what it failed of"}


def _ways(case: Case) -> tuple[str, ...]:
    """What helps against an error that no row knows: its own words, another release, and leaving out what failed."""
    return (*(["no_graphs"] if case.stage == "cudagraph_capture" else []), "message", "another_release")
