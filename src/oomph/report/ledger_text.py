"""The whole ledger of a plan: every term with its parts, its basis and its interval, and the stages."""

from __future__ import annotations

from oomph.ir.plan import Plan
from oomph.report.bars import alike
from oomph.report.terminal import Style, wrap
from oomph.units import human


def ledger(plan: Plan, style: Style, width: int) -> list[str]:
    lines = ["", f"  {style.bold('Ledger')}"]
    kernels = plan.resolved.get("expert_kernels", [])
    if kernels:
        lines.append(f"  The experts run with vLLM's {' and '.join(kernels)} kernel{'s' if len(kernels) > 1 else ''}.")
    for r, count in alike(plan):
        name = f"GPU {r.rank}" + (f"-{r.rank + count - 1}, each" if count > 1 else "")
        lines.append(f"  {name}: {r.gpu}, {r.total_bytes:,} bytes; the budget is {r.requested_bytes:,}")
        for t in r.terms.values():
            span = "" if t.low == t.bytes == t.high else f"  {human(t.low)} to {human(t.high)}"
            lines.append(f"    {t.name:<18}{t.bytes:>18,}  {style.dim(t.basis)}{span}")
            if t.why:
                lines.append(style.dim(f"      {t.why}"))
            if len(t.parts) > 1:
                lines += [f"      {k:<24}{v:>16,}" for k, v in sorted(t.parts.items(), key=lambda x: -abs(x[1])) if v]
        lines += ["", f"    {'stage':<20}{'resident':>12}{'peak':>12}"]
        for s in r.stages:
            start = f"    {s.name:<20}{human(s.resident_bytes):>12}{human(s.peak_bytes):>12}"
            lines += wrap(style.dim(s.note), width, start + "  ", " " * 50) if s.note else [start]
        lines.append("")
    return lines
