"""T03: TensorRT-LLM: a component of the executor does not fit.

TensorRT-LLM: a component of the executor does not fit, and it says which; or the engine's build.

What it is: the PyTorch backend creates its parts one after the other (model, sampler, a temporary KV cache and a
dummy batch to measure with, the real KV cache, the executor with its graphs) and notes what was free before each.

How to recognise it: "Executor creation failed due to insufficient GPU memory" and "The following component could not
be created: ..."; below it what every earlier part took.

An engine that is built beforehand (trtllm-build, build.py) runs out in TensorRT's builder instead: "Skipping tactic
... due to insufficient memory", then "Could not find any implementation for node" or "requires N bytes of scratch
space".

Look-alikes: T01 and T02, the same failures without this report.

What fixes it: Model: more ranks or a smaller checkpoint. KV cache: a lower free_gpu_memory_fraction. Everything else:
fewer max_num_tokens, a smaller max_batch_size, fewer graph sizes.

What does not: a setting that belongs to another component than the one named.

Evidence: TensorRT-LLM py_executor_creator.py (1.0), its own list of what to reduce.
"""

from oomph.doctor.ledger import number
from oomph.doctor.writing import Case, Finding, Named, Tier, rule
from oomph.ir.observation import Observation
from oomph.units import GIB, gib


def _took(step: Observation) -> int:
    return (number(step, "before") or 0) - (number(step, "after") or 0)


def _pool_share(case: Case) -> float:
    """Of what was free for it, the part that the temporary pool took."""
    pools = ("_no_capture_init_kv", "Initial KV")
    steps = (step for step in case.all("tr_step") if str(step.values.get("component", "")).startswith(pools))
    return next((_took(step) / max(1, number(step, "before") or 1) for step in steps), 0.0)


@rule("weights_load", "profile_run", "kv_alloc", "cudagraph_capture", "other")
def match(case: Case) -> Finding | None:
    component = case.first("tr_component")
    if component is None:
        return _build(case) or _unnamed(case)
    name = str(component.values.get("component", ""))
    free, total = case.value("tr_free", "free"), case.value("tr_total", "total")
    text = f"{name} could not be created"
    text += f": {gib(free)} of {gib(total)} were free for it." if free is not None and total else "."
    steps = ((str(step.values.get("component", "")), _took(step)) for step in case.all("tr_step"))
    took = [f"{part} {gib(size)}" for part, size in steps if size > GIB // 8]
    text += f" Before it: {', '.join(took)}." if took else ""
    rejected: dict[str, str] = {}
    remedies: tuple[Named, ...] = (
        "batch",
        "sequences",
        "share_down",
    )
    if name == "KV cache":
        remedies = (
            "share_down",
            "batch",
        )
        rejected = {"sequences": "the pool keeps its size"}
    elif "temporary" in name:
        remedies = (
            "sequences",
            "context",
            "share_down",
        )
        if _pool_share(case) > 0.5:
            why = "the temporary pool has a block for every slot of max_batch_size, whatever the tokens (1.2.0rc8)"
            rejected = {"batch": why}
    elif name.startswith(("Model", "Draft")) and "usage" not in name:
        remedies = (
            "checkpoint",
            ("more_gpus", 2 * case.tp),
        )
        why = "the KV cache is sized after the model is there"
        rejected = {"share_down": why}
    return Finding(Tier.SAID, text, case.line("tr_component", "tr_total", "tr_free", "tr_executor"), remedies, rejected)


def _build(case: Case) -> Finding | None:
    """TensorRT's builder: a tactic or a plug-in's scratch space for the largest batch that the engine is built for."""
    is_build = case.death.kind in ("tr_no_build", "tr_no_engine", "tr_oom") and case.stage == "other"
    in_build = case.memory and case.stage == "other" and case.in_traceback("build_engine", "/commands/build.py")
    if not case.failed or not (is_build or in_build):
        return None
    tried, free = case.value("tr_no_build", "tried"), case.value("tr_no_build", "free")
    text = "The engine's build ran out of memory: its buffers are as large as the largest batch that it is built for."
    if tried and free:
        text += f" {gib(tried)} of scratch space were asked for where {gib(free)} are there."
    remedies = ("sequences", "batch", "context", "checkpoint", ("more_gpus", 2 * case.tp),)  # fmt: skip
    lines = case.line("tr_no_build", "tr_no_engine", "torch_oom")
    memory = case.memory or case.has("tr_no_engine") or bool(tried) or case.has("tr_building")
    return Finding(Tier.LIKELY if memory else Tier.POSSIBLE, text, lines, remedies, settle="the builder's first [E]")


def _unnamed(case: Case) -> Finding | None:
    """The report's first line alone: what could not be created stands in a line that is missing."""
    executor = next((o for o in case.all("tr_executor") if "insufficient" in o.text), None)
    if executor is None or not case.failed:
        return None
    text = "A part of the executor did not fit on the GPU; which one stands in the lines behind this one."
    remedies = (
        "share_down",
        "batch",
        "sequences",
        "checkpoint",
    )
    settle = 'the line "The following component could not be created"'
    return Finding(Tier.LIKELY, text, (executor.line,), remedies, settle=settle)
