"""A what-if for people: one line a change, sorted by what it does at the point that binds."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TextIO

from oomph.report.fit_text import gpus_line
from oomph.report.text import Style, verdict_line
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
    width = width or min(shutil.get_terminal_size((100, 24)).columns, 110)
    plan = found.plan
    engine = f"vLLM {plan.deployment.engine.version}"
    lines = ["", f"  {style.bold(plan.model)}   {engine}   {gpus_line(plan.deployment.gpus)}", ""]
    lines += [f"  {verdict_line(plan, style)}", ""]
    what = "tokens of KV cache" if plan.fits else f"room at {found.binding}"
    lines.append(style.dim(f"  Each change alone, planned; the effect is on: {what}. * = what blogs advise"))
    head = ""
    for row in found.rows:
        if row.effect != head:
            head = row.effect
            lines += ["", f"  {style.bold(_HEADS[head])}"]
        lines += _line(row, plan.fits, width)
    return "\n".join(lines) + "\n"


def _line(row: Row, fits: bool, width: int) -> list[str]:
    moved = after = ""
    if row.effect in ("fixes", "helps", "worse") and (row.gain_bytes or row.tokens_change):
        moved = f"{row.tokens_change:+,} tokens" if fits else _signed(row.gain_bytes)
        after = f"{row.tokens:,} tokens" if row.tokens and not fits else ""
    column = f"{moved:>18}  " if fits else f"{moved:>11}{after:>17}  "
    text = f"{'*' if row.advised else ' '} {row.label:<36}  {row.why}".rstrip()
    return textwrap.wrap(
        text, width, initial_indent=column, subsequent_indent=" " * (len(column) + 4), break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _signed(n: int) -> str:
    return f"{'+' if n >= 0 else '-'}{human(abs(n))}"
