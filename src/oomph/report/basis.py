"""The whole ledger of a plan: every term with its parts, its basis and its interval, and the stages."""

from oomph.ir import Plan
from oomph.report.bars import alike
from oomph.report.terminal import Style, wrap
from oomph.units import human


def basis_lines(plan: Plan, style: Style, width: int) -> list[str]:
    lines = [f"  {style.bold('Ledger')}"]
    kernels = plan.resolved.get("expert_kernels", [])
    if kernels:
        lines.append(f"  The experts run with vLLM's {' and '.join(kernels)} kernel{'s' if len(kernels) > 1 else ''}.")
    for rank, count in alike(plan):
        name = f"GPU {rank.rank}" + (f"-{rank.rank + count - 1}, each" if count > 1 else "")
        lines.append(f"  {name}: {rank.gpu}, {rank.total_bytes:,} bytes; the budget is {rank.requested_bytes:,}")
        for term in rank.terms.values():
            span = "" if term.low == term.bytes == term.high else f"  {human(term.low)} to {human(term.high)}"
            lines.append(f"    {term.name:<18}{term.bytes:>18,}  {style.dim(term.basis)}{span}")
            if term.why:
                lines.append(style.dim(f"      {term.why}"))
            if len(term.parts) > 1:
                parts = sorted(term.parts.items(), key=lambda part: -abs(part[1]))
                lines += [f"      {name:<24}{size:>16,}" for name, size in parts if size]
        lines += ["", f"    {'stage':<20}{'resident':>12}{'peak':>12}"]
        for stage in rank.stages:
            start = f"    {stage.name:<20}{human(stage.resident_bytes):>12}{human(stage.peak_bytes):>12}"
            lines += wrap(style.dim(stage.note), width, start + "  ", " " * 50) if stage.note else [start]
        lines.append("")
    return lines
