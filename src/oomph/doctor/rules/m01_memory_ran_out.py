"""M01: Memory ran out.

Memory ran out, and only the stage is known.

What it is: a line says that memory is short, in words that no other rule knows or without the figures that another rule
needs: a new allocator's message, another accelerator's (NPU, XPU, HIP, Metal, Vulkan), an engine's own sentence.

How to recognise it: sizes with units beside words such as total, free, used, tried, budget; the stage follows from the
traceback, the process and the lines around it.

Look-alikes: every other memory rule; each of them says more, so this one is last.

What fixes it: what the stage reads: fewer weights per GPU while loading, a smaller batch while profiling and serving, a
shorter context or another share for the KV cache.

What does not: settings that the stage does not read.

Evidence: the line itself.
"""

from collections.abc import Callable

from oomph.doctor.words import table
from oomph.doctor.writing import Candidate, Case, Remedy, Tier, advice, levers, rule
from oomph.ir import STAGES
from oomph.units import gib

FREE_GPU = "end what else is on the card, or choose another GPU (nvidia-smi, CUDA_VISIBLE_DEVICES)"
FREE_HOST = "more host memory, or a higher limit of the container"
# stage -> levers of doctor/words.py, those that the stage reads; an engine that lacks one leaves it out
LEVERS: dict[str, tuple[str, ...]] = {
    "weights_load": ("layers", "quant", "tp_up", "offload", "experts"),
    "profile_run": ("batched_tokens", "chunk", "max_num_seqs", "fraction_down", "context"),
    "kv_check": ("fraction_up", "context", "kv_dtype", "quant"),
    "kv_alloc": ("context", "fraction_down", "kv_dtype", "layers", "slots"),
    "cudagraph_capture": ("fraction_down", "capture", "eager", "max_num_seqs"),
    "runtime_request": ("chunk", "batched_tokens", "fraction_down", "requests", "layers", "ubatch", "context",
                        "max_num_seqs"),
    "other": ("fraction_down", "context", "chunk", "batched_tokens", "layers", "quant"),
}  # fmt: skip
VLLM: dict[str, Callable[[Case], tuple[Remedy, ...]]] = {
    "startup_free_memory": lambda case: (advice.utilization(case, case.util - 0.1),),
    "weights_load": lambda case: (advice.checkpoint(case), advice.tensor_parallel(case), advice.offload(case)),
    "profile_run": lambda case: (advice.smaller_batch(case), advice.sequences(16), advice.checkpoint(case)),
    # some stage of a start: a smaller batch while profiling, a smaller share behind it, fewer weights before it
    "start": lambda case: (advice.smaller_batch(case), advice.utilization(case, case.util - 0.05),
                           advice.checkpoint(case)),
    "kv_check": lambda case: (advice.utilization(case, 0.95), advice.context(8192), advice.kv_dtype()),
    "kv_alloc": lambda case: (advice.utilization(case, case.util - 0.05), advice.context(8192)),
    "cudagraph_profile": lambda case: (advice.sequences(16), advice.capture(64), advice.eager()),
    "cudagraph_capture": lambda case: (advice.utilization(case, case.util - 0.05), advice.capture(64), advice.eager()),
    "sampler_warmup": lambda case: (advice.sequences(64), advice.utilization(case, case.util - 0.05)),
    "runtime_request": lambda case: (advice.smaller_batch(case), advice.utilization(case, case.util - 0.05)),
    "other": lambda case: (advice.utilization(case, case.util - 0.05), advice.smaller_batch(case)),
}  # fmt: skip


@rule(*tuple(STAGES), engines=("vllm", "sglang", "trtllm", "llamacpp", "ollama"), fallback=True)
def match(case: Case) -> Candidate | None:
    line = next((observation for observation in case.all("memory_short") if observation.line == case.death.line), None)
    if not case.failed or not (line is not None or case.memory or case.death.basis == "plan"):
        return None
    if line is None and case.stage == "other" and case.has("secondary"):
        return None  # a parent's report below a title: nothing is known (R13)
    text = "Memory ran out; the words of this line belong to no rule, so its stage and its figures are what is known."
    if line is None:
        text = (
            "The log does not say what failed; by the plan this command does not fit on this card."
            if case.death.basis == "plan"
            else "Memory ran out, and what is left of the log does not say what was being allocated."
        )
    quote = " ".join(case.death.quote.split())[:200].rstrip(". ")
    text += f' It says: "{quote}".' if quote else ""
    figures = {
        name: n
        for name, n in (line.values.items() if line else ())
        if isinstance(n, int) and not name.endswith("_half")
    }
    shown = [f"{name.replace('_', ' ')} {gib(n)}" for name, n in figures.items()]
    text += f" Its figures: {', '.join(shown)}." if shown else ""
    tier = (
        Tier.LIKELY if line is not None and case.death.basis in ("message", "traceback", "milestone") else Tier.POSSIBLE
    )
    settle = "the traceback above the error, or the lines of the worker that failed first"
    return Candidate(tier, text, (case.death.line,), _remedies(case), advice.useless(case), settle=settle)


OWN = 0.95  # of a card in this process's hands: nobody else is there whose end would help


def _remedies(case: Case) -> tuple[Remedy, ...]:
    if case.stage == "host_ram":
        return (advice.host(FREE_HOST, rank=0), *levers(case, "context", "slots", "quant"))
    if not table(case):
        start = case.stage == "profile_run" and case.death.basis in ("guess", "said")
        moving = VLLM.get("start" if start else case.stage, VLLM["other"])(case)
    else:
        moving = levers(case, *LEVERS.get(case.stage, LEVERS["other"]))
    free = advice.host(FREE_GPU, lever="host", rank=7 if case.stage != "startup_free_memory" else 0)
    total, own = case.total, case.oom_value("in_use") or case.oom_value("allocated") or 0
    alone = bool(total) and own >= OWN * (total or 0)
    return moving if alone else (*moving, free)
