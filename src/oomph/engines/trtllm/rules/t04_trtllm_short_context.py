"""T04: TensorRT-LLM: it serves a shorter context than was asked for.

What it is: a KV pool that holds less than one request of max_seq_len is no error. The server starts, and refuses longer
requests.

How to recognise it: "Attention window size W exceeds upper bound U for available blocks. Reducing to U." and "Adjusted
max_seq_len to U" behind the line with the peak. The same lines before that line belong to the temporary pool and mean
nothing.

Look-alikes: T02, where not even one sequence fits.

What fixes it: more KV memory: a higher free_gpu_memory_fraction, an FP8 cache, a smaller max_num_tokens or
max_batch_size, more ranks. On unified memory: drop the page cache before the start.

What does not: a larger max_seq_len.

Evidence: TensorRT-LLM resource_manager.py _validate_and_adjust_attention_windows; a DGX Spark served 86,720 of 131,072
tokens.
"""

from oomph.doctor.ledger import last, number
from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.ir.observation import Observation
from oomph.units import gib


@rule("runtime_request", "kv_alloc", "cudagraph_capture", "profile_run", failure=False)
def match(case: Case) -> Finding | None:
    cut = _final_cut(case)
    if cut is None or case.failed:
        return None
    served = number(cut, "length") or 0
    windows = [number(observation, "window") or 0 for observation in case.all("tr_window_cut")]
    length = max([*windows, number(cut, "wanted") or 0])
    text = f"The server is up, but serves at most {served:,} tokens"
    text += f" of the {length:,} that were asked for" if length > served else ""
    kv = number(last(case.observations, "tr_kv", "kv"), "kv")
    text += f": its KV pool of {gib(kv)} holds no more." if kv else ": its KV pool holds no more."
    outside = case.value("tr_outside", "outside") or case.value("tr_non_torch", "non_torch")
    total = case.value("tr_budget", "total")
    if outside and total and outside > total // 4:
        text += f" {gib(outside)} are in use outside of PyTorch: on unified memory that is the page cache."
    remedies = (
        "share_up",
        "kv_dtype",
        "batch",
        "sequences",
    )
    return Finding(Tier.SAID, text, (cut.line, *case.line("tr_budget")), remedies)


def _final_cut(case: Case) -> Observation | None:
    """The cut of the real pool: behind the peak's line, or the last where that line is missing."""
    cuts = [*case.all("tr_seq_cut")]
    peak = case.first("tr_budget") or case.first("tr_estimate")
    if peak is not None:
        cuts = [o for o in cuts if o.line > peak.line]
        return cuts[-1] if cuts else None
    if cuts:
        return cuts[-1]
    blocks = [observation for observation in case.all("tr_blocks") if "length" in observation.values]
    if not blocks:
        return None
    length = number(blocks[-1], "length") or 0
    refused = max((number(observation, "length") or 0 for observation in case.all("tr_too_long")), default=0)
    shorter = length < (number(blocks[0], "length") or 0) or 0 < length <= refused  # ... or than a prompt that came
    return blocks[-1] if shorter else None
