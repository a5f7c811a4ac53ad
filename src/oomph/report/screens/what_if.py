"""A what-if for people, and as JSON: one line a change, sorted by what it does at the point that binds."""

from typing import Any

from msgspec import structs, to_builtins
from msgspec.structs import replace

from oomph.advice.what_if import Row, WhatIf
from oomph.engines.registry import engine_of
from oomph.ir import STAGE_WORDS
from oomph.report.contract.plan import SCHEMA
from oomph.report.contract.searches import WhatIfOutput, WhatIfRowOutput
from oomph.report.plan_json import judged_output, plan_output
from oomph.report.screens.plan import verdict_line
from oomph.report.screens.plan_lines import gpus_line
from oomph.report.terminal import Style, clean, folded, title, wrap
from oomph.units import human

_HEADS = {
    "fixes": "Makes it fit",
    "helps": "Helps",
    "nothing": "Does nothing here",
    "worse": "Makes it worse",
    "refused": "Refused",
}


def render(answer: WhatIf, style: Style, *, width: int = 100, everything: bool = False) -> str:
    plan = answer.plan
    deployment = plan.deployment
    engine = f"{engine_of(deployment).title} {deployment.engine.version}"
    lines = [
        "",
        *title([style.bold(clean(plan.model)), engine, gpus_line(deployment.gpus)], width),
        "",
        folded(f"  {verdict_line(plan, style)}", width),
        "",
    ]
    what = "the KV cache" if plan.fits else f"the room {STAGE_WORDS[plan.verdict.stage or 'other'][1]}"
    explanation = f"Each change alone, planned, and what it does to {what}. * = what guides advise"
    lines += [*(style.dim(line) for line in wrap(explanation, width, "  ", "  ")), ""]
    rows = _merged(answer.rows)
    widest = max((len(row.label) for row in rows if len(row.label) <= 34), default=0)
    lines.append(style.dim(f"{'tokens':>17}" if plan.fits else f"{'room':>11}{'tokens':>11}"))
    head = ""
    for row in rows:
        if row.effect != head:
            head = row.effect
            lines += [*([""] if row is not rows[0] else []), f"  {style.bold(_HEADS[head])}"]
        lines += _line(row, plan.fits, width, widest)
    return "\n".join(lines) + "\n"


def _merged(rows: tuple[Row, ...]) -> list[Row]:
    """Settings of one flag that end alike are one line: "--gpu-memory-utilization 0.95, 0.8"."""
    places: dict[tuple[str, str, int], int] = {}
    merged: list[Row] = []
    for row in rows:
        name, _, value = row.label.partition(" ")
        gained = 0 if row.effect in ("nothing", "refused") else row.judged.gain_bytes
        place = places.setdefault((name, row.effect, gained), len(merged))
        if place == len(merged) or not value or not name.startswith("-"):
            merged.append(row)
        else:
            first = merged[place]
            change = replace(first.judged.change, label=f"{first.label}, {value}")
            merged[place] = replace(
                first, judged=replace(first.judged, change=change), advised=first.advised or row.advised
            )
    return merged


def _line(row: Row, fits: bool, width: int, widest: int) -> list[str]:
    """The effect, the change, and what it costs: beside it where there is room, else below."""
    moved = after = ""
    if row.effect in ("fixes", "helps", "worse") and (row.judged.gain_bytes or row.tokens_change):
        moved = f"{row.tokens_change:+,}" if fits else _signed(row.judged.gain_bytes)
        after = f"{row.judged.tokens:,}" if row.judged.tokens and not fits else ""
    column = f"{moved:>17} " if fits else f"{moved:>11}{after:>11} "
    head = f"{column}{'*' if row.advised else ' '} {row.label}"
    start = len(column) + 2 + widest + 2
    costs = row.judged.change.cost if row.effect in ("fixes", "helps") else ""
    why = "; ".join(dict.fromkeys(words for words in (costs, clean(row.judged.why)) if words))
    if why and len(head) < start - 1 and start + len(why) <= width:
        return [f"{head:<{start}}{why}"]
    return [head.rstrip(), *(wrap(why, width, " " * (len(column) + 4)) if why else [])]


def _signed(n: int) -> str:
    return f"{'+' if n >= 0 else '-'}{human(abs(n))}"


def what_if_json(table: WhatIf) -> dict[str, Any]:
    rows = [
        WhatIfRowOutput(
            **structs.asdict(judged_output(row.judged)),
            label=row.label,
            tokens_change=row.tokens_change,
            advised=row.advised,
        )
        for row in table.rows
    ]
    plain: dict[str, Any] = to_builtins(WhatIfOutput(SCHEMA, table.binding, rows, plan_output(table.plan)))
    return plain
