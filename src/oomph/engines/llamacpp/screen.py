"""A llama.cpp or Ollama plan for people: one screen, with llama.cpp's own identity for each GPU."""

from typing import Any

from oomph.engines.registry import engine_of
from oomph.ir import KvGroup, Plan
from oomph.report.screens.advice import advice_lines, rows
from oomph.report.screens.bars import bars
from oomph.report.screens.plan_lines import gpus_line, headline, host_lines, ledger, notes, unsure_lines
from oomph.report.terminal import Style, clean, folded, title
from oomph.units import MIB, gib, human


def render(plan: Plan, style: Style, *, everything: bool = False, width: int = 100) -> str:
    engine = plan.deployment.engine
    title_words = f"{engine_of(plan.deployment).title} {engine.version}"
    head = [style.bold(clean(plan.model)), title_words, gpus_line(plan.deployment.gpus)]
    lines = ["", *title(head, width), "", f"  {verdict(plan, style)}", ""]
    if plan.ranks:
        lines += [
            *bars(plan, style, width),
            "",
            *_what(plan, style),
            *_identity(plan, style),
            *host_lines(plan, style, everything=everything),
            *unsure_lines(plan, style),
            *_advice(plan, style, width),
        ]
    elif plan.host is not None:
        lines += [*_what(plan, style), *host_lines(plan, style, everything=everything)]
    if everything and plan.ranks:
        lines += ledger(plan, style, width)
    lines += notes(plan, style, everything=everything)
    return "\n".join(folded(line, width) for line in lines).rstrip() + "\n"


def verdict(plan: Plan, style: Style) -> str:
    resolved = plan.resolved
    if plan.verdict.stage == "other" or not plan.fits or plan.verdict.outcome == "close":
        return headline(plan, style, runs="", title="llama.cpp")
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
        return style.paint(slow, "1;33") + f"   {runs}"
    return headline(plan, style, runs=runs, title="llama.cpp")


def _what(plan: Plan, style: Style) -> list[str]:
    resolved, kv = plan.resolved, plan.kv
    host: dict[str, Any] = resolved["host"]
    weights = sum(x.terms["weights"].bytes for x in plan.ranks)
    split = ", ".join(str(n) for n in resolved["layers_per_gpu"]) or "0"
    lines = [f"  {style.bold('Weights')}  {gib(weights)} on the GPUs ({split} of {resolved['layers']} layers), "
             f"{gib(host['weights'])} in host memory"]  # fmt: skip
    if kv is not None:
        groups = "; ".join(_group(group) for group in kv.groups)
        streams = 1 if resolved["kv_unified"] else resolved["n_seq_max"]
        times = f", {streams} times" if streams > 1 else ""
        types = f"{resolved['type_k']}/{resolved['type_v']}"
        lines.append(f"  {style.bold('KV')}       {human(kv.available_bytes)}: {groups}{times} ({types})")
    fa = "flash attention" if resolved["flash_attn"] else "no flash attention"
    most = max((x.terms["compute"].bytes for x in plan.ranks), default=0)
    there = host["compute"] + host["output"]
    lines.append(
        f"  {style.bold('Compute')}  {human(most)} for {resolved['n_ubatch']} tokens, {fa}; host {human(there)}"
    )
    return lines


def _group(kv_group: KvGroup) -> str:
    if kv_group.kind == "mamba":
        return f"{kv_group.layers} recurrent"
    kind, size = kv_group.kind.replace("_", " "), human(kv_group.page_bytes // kv_group.layers)
    return f"{kv_group.layers} {kind} x {kv_group.blocks_per_request:,} cells x {size}"


def _identity(plan: Plan, style: Style) -> list[str]:
    """llama.cpp's memory breakdown: total = free + self (model + context + compute) + unaccounted."""
    lines = [f"  {style.bold('MiB')}      total = free + (self = model + context + compute) + unaccounted"]
    for rank in plan.ranks:
        mib_of = {k: round(v.bytes / MIB) for k, v in rank.terms.items()}
        context = mib_of["kv_cache"] + mib_of["state"]
        own = mib_of["weights"] + context + mib_of["compute"]
        total, other = round(rank.total_bytes / MIB), mib_of["context"] + round(rank.used_by_others_bytes / MIB)
        free = total - own - other
        parts = f"{own} = {mib_of['weights']} + {context} + {mib_of['compute']}"
        lines.append(f"  {'GPU ' + str(rank.rank):<9}{total} = {free} + ({parts}) + {other}")
    return lines


def _advice(plan: Plan, style: Style, width: int) -> list[str]:
    resolved = plan.resolved
    on_host = resolved["layers"] > resolved["offloaded"] or bool(resolved["host"]["parts"].get("experts"))
    if plan.verdict.outcome == "fits" and not on_host:
        return []
    if plan.verdict.outcome != "fits" or plan.advice is None:
        return advice_lines(plan, style, width, engine="Prints")
    # It runs: only what takes work off the CPU is of use.
    helps = [judged for judged in plan.advice.helps if judged.gain_bytes > 0.05 * resolved["host"]["weights"]]
    cells = [(j.change.label, f"{human(j.gain_bytes)} more on the GPU ({j.change.cost})") for j in helps[:4]]
    return rows("Faster", cells, style, width)
