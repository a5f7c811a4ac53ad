"""The pictures of the HTML report as SVG text: a bar for each GPU, the stages of the start-up. No script, no style."""

from __future__ import annotations

from oomph.ir.plan import Plan, RankPlan
from oomph.report.bars import sizes
from oomph.report.safe import escape
from oomph.units import human

LABELS = {
    "others": "other processes", "context": "CUDA context", "weights": "weights", "activations": "activation peak",
    "graphs": "CUDA graphs", "KV": "KV cache", "compute": "compute buffers", "buffers": "buffers",
    "budget": "the budget that must be free",
}  # fmt: skip
_TERMS = {
    "context": "context", "weights": "weights", "activations": "activation_peak", "graphs": "cudagraph",
    "KV": "available_kv", "compute": "compute",
}  # fmt: skip
STAGES = {
    "startup_free_memory": "first check", "weights_load": "weights", "profile_run": "profiling",
    "cudagraph_profile": "graph profile", "kv_check": "KV check", "kv_alloc": "KV cache",
    "cudagraph_capture": "capture", "sampler_warmup": "warm-up", "runtime_request": "serving",
}  # fmt: skip
_WIDTH = 1000


def bar(rank: RankPlan, plan: Plan, name: str) -> str:
    parts = [(part, n) for part, n in sizes(rank, plan) if n]
    used = sum(n for _, n in parts)
    whole = max(used, rank.total_bytes, 1)
    out, x = [], 0.0
    for part, n in parts:
        width = n / whole * _WIDTH
        text = f"{LABELS[part]}: {human(n)}{_about(part, rank)}"
        out.append(
            f'<rect class="{part.lower()}" x="{x:.1f}" y="2" width="{max(width - 1, 0.5):.1f}" height="38" rx="2">'
            f"<title>{escape(text)}</title></rect>"
        )
        if width > 90:
            out.append(f'<text class="on" x="{x + 6:.1f}" y="25">{escape(part)} {human(n)}</text>')
        x += width
    for kind, at in (("limit", rank.total_bytes), ("budget", rank.requested_bytes)):
        if at:
            where = f"{min(at / whole, 1) * _WIDTH - 1:.1f}"
            out.append(f'<line class="{kind}" x1="{where}" x2="{where}" y1="0" y2="44"/>')
    said = f"{human(used)} of {human(rank.total_bytes)}"
    budget = f"; budget {human(rank.requested_bytes)}" if rank.requested_bytes else ""
    out.append(f'<text x="0" y="57">{escape(name)}</text>')
    out.append(f'<text class="end" x="{_WIDTH}" y="57">{said}{budget}</text>')
    label = escape(f"{name}: {said}", quote=True)
    return f'<svg viewBox="0 0 {_WIDTH} 62" role="img" aria-label="{label}">{"".join(out)}</svg>'


def _about(part: str, rank: RankPlan) -> str:
    term = rank.terms.get(_TERMS.get(part, ""))
    if term is None:
        return ""
    inside = sorted(term.parts.items(), key=lambda x: -abs(x[1]))[:6]
    span = f"{term.basis}: {human(term.low)} to {human(term.high)}"
    return "\n".join(["", span, *([term.why] if term.why else []), *(f"  {k} {human(v)}" for k, v in inside)])


def timeline(rank: RankPlan, plan: Plan) -> str:
    """What is resident through the start-up as an area, the peak of each stage as a mark."""
    stages = rank.stages
    if not stages:
        return ""
    height, base = 190, 150
    top = max(rank.total_bytes, *(s.peak_bytes for s in stages)) * 1.06 or 1
    step = _WIDTH / len(stages)

    def y(n: int) -> float:
        return base - n / top * (base - 12)

    path = f"M0 {base}" + "".join(
        f" L{i * step:.1f} {y(s.resident_bytes):.1f} L{(i + 1) * step:.1f} {y(s.resident_bytes):.1f}"
        for i, s in enumerate(stages)
    )
    out = [f'<path class="area" d="{path} L{_WIDTH} {base} Z"/>']
    for i, s in enumerate(stages):
        dies = plan.verdict.stage == s.name
        kind = "peak over" if dies or s.peak_bytes > rank.total_bytes else "peak"
        tip = f"{s.name}: resident {human(s.resident_bytes)}, peak {human(s.peak_bytes)}\n{s.note}".strip()
        middle = f"{(i + 0.5) * step:.1f}"
        out.append(
            f'<rect class="{kind}" x="{(i + 0.3) * step:.1f}" y="{y(s.peak_bytes) - 2:.1f}" width="{step * 0.4:.1f}" '
            f'height="4"><title>{escape(tip)}</title></rect>'
            f'<text class="mid" x="{middle}" y="168">{escape(STAGES.get(s.name, s.name))}</text>'
            f'<text class="mid{" bad" if dies else ""}" x="{middle}" y="183">{"dies, " if dies else ""}'
            f"{human(s.peak_bytes)}</text>"
        )
    end = y(rank.total_bytes)
    out.append(f'<line class="limit" x1="0" x2="{_WIDTH}" y1="{end:.1f}" y2="{end:.1f}"/>')
    out.append(f'<text x="4" y="{end - 4:.1f}">the card\'s end, {human(rank.total_bytes)}</text>')
    label = "Memory at each stage of the start-up"
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}">{"".join(out)}</svg>'
