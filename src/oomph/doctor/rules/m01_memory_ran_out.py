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

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.ir import STAGES
from oomph.units import gib

# stage -> levers that it reads; an engine that lacks one leaves it out
LEVERS: dict[str, tuple[str, ...]] = {
    "startup_free_memory": ("share_down",),
    "weights_load": ("layers", "checkpoint", "more_gpus", "offload", "experts"),
    "profile_run": ("batch", "sequences", "checkpoint"),
    "kv_check": ("share_up", "context", "kv_dtype", "checkpoint"),
    "kv_alloc": ("share_down", "context", "kv_dtype", "layers", "sequences"),
    "cudagraph_profile": ("sequences", "fewer_graphs", "no_graphs"),
    "cudagraph_capture": ("share_down", "fewer_graphs", "no_graphs", "sequences"),
    "sampler_warmup": ("sequences", "share_down"),
    "runtime_request": ("batch", "share_down", "sequences", "layers", "context"),
    "host_ram": ("more_host_memory", "context", "sequences", "checkpoint"),
    "other": ("share_down", "batch", "context", "layers", "checkpoint"),
}
# some stage of a start: a smaller batch while profiling, a smaller share behind it, fewer weights before it
A_START = ("batch", "share_down", "checkpoint")


@rule(*tuple(STAGES), engines=("vllm", "sglang", "trtllm", "llamacpp", "ollama"), fallback=True)
def match(case: Case) -> Finding | None:
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
    return Finding(tier, text, (case.death.line,), _levers(case), settle=settle)


OWN = 0.95  # of a card in this process's hands: nobody else is there whose end would help


def _levers(case: Case) -> tuple[str, ...]:
    start = case.stage == "profile_run" and case.death.basis in ("guess", "said")
    levers = A_START if start else LEVERS.get(case.stage, LEVERS["other"])
    total, own = case.total, case.oom_value("in_use") or case.oom_value("allocated") or 0
    alone = bool(total) and own >= OWN * (total or 0)
    if alone or case.stage == "host_ram":
        return levers
    return (*levers, "free_card" if case.stage == "startup_free_memory" else "free_card_last")
