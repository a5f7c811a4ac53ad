"""A llama.cpp or Ollama plan for people, with llama.cpp's own identity for each GPU."""

from typing import Any

from oomph.ir import Advice, KvGroup, Plan
from oomph.report.answer import Block, Changes, Verdict
from oomph.report.screens.advice import advice_blocks, before_words, more_room
from oomph.report.screens.plan_words import verdict_of
from oomph.units import MIB, gib, human


def verdict(plan: Plan) -> Verdict:
    resolved = plan.resolved
    if plan.verdict.stage == "other" or not plan.fits or plan.verdict.outcome == "close":
        return verdict_of(plan, runs="", title="llama.cpp")
    on_cpu = resolved["layers"] - resolved["offloaded"]
    slots = f"{resolved['n_seq_max']} slots" if resolved["n_seq_max"] > 1 else "1 slot"
    shared = resolved["kv_unified"] and resolved["n_seq_max"] > 1
    context = f"{slots} {'sharing' if shared else 'of'} {resolved['n_ctx_seq']:,} tokens"
    slow, where = "", f"all {resolved['layers']} layers on {'the GPUs' if len(plan.ranks) > 1 else 'the GPU'}"
    if on_cpu:
        slow, where = "RUNS, SLOWLY", f"{on_cpu} of {resolved['layers']} layers on the CPU"
    elif experts := resolved["host"]["parts"].get("experts"):
        slow, where = "RUNS, SLOWER", f"{gib(experts)} of experts on the CPU"
    absent = plan.host.absent_bytes if plan.host is not None else 0
    runs = f"{where}, {gib(absent)} more than its memory holds; {context}" if absent else f"{where}; {context}"
    if slow and plan.verdict.outcome == "fits":
        return Verdict(slow, "at_risk", runs)
    return verdict_of(plan, runs=runs, title="llama.cpp")


def figures(plan: Plan) -> tuple[tuple[str, str], ...]:
    resolved, kv = plan.resolved, plan.kv
    host: dict[str, Any] = resolved["host"]
    weights = sum(rank.terms["weights"].bytes for rank in plan.ranks)
    split = ", ".join(str(n) for n in resolved["layers_per_gpu"]) or "0"
    cache = ""
    if kv is not None:
        groups = "; ".join(_group(group) for group in kv.groups)
        streams = 1 if resolved["kv_unified"] else resolved["n_seq_max"]
        times = f", {streams} times" if streams > 1 else ""
        types = f"{resolved['type_k']}/{resolved['type_v']}"
        cache = f"{human(kv.available_bytes)}: {groups}{times} ({types})"
    attention = "flash attention" if resolved["flash_attn"] else "no flash attention"
    most = max((rank.terms["compute"].bytes for rank in plan.ranks), default=0)
    there = host["compute"] + host["output"]
    return (
        ("Weights", f"{gib(weights)} on the GPUs ({split} of {resolved['layers']} layers), {gib(host['weights'])} in "
                    "host memory"),
        ("KV", cache),
        ("Compute", f"{human(most)} for {resolved['n_ubatch']} tokens, {attention}; host {human(there)}"),
        *((_BESIDE.get(name, "Beside"), _beside(plan, name)) for name in resolved["beside"]),
        *_identity(plan),
    )  # fmt: skip


_BESIDE = {"draft model": "Draft", "MTP context": "MTP", "projector": "Images"}


def _beside(plan: Plan, name: str) -> str:
    """What a projector, a draft model or its context has of the figures above."""
    words = {"weights": "weights", "kv_cache": "KV cache", "compute": "compute buffers"}
    sizes = {term: sum(rank.terms[term].parts.get(name, 0) for rank in plan.ranks) for term in words}
    gpus = [str(rank.rank) for rank in plan.ranks if any(rank.terms[term].parts.get(name) for term in words)]
    what = ", ".join(f"{human(size)} of {words[term]}" for term, size in sizes.items() if size)
    return f"{what}, on GPU {' and '.join(gpus)}" if what else "on the CPU"


def _group(kv_group: KvGroup) -> str:
    if kv_group.kind == "mamba":
        return f"{kv_group.layers} recurrent"
    kind, size = kv_group.kind.replace("_", " "), human(kv_group.page_bytes // kv_group.layers)
    return f"{kv_group.layers} {kind} x {kv_group.blocks_per_request:,} cells x {size}"


def _identity(plan: Plan) -> list[tuple[str, str]]:
    """llama.cpp's memory breakdown: total = free + self (model + context + compute) + unaccounted."""
    rows = [("MiB", "total = free + (self = model + context + compute) + unaccounted")]
    for rank in plan.ranks:
        mib_of = {k: round(v.bytes / MIB) for k, v in rank.terms.items()}
        context = mib_of["kv_cache"] + mib_of["state"]
        own = mib_of["weights"] + context + mib_of["compute"]
        total, other = round(rank.total_bytes / MIB), mib_of["context"] + round(rank.used_by_others_bytes / MIB)
        parts = f"{own} = {mib_of['weights']} + {context} + {mib_of['compute']}"
        rows.append((f"GPU {rank.rank}", f"{total} = {total - own - other} + ({parts}) + {other}"))
    return rows if plan.ranks else []


def advice(plan: Plan, advised: Advice) -> tuple[Block, ...]:
    resolved = plan.resolved
    if plan.verdict.outcome != "fits":
        return advice_blocks(plan, advised, engine="Prints")
    on_host = resolved["layers"] > resolved["offloaded"] or bool(resolved["host"]["parts"].get("experts"))
    if not on_host:
        return more_room(plan, advised)
    # It runs: only what takes work off the CPU is of use.
    helps = [judged for judged in advised.helps if judged.gain_bytes > 0.05 * resolved["host"]["weights"]]
    effects = [f"{human(judged.gain_bytes)} more on the GPU ({judged.change.cost})" for judged in helps]
    before, engine = before_words(plan), plan.deployment.engine.name
    return (Changes("Faster", "What takes work off the CPU", tuple(helps), tuple(effects), before, engine, shown=4),)
