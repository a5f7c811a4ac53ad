"""A what-if for people: one line a change, sorted by what it does at the point that binds."""

from __future__ import annotations

import sys
from typing import TextIO

from oomph.report.fit_text import STAGE_WORDS
from oomph.report.terminal import Style, clean, columns, folded, title, wrap
from oomph.report.text import gpus_line, verdict_line
from oomph.search.what_if import Row, WhatIf
from oomph.units import human

_HEADS = {
    "fixes": "Makes it fit",
    "helps": "Helps",
    "nothing": "Does nothing here",
    "worse": "Makes it worse",
    "breaks": "Stops it from starting",
    "refused": "Refused",
}


def print_what_if(found: WhatIf, out: TextIO | None = None) -> None:
    stream = out or sys.stdout
    stream.write(render(found, Style(stream)) + "\n")


def render(found: WhatIf, style: Style, *, width: int = 0) -> str:
    width = width or columns()
    plan = found.plan
    engine = f"vLLM {plan.deployment.engine.version}"
    lines = ["", *title([style.bold(clean(plan.model)), engine, gpus_line(plan.deployment.gpus)], width), ""]
    lines += [folded(f"  {verdict_line(plan, style)}", width), ""]
    what = "the KV cache" if plan.fits else f"the room {STAGE_WORDS.get(found.binding, 'where it dies')}"
    said = f"Each change alone, planned, and what it does to {what}. * = what blogs advise"
    lines += [*(style.dim(line) for line in wrap(said, width, "  ", "  ")), ""]
    widest = max((len(row.label) for row in found.rows if len(row.label) <= 34), default=0)
    lines.append(style.dim(f"{'tokens':>17}" if plan.fits else f"{'room':>11}{'tokens':>11}"))
    head = ""
    for row in found.rows:
        if row.effect != head:
            head = row.effect
            lines += [*([""] if row is not found.rows[0] else []), f"  {style.bold(_HEADS[head])}"]
        lines += _line(row, plan.fits, width, widest)
    return "\n".join(lines) + "\n"


def _line(row: Row, fits: bool, width: int, widest: int) -> list[str]:
    """The effect, the change, and what it costs: beside it where there is room, else below."""
    moved = after = ""
    if row.effect in ("fixes", "helps", "worse") and (row.gain_bytes or row.tokens_change):
        moved = f"{row.tokens_change:+,}" if fits else _signed(row.gain_bytes)
        after = f"{row.tokens:,}" if row.tokens and not fits else ""
    column = f"{moved:>17} " if fits else f"{moved:>11}{after:>11} "
    head = f"{column}{'*' if row.advised else ' '} {row.label}"
    start = len(column) + 2 + widest + 2
    if row.why and len(head) < start - 1 and start + len(row.why) <= width:
        return [f"{head:<{start}}{row.why}"]
    return [head.rstrip(), *(wrap(row.why, width, " " * (len(column) + 4)) if row.why else [])]


def _signed(n: int) -> str:
    return f"{'+' if n >= 0 else '-'}{human(abs(n))}"
