"""L01: The weights do not fit on the card.

What it is: the parameters of one rank, as the quantisation method stores them, are more than PyTorch can get on this
GPU. Nothing else is on the card yet but the CUDA context and what other processes hold.

How to recognise it: an allocation fails before "Model loading took". Without "Loading safetensors checkpoint shards"
it died while the layers were being created, so the sum of the parameters alone is too large; with it, while files
were read. What PyTorch had allocated is close to the card minus context and neighbours.

Look-alikes: L02 (a "4-bit" checkpoint that is only partly 4-bit), L03 (quantised while loading), L05 (dies after the
files were read, while tensors are repacked), L07 (the draft model), D01 (a check, no allocation).

What fixes it: fewer bytes per rank: a smaller checkpoint, more tensor parallel ranks, or --cpu-offload-gb.

What does not: utilization in either direction, although vLLM's own message proposes lowering it: it is read before
the load and after it, never during it. Context length, sequences, KV dtype and graphs come later.

Evidence: gpu_model_runner.py:4950 and gpu_worker.py:338 (0.21.0); vllm PR 38553 calls the message misleading.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import GIB, gib, human


@rule("weights_load", at_stage=True, engines=("vllm", "sglang", "trtllm"), plan_adds="weights")
def match(case: Case) -> Finding | None:
    if case.before("weights"):
        return None
    oom, allocated, total = case.oom, case.oom_value("allocated"), case.total
    text = "An allocation failed while the weights were being put on the GPU."
    remedies = ["checkpoint", "more_gpus", "offload"]
    if oom is not None and allocated is not None and total:
        text = (
            f"PyTorch held {gib(allocated)} of parameters when {human(case.oom_value('tried') or 0)} more did not fit"
        )
        if case.has("load_files"):
            text += ", and the weight files were being read"
        elif case.before("load_begin"):
            text += ", and no weight file had been opened yet"
        text += f". {room(case)}"
        text += " The parameters of one rank alone are more than that." if case.before("load_begin") else ""
    engine = case.value("tr_engine", "weights")
    if engine:
        text = f"The engine file is {gib(engine)}, and that much could not be had on the GPU."
    lines = case.line("load_oom", "tr_engine", "tr_oom", "torch_oom", "load_begin")
    return Finding(Tier.LIKELY if case.memory else Tier.POSSIBLE, text, lines, tuple(remedies), {})


def room(case: Case) -> str:
    """What PyTorch can have on this card: all but other processes and the own context."""
    total, others, context = (
        round(n / GIB, 2) for n in (case.total or 0, case.account.get("others") or 0, case.account.get("context") or 0)
    )
    return (
        f"On this card PyTorch could get {total - others - context:.2f} GiB: {total} GiB less {others} GiB of other "
        f"processes and {context} GiB of context."
    )
