"""T03: TensorRT-LLM: a component of the executor does not fit, and it says which.

What it is: the PyTorch backend creates its parts one after the other (model, sampler, a temporary KV cache and a
dummy batch to measure with, the real KV cache, the executor with its graphs) and notes what was free before each.

How to recognise it: "Executor creation failed due to insufficient GPU memory" and "The following component could not
be created: ..."; below it what every earlier part took.

Look-alikes: T01 and T02, the same failures without this report.

What fixes it: Model: more ranks or a smaller checkpoint. KV cache: a lower free_gpu_memory_fraction. Everything else:
fewer max_num_tokens, a smaller max_batch_size, fewer graph sizes.

What does not: a setting that belongs to another component than the one named.

Evidence: TensorRT-LLM py_executor_creator.py (1.0), its own list of what to reduce.
"""

from __future__ import annotations

from oomph.doctor import advice
from oomph.doctor.case import Case
from oomph.doctor.ledger import number
from oomph.doctor.rule import Candidate, Rejected, Remedy, Rule, Tier
from oomph.ir.observation import Observation
from oomph.units import GIB, gib

_TOKENS = Remedy("batched_tokens", "--max_num_tokens 2048", "flag", costs="long prompts in more steps", rank=1)
_FRACTION = Remedy("fraction_down", "--kv_cache_free_gpu_memory_fraction 0.7", "flag", costs="less KV cache", rank=1)
_BATCH = Remedy("max_num_seqs", "--max_batch_size 64", "flag", costs="fewer requests at once", rank=2)


def _took(step: Observation) -> int:
    return (number(step, "before") or 0) - (number(step, "after") or 0)


def match(case: Case) -> Candidate | None:
    o = case.first("tr_component")
    if o is None:
        return None
    name = str(o.values.get("component", ""))
    free, total = case.value("tr_free", "free"), case.value("tr_total", "total")
    text = f"{name} could not be created"
    text += f": {gib(free)} of {gib(total)} were free for it." if free is not None and total else "."
    steps = ((str(step.values.get("component", "")), _took(step)) for step in case.all("tr_step"))
    took = [f"{part} {gib(size)}" for part, size in steps if size > GIB // 8]
    text += f" Before it: {', '.join(took)}." if took else ""
    rejected: tuple[Rejected, ...] = ()
    remedies: tuple[Remedy, ...] = (_TOKENS, _BATCH, _FRACTION)
    if name == "KV cache":
        remedies = (_FRACTION, _TOKENS)
        rejected = (Rejected("max_num_seqs", "a smaller max_batch_size alone", "the pool keeps its size"),)
    elif name.startswith(("Model", "Draft")) and "usage" not in name:
        remedies = (advice.checkpoint(case), _TOKENS)
        why = "the KV cache is sized after the model is there"
        rejected = (Rejected("fraction_down", "a lower free_gpu_memory_fraction", why),)
    return Candidate(
        Tier.SAID, text, case.line("tr_component", "tr_total", "tr_free", "tr_executor"), remedies, rejected
    )


RULE = Rule(
    "T03",
    "TensorRT-LLM: a component of the executor does not fit",
    ("weights_load", "profile_run", "kv_alloc", "cudagraph_capture", "other"),
    match,
    engines=("trtllm",),
    evidence=("TensorRT-LLM py_executor_creator.py (1.0)",),
)
