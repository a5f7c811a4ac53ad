"""T06: TensorRT-LLM: every rank holds a context on GPU 0.

What it is: each rank's process touches GPU 0 before it takes its own card, and CUDA keeps a context there: about half a
GiB per rank. The KV pool of GPU 0 is smaller by that much, and all ranks agree on the smallest.

How to recognise it: nvidia-smi lists as many processes on GPU 0 as there are ranks, 300 to 700 MiB each; GPU 0 has that
much less free than the others.

Look-alikes: D01 (somebody else's processes).

What fixes it: a newer release; CUDA_VISIBLE_DEVICES set per rank where each is started by itself.

What does not: free_gpu_memory_fraction, which is taken of what is left on every card.

Evidence: TensorRT-LLM issue 3058: 590 MiB for each of eight ranks.
"""

from oomph.doctor.ledger import number
from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib


@rule("other", "startup_free_memory", "weights_load", "profile_run", "kv_alloc", "runtime_request", failure=False)
def match(case: Case) -> Finding | None:
    observation = case.first("tr_contexts")
    if observation is None or case.failed:
        return None
    each, ranks = number(observation, "each") or 0, case.tp
    text = f"Every rank keeps a CUDA context on GPU 0, {gib(each)} each"
    text += f": {gib(ranks * each)} for {ranks} ranks" if ranks > 1 else ""
    text += ". The KV pool of GPU 0 is smaller by that much, and the other ranks follow the smallest."
    return Finding(Tier.SAID, text, (observation.line,), ())
