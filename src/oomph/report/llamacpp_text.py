"""A llama.cpp or Ollama plan for people: one screen, with llama.cpp's own identity for each GPU."""

from __future__ import annotations

from typing import Any

from oomph.engines.llamacpp.advice import Advice, advice
from oomph.ir.plan import KvGroup, Plan
from oomph.plan import run
from oomph.report.advice_text import rows
from oomph.report.bars import bars
from oomph.report.ledger_text import ledger
from oomph.report.terminal import Style, clean, columns, folded, title
from oomph.report.text import gpus_line, notes
from oomph.report.verdict_text import headline
from oomph.units import MIB, gib, human


def render(plan: Plan, style: Style, *, everything: bool = False, width: int = 0) -> str:
    width = width or columns()
    e = plan.deployment.engine
    name = "Ollama" if e.name == "ollama" else "llama.cpp"
    head = [style.bold(clean(plan.model)), f"{name} {e.version}", gpus_line(plan.deployment.gpus)]
    lines = ["", *title(head, width), "", f"  {verdict(plan, style)}", ""]
    if plan.ranks:
        lines += bars(plan, style, width)
        lines += ["", *_what(plan, style), *_identity(plan, style), *_advice(plan, style, width)]
    if everything:
        lines += ledger(plan, style, width)
    lines += notes(plan, style)
    return "\n".join(folded(line, width) for line in lines).rstrip() + "\n"


def verdict(plan: Plan, style: Style) -> str:
    r = plan.resolved
    if plan.verdict.stage == "other" or not plan.fits or plan.verdict.outcome == "close":
        return headline(plan, style, runs="", title="llama.cpp")
    on_cpu = r["layers"] - r["offloaded"]
    slots = f"{r['n_seq_max']} slots" if r["n_seq_max"] > 1 else "1 slot"
    context = f"{slots} {'sharing' if r['kv_unified'] and r['n_seq_max'] > 1 else 'of'} {r['n_ctx_seq']:,} tokens"
    if on_cpu:
        return style.paint("RUNS, SLOWLY", "1;33") + f"   {on_cpu} of {r['layers']} layers on the CPU; {context}"
    if r["host"]["parts"].get("experts"):
        experts = gib(r["host"]["parts"]["experts"])
        return style.paint("RUNS, SLOWER", "1;33") + f"   {experts} of experts on the CPU; {context}"
    where = "the GPUs" if len(plan.ranks) > 1 else "the GPU"
    return headline(plan, style, runs=f"all {r['layers']} layers on {where}; {context}", title="llama.cpp")


def _what(plan: Plan, style: Style) -> list[str]:
    r, kv = plan.resolved, plan.kv
    host: dict[str, Any] = r["host"]
    weights = sum(x.terms["weights"].bytes for x in plan.ranks)
    split = ", ".join(str(n) for n in r["layers_per_gpu"])
    lines = [f"  {style.bold('Weights')}  {gib(weights)} on the GPUs ({split} of {r['layers']} layers), "
             f"{gib(host['weights'])} in host memory"]  # fmt: skip
    if kv is not None:
        groups = "; ".join(_group(g) for g in kv.groups)
        streams = 1 if r["kv_unified"] else r["n_seq_max"]
        times = f", {streams} times" if streams > 1 else ""
        lines.append(
            f"  {style.bold('KV')}       {human(kv.available_bytes)}: {groups}{times} ({r['type_k']}/{r['type_v']})"
        )
    fa = "flash attention" if r["flash_attn"] else "no flash attention"
    most, there = max(x.terms["compute"].bytes for x in plan.ranks), host["compute"] + host["output"]
    lines.append(f"  {style.bold('Compute')}  {human(most)} for {r['n_ubatch']} tokens, {fa}; host {human(there)}")
    return lines


def _group(g: KvGroup) -> str:
    if g.kind == "mamba":
        return f"{g.layers} recurrent"
    return f"{g.layers} {g.kind.replace('_', ' ')} x {g.blocks_per_request:,} cells x {human(g.page_bytes // g.layers)}"


def _identity(plan: Plan, style: Style) -> list[str]:
    """llama.cpp's memory breakdown: total = free + self (model + context + compute) + unaccounted."""
    lines = [f"  {style.bold('MiB')}      total = free + (self = model + context + compute) + unaccounted"]
    for r in plan.ranks:
        t = {k: round(v.bytes / MIB) for k, v in r.terms.items()}
        context = t["kv_cache"] + t["state"]
        own = t["weights"] + context + t["compute"]
        total, other = round(r.total_bytes / MIB), t["context"] + round(r.used_by_others_bytes / MIB)
        free = total - own - other
        parts = f"{own} = {t['weights']} + {context} + {t['compute']}"
        lines.append(f"  {'GPU ' + str(r.rank):<9}{total} = {free} + ({parts}) + {other}")
    return lines


def _advice(plan: Plan, style: Style, width: int) -> list[str]:
    r = plan.resolved
    tight = not plan.fits or r["layers"] > r["offloaded"] or bool(r["host"]["parts"].get("experts"))
    lines = []
    if not plan.fits and plan.verdict.message:
        lines.append(f"  {style.bold('Prints')}   {plan.verdict.message}")
    if not tight:
        return lines
    found = advice(plan, run)
    if plan.fits:  # it runs: only what takes work off the CPU is of use
        found = [x for x in found if x.host_weights < r["host"]["weights"] * 0.95]
    best = _best(found)
    lines += rows("Works", [(x.label, _effect(x)) for x in best], style, width)
    idle = [x.label for x in found if not x.fits and x.gain_bytes <= 0]
    if idle and not plan.fits:
        lines.append(f"  {style.bold('Useless  ')}{', '.join(idle[:4])}: they do not make the full GPU any emptier")
    if not plan.fits and not best:
        lines.append(f"  {style.bold('Works    ')}no single flag: a smaller model, more or larger GPUs")
    return lines


def _effect(x: Advice) -> str:
    cpu = f", {x.on_cpu} layers on the CPU" if x.on_cpu else ""
    return f"{x.context:,} tokens{cpu} ({x.cost})"


def _best(found: list[Advice]) -> list[Advice]:
    """The mildest of each kind that fits, those with everything on the GPU first."""
    seen: dict[str, Advice] = {}
    for x in sorted((x for x in found if x.fits), key=lambda x: x.on_cpu > 0):
        kind = x.label.split()[0] if not x.label.endswith(("_K_M", "_XS", "_K")) else "quant"
        seen.setdefault("quant" if " instead of " in x.label else kind, x)
    return list(seen.values())[:4]
