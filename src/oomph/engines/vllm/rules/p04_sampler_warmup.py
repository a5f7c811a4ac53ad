"""P04: The sampler's buffers do not fit.

What it is: logits and their sorted copies take about max_num_seqs x vocabulary x 20 bytes. The pass runs twice: while
profiling, where utilization plays no part, and after the graphs were captured, where everything else is already
there.

How to recognise it: "CUDA out of memory occurred when warming up sampler with N dummy requests", or
_dummy_sampler_run in the traceback, or an OOM right after "Graph capturing finished".

Look-alikes: C01 (dies during capture), P03.

What fixes it: --max-num-seqs, linear; after capture also 0.02 less utilization.

What does not: context length, KV dtype.

Evidence: gpu_model_runner.py:5769 (0.21.0); defaults are 256 sequences, 1024 on large cards.
"""

from oomph.doctor.writing import Case, Finding, Named, Tier, rule
from oomph.units import human


@rule("profile_run", "sampler_warmup")
def match(case: Case) -> Finding | None:
    line = case.first("sampler_oom")
    own = case.stage in ("profile_run", "sampler_warmup")
    if (line is None or not own) and not (case.failed and case.stage == "sampler_warmup"):
        return None  # a line of another attempt
    n = case.value("sampler_oom", "requests") or case.whole("max_num_seqs")
    late = case.stage == "sampler_warmup"
    text = (
        "The sampler's buffers, "
        + (f"{n} sequences" if n else "sequences")
        + " x vocabulary x about 20 bytes, did not fit"
    )
    text += ", after KV cache and graphs had taken their part." if late else " in the profiling run."
    tried, free = case.oom_value("tried"), case.oom_value("free")
    if tried and free is not None:
        text += f" {human(tried)} were asked for, {human(free)} were free."
    smaller = max(1, (n or 256) // 4)
    remedies: list[Named] = [("sequences", smaller)]
    if late:
        remedies.append(("share_down", case.util - 0.03))
    rejected = {
        "context": "the sampler's buffers are sequences x vocabulary",
        "kv_dtype": "the sampler's buffers are sequences x vocabulary",
    }
    return Finding(
        Tier.SAID if line else Tier.COMPUTED,
        text,
        case.line("sampler_oom", "torch_oom", "graphs"),
        tuple(remedies),
        rejected,
    )
