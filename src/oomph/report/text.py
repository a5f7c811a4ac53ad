"""A plan for people: one screen, the verdict first, then the picture, why, and what to do."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TextIO

from msgspec.structs import replace

from oomph.errors import OomphError
from oomph.ir.deployment import Deployment
from oomph.ir.model import Linear
from oomph.ir.plan import Plan, RankPlan
from oomph.levers import levers, mildest, useless
from oomph.plan import load, run
from oomph.units import gib, human

STAGES = {
    "startup_free_memory": "at the first check",
    "weights_load": "while loading the weights",
    "profile_run": "in the profiling run",
    "cudagraph_profile": "while profiling CUDA graphs, before the KV cache exists",
    "kv_check": "at the KV cache check",
    "kv_alloc": "while allocating the KV cache",
    "cudagraph_capture": "while capturing CUDA graphs",
    "sampler_warmup": "while warming up the sampler",
    "other": "before any memory is touched",
}


class Style:
    """Colours where a terminal shows them."""

    def __init__(self, out: TextIO) -> None:
        self.on = out.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"

    def paint(self, text: str, code: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self.on else text

    def bold(self, text: str) -> str:
        return self.paint(text, "1")

    def good(self, text: str) -> str:
        return self.paint(text, "1;32")

    def bad(self, text: str) -> str:
        return self.paint(text, "1;31")

    def dim(self, text: str) -> str:
        return self.paint(text, "2")


def print_plan(plan: Plan, *, everything: bool = False, out: TextIO | None = None) -> None:
    stream = out or sys.stdout
    stream.write(render(plan, Style(stream), everything=everything) + "\n")


def render(plan: Plan, style: Style, *, everything: bool = False, width: int = 0) -> str:
    if plan.deployment.engine.name in ("llamacpp", "ollama"):
        from oomph.report import llamacpp_text

        return llamacpp_text.render(plan, style, everything=everything, width=width)
    width = width or min(shutil.get_terminal_size((100, 24)).columns, 110)
    lines = [
        "",
        f"  {style.bold(plan.model)}   {_engine(plan)}   {gpus_line(plan)}",
        "",
        f"  {verdict_line(plan, style)}",
        "",
    ]
    lines += [f"  {_bar(r, plan, width - 4)}" for r in _shown(plan)]
    lines += ["", *_kv(plan, style)] if plan.ranks else []
    lines += _advice(plan, style)
    if everything:
        lines += ledger(plan, style)
    lines += [f"  {style.dim('note     ')}{w}" for w in plan.warnings]
    if plan.ranks and plan.assumptions:
        lines += [f"  {style.dim('assumed  ' + a)}" for a in plan.assumptions]
    return "\n".join(folded(line, width) for line in lines).rstrip() + "\n"


def folded(line: str, width: int) -> str:
    if len(line) <= width or "\033" in line:
        return line
    import textwrap

    text = line.lstrip()
    start = line[: len(line) - len(text)]
    return "\n".join(textwrap.wrap(text, width, initial_indent=start, subsequent_indent=" " * 11))


def _engine(plan: Plan) -> str:
    e = plan.deployment.engine
    return f"vLLM {e.version}" + (f" ({e.version_from})" if e.version_from and e.version_from != "--engine" else "")


def gpus_line(plan: Plan) -> str:
    names: dict[str, int] = {}
    for g in plan.deployment.gpus:
        used = f", {gib(g.used_bytes)} in use" if g.used_bytes else ""
        label = f"{g.name} ({gib(g.total_bytes)}{used})"
        names[label] = names.get(label, 0) + 1
    return " + ".join(f"{n} x {label}" if n > 1 else label for label, n in names.items())


def verdict_line(plan: Plan, style: Style) -> str:
    v = plan.verdict
    if v.fits:
        sure = "" if v.sure else ", but close: the assumed terms could tip it"
        return style.good("FITS") + f"   {_users(plan)}{sure}"
    where = STAGES.get(v.stage or "other", "")
    if v.stage == "weights_load":
        note = next((s.note for s in plan.ranks[v.rank].stages if s.name == v.stage), "")
        where += note.replace("dies at", ", at")
    if v.stage == "other":
        return style.bad("WILL NOT START") + f"   vLLM refuses {where}: {v.message}"
    if v.stage == "startup_free_memory":
        short = f"too little memory is free at the start: {gib(v.short_bytes)} short"
        return style.bad("WILL NOT START") + "   " + short + (f" on GPU {v.rank}" if len(_shown(plan)) > 1 else "")
    short = f": {gib(v.short_bytes)} short" + (" on each GPU" if len(plan.ranks) > 1 else "")
    sure = "" if v.sure else " (close: the assumed terms could save it)"
    return style.bad("WILL NOT START") + f"   out of memory {where}{short}{sure}"


def _users(plan: Plan) -> str:
    kv = plan.kv
    if kv is None:
        return ""
    length = plan.resolved.get("max_model_len", 0)
    return f"{kv.logged_tokens:,} tokens of KV cache, {kv.max_concurrency:.2f} requests of {length:,} tokens at once"


def _shown(plan: Plan) -> list[RankPlan]:
    """Ranks that are alike are shown once."""
    seen: dict[tuple[object, ...], RankPlan] = {}
    for r in plan.ranks:
        seen.setdefault((r.gpu, r.total_bytes, r.used_by_others_bytes, tuple(t.bytes for t in r.terms.values())), r)
    return list(seen.values())


def _bar(r: RankPlan, plan: Plan, width: int) -> str:
    """[####weights 15.1####|aa|kv====|....] of the card, with what does not fit behind it."""
    kv = plan.kv.num_blocks * plan.kv.bytes_per_block if plan.fits and plan.kv else 0
    t = r.terms
    sizes = [
        ("others", r.used_by_others_bytes), ("context", t["context"].bytes + t["non_torch"].bytes),
        ("weights", t["weights"].bytes), ("activations", t["activation_peak"].bytes), ("graphs", t["cudagraph"].bytes),
        ("KV", kv),
    ]  # fmt: skip
    used = sum(n for _, n in sizes)
    alike = sum(x.gpu == r.gpu and x.terms["weights"].bytes == t["weights"].bytes for x in plan.ranks)
    name = f"GPU {r.rank}" + (f"-{r.rank + alike - 1}" if alike > 1 else "")
    room = max(20, width - len(name) - 30)
    scale = room / max(used, r.total_bytes)
    cells = ""
    for label, n in sizes:
        cells += cell(label, n, round(n * scale))
    free = max(0, room - len(cells))
    end = "" if used <= r.total_bytes else "!!"
    return f"{name}  [{cells}{'.' * free}]{end} {gib(used)} of {gib(r.total_bytes)}"


def cell(label: str, n: int, width: int) -> str:
    if width < 1:
        return ""
    text = f"{label} {n / (1 << 30):.1f}"
    if width < len(text) + 2:
        text = label[: max(0, width - 2)] if width > 4 else ""
    return text.center(width - 1, "#" if label == "weights" else "=" if label == "KV" else "-") + "|"


def _kv(plan: Plan, style: Style) -> list[str]:
    lines = []
    r = plan.ranks[0]
    parts = r.terms["weights"].parts
    largest = sorted(parts.items(), key=lambda x: -x[1])[:4]
    weights = ", ".join(f"{k} {human(v)}" for k, v in largest)
    lines.append(f"  {style.bold('Weights')}  {gib(r.terms['weights'].bytes)} a GPU: {weights}")
    kv = plan.kv
    if kv is not None and kv.groups:
        kinds: dict[str, int] = {}
        for g in kv.groups:
            kinds[g.kind] = kinds.get(g.kind, 0) + g.layers
        layers = ", ".join(f"{n} {k.replace('_', ' ')}" for k, n in kinds.items())
        one = f"one request of {plan.resolved['max_model_len']:,} tokens takes {human(kv.need_bytes)}"
        lines.append(f"  {style.bold('KV')}       {human(max(0, kv.available_bytes))} a GPU for {layers} layers; {one}")
        if 0 < kv.longest_request < plan.resolved["max_model_len"]:
            lines.append(f"           the longest prompt this release admits is {kv.longest_request:,} tokens")
    act = r.terms["activation_peak"]
    where = act.why.replace("peak at: ", "")
    graphs, context = human(r.terms["cudagraph"].bytes), human(r.terms["context"].bytes)
    lines.append(
        f"  {style.bold('Peak')}     activations {human(act.bytes)} ({where}), graphs {graphs}, context {context}"
    )
    return lines


def _advice(plan: Plan, style: Style) -> list[str]:
    if not plan.ranks:
        return []
    found = levers(plan, load(plan.deployment.model), run)
    lines = []
    works_at = 0
    if plan.fits:
        have = plan.kv.logged_tokens if plan.kv else 0
        best = [x for x in found if x.fits and x.tokens > 1.01 * have and "cpu_offload_gb" not in x.flags]
        best = [x for x in best if x.flags.get("max_num_seqs", x.concurrency) >= x.concurrency]
        for i, x in enumerate(mildest(best)[:3]):
            head = style.bold("More     ") if i == 0 else " " * 9
            lines.append(f"  {head}{x.label:<38} {x.tokens:,} tokens, {x.concurrency:.2f} at once ({x.cost})")
        return lines
    why = _why(plan)
    if why:
        lines.append(f"  {style.bold('Why')}      {why}")
    if plan.verdict.message and plan.verdict.stage != "other":
        lines.append(f"  {style.bold('vLLM')}     {_short(plan.verdict.message)}")
    for i, line in enumerate(_checkpoints(plan)):
        head = style.bold("Works    ") if i == 0 else " " * 9
        lines.append(f"  {head}{line}")
        works_at = i + 1
    works = mildest(x for x in found if x.fits)[:3]
    for i, x in enumerate(works):
        head = style.bold("Works    ") if i + works_at == 0 else " " * 9
        lines.append(f"  {head}{x.label:<38} {x.tokens:,} tokens, {x.concurrency:.2f} at once ({x.cost})")
    if not works and not works_at:
        lines.append(f"  {style.bold('Works    ')}no flag: a smaller checkpoint, more or larger GPUs")
    idle = useless(found)
    if idle:
        move = "does not move" if len(idle) == 1 else "do not move"
        lines.append(f"  {style.bold('Useless  ')}{', '.join(idle)}: {move} the point where it dies")
    return lines


def _short(message: str, room: int = 220) -> str:
    line = " ".join(message.split())
    return line if len(line) <= room else line[: room - 4].rsplit(" ", 1)[0] + " ..."


def _why(plan: Plan) -> str:
    """One sentence on the largest thing in the way."""
    rank = plan.ranks[min(plan.verdict.rank, len(plan.ranks) - 1)]
    stage = plan.verdict.stage
    note = next((s.note for s in rank.stages if s.name == stage), "")
    if stage == "cudagraph_profile":
        return f"vLLM tries graphs out on {note}, thrown away again; utilisation is not read there."
    if stage == "kv_check" and plan.kv is not None:
        need, have = human(plan.kv.need_bytes), human(max(0, plan.kv.available_bytes))
        return f"One request of {plan.resolved['max_model_len']:,} tokens needs {need} of KV cache; {have} is left."
    if stage == "startup_free_memory":
        free = rank.total_bytes - rank.stages[0].resident_bytes
        return f"The budget of {gib(rank.requested_bytes)} must be free at the start; {gib(max(0, free))} is."
    if stage != "weights_load":
        return ""
    unquantised = _unquantised(plan)
    return unquantised or f"The weights alone take {gib(rank.terms['weights'].bytes)} of every GPU."


def _unquantised(plan: Plan) -> str:
    """What a quantised checkpoint left as it was, if that is the bulk."""
    model = load(plan.deployment.model)
    if model.quantization is None or not model.layers:
        return ""
    plain: dict[str, int] = {}
    for layer in model.layers:
        for m in layer.block.modules:
            if isinstance(m, Linear) and m.scheme is None and m.role in ("attention", "mlp", "linear_attn"):
                plain[m.role] = plain.get(m.role, 0) + m.out_features * m.in_features * 2
    role, size = max(plain.items(), key=lambda x: x[1], default=("", 0))
    ranks = max(1, len(plan.ranks))
    if size < 0.2 * sum(r.terms["weights"].bytes for r in plan.ranks):
        return ""
    return f"This checkpoint is only partly quantised: {role} is still 16-bit, {gib(size / ranks)} of every GPU."


def _checkpoints(plan: Plan) -> list[str]:
    """Other checkpoints of the same model that start with the same flags."""
    from oomph import catalog

    if plan.verdict.stage == "startup_free_memory":
        return []
    found = []
    for name in catalog.variants(plan.model)[:12]:
        made = _started(replace(plan.deployment, model=name)) if name != plan.model else None
        if made is not None and made.kv is not None:
            weights = made.ranks[0].terms["weights"].bytes
            length = made.deployment.flags.get("max_model_len")
            asked = plan.deployment.flags.get("max_model_len")
            label = name if length == asked else f"{name} --max-model-len {length}"
            line = f"{label:<38} {gib(weights)} a GPU, {made.kv.logged_tokens:,} tokens"
            found.append((length == asked, weights, line))
    return [line for _, _, line in sorted(found, reverse=True)[:2]]


def _started(deployment: Deployment) -> Plan | None:
    """As it is, or else with the longest context that it starts with."""
    for length in (None, 65536, 32768, 16384, 8192):
        flags = deployment.flags if length is None else {**deployment.flags, "max_model_len": length}
        try:
            made = run(replace(deployment, flags=flags))
        except OomphError:
            return None
        if made.fits and made.ranks:
            return made
        if made.verdict.stage not in ("kv_check", "other"):
            return None
    return None


def ledger(plan: Plan, style: Style) -> list[str]:
    lines = ["", f"  {style.bold('Ledger')}"]
    for r in _shown(plan):
        lines.append(f"  GPU {r.rank} {r.gpu}: {r.total_bytes:,} bytes, budget {r.requested_bytes:,}")
        for t in r.terms.values():
            lines.append(f"    {t.name:<16}{t.bytes:>18,}  {t.basis:<9} {human(t.low)} to {human(t.high)}  {t.why}")
            lines += [f"      {k:<22}{v:>16,}" for k, v in sorted(t.parts.items(), key=lambda x: -abs(x[1]))]
        lines += [f"    {'stage':<20}{'resident':>14}{'peak':>14}"]
        lines += [f"    {s.name:<20}{human(s.resident_bytes):>14}{human(s.peak_bytes):>14}  {s.note}" for s in r.stages]
    return lines
