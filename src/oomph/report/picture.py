"""The verdict of a plan as one picture, for an issue or a chat: what happens, the memory to scale, what works."""

import os
import re
import textwrap

from oomph.errors import CommandError
from oomph.ir import Plan, RankPlan
from oomph.report.bars import alike, sizes
from oomph.report.parts import PARTS
from oomph.report.safe import escape
from oomph.report.screens.plan import heading, verdict
from oomph.text.output_file import write_output
from oomph.units import gib, human

WIDTH, EDGE, BAR = 820, 28, 30
_TONES = {"fits": "#15713a", "fails": "#b42318", "close": "#8a5a00", "at_risk": "#8a5a00"}
_COLUMNS = 82  # characters of a line of the verdict


def write_picture(plan: Plan, path: str) -> None:
    form = os.path.splitext(path)[1].lower()
    if form not in ("", ".svg"):
        raise CommandError(f"the picture is an SVG: {form[:12]!r} is another form", hint="--picture verdict.svg")
    write_output(path, draw_plan(plan) + "\n", is_markup=True)


def draw_plan(plan: Plan) -> str:
    head, outcome = heading(plan), verdict(plan)
    tone = _TONES.get(outcome.tone, "#333")
    parts = [
        _text(EDGE, 42, head.title, size=20, weight=700),
        _text(EDGE, 64, ", ".join(part for part in head.about if part), fill="#555"),
        _text(EDGE, 104, outcome.word, size=22, weight=700, fill=tone),
    ]
    down = 128
    for line in _wrapped(outcome.says)[:4]:
        parts.append(_text(EDGE, down, line, size=15))
        down += 21
    for rank, count in alike(plan)[:4]:
        parts.append(_bar(rank, count, plan, down + 8))
        down += BAR + 42
    legend, down = _legend(plan, down + 14)
    parts.append(legend)
    if plan.advice is not None and plan.advice.fixes:
        fix = plan.advice.fixes[0]
        for line in _wrapped(f"What works: {fix.change.label}")[:3]:
            parts.append(_text(EDGE, down + 12, line, size=15, weight=600))
            down += 21
    parts.append(_text(WIDTH - EDGE, down + 22, "oomph", size=12, fill="#777", anchor="end"))
    height = down + 38
    ground = (
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/><rect width="6" height="{height}" fill="{tone}"/>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(f"{head.title}: {outcome.word}")}" '
        f'font-family="system-ui,-apple-system,Segoe UI,sans-serif">{ground}{"".join(parts)}</svg>'
    )


def _wrapped(text: str) -> list[str]:
    """A figure stays beside its unit, a flag beside its value."""
    whole = re.sub(
        r"(?<=\d) (?=[GM]iB\b)|(?<= --)([\w-]+) (?=[\w.])", lambda match: f"{match[1] or ''}\N{NO-BREAK SPACE}", text
    )
    return textwrap.wrap(whole, _COLUMNS, break_on_hyphens=False)


def _bar(rank: RankPlan, count: int, plan: Plan, top: int) -> str:
    """One GPU to scale; what is beyond its end is beyond the line."""
    pieces = [(part, size) for part, size in sizes(rank, plan) if size > 0]
    used = sum(size for _, size in pieces)
    scale = (WIDTH - 2 * EDGE) / max(used, rank.total_bytes, 1)
    name = f"GPU {rank.rank}" + (f" to {rank.rank + count - 1}, each" if count > 1 else "")
    end = EDGE + rank.total_bytes * scale
    drawn = [f'<rect x="{EDGE}" y="{top}" width="{rank.total_bytes * scale:.1f}" height="{BAR}" fill="#e8eaee"/>']
    left = float(EDGE)
    for part, size in pieces:
        drawn.append(
            f'<rect x="{left:.1f}" y="{top}" width="{size * scale:.1f}" height="{BAR}" fill="{PARTS[part].light}"/>'
        )
        left += size * scale
    beyond = left - end
    if beyond > 1:
        look = 'fill="#b42318" fill-opacity="0.35" stroke="#b42318"'
        drawn.append(f'<rect x="{end:.1f}" y="{top}" width="{beyond:.1f}" height="{BAR}" {look}/>')
    drawn.append(f'<path d="M{end:.1f} {top - 4}V{top + BAR + 4}" stroke="#b42318" stroke-width="2"/>')
    over = f", {human(used - rank.total_bytes)} too much" if beyond > 1 else ""
    words = f"{name}, {rank.gpu}: {human(used)} of {gib(rank.total_bytes)}{over}"
    return "".join(drawn) + _text(EDGE, top + BAR + 18, words, size=13, fill="#444")


def _legend(plan: Plan, down: int) -> tuple[str, int]:
    """Every part with its size on the first GPU, and where what follows begins."""
    drawn, left = "", EDGE
    for part, size in sizes(plan.ranks[0], plan) if plan.ranks else ():
        words = f"{part} {human(size)}"
        if size <= 0:
            continue
        if left + 24 + 8 * len(words) > WIDTH - EDGE:
            left, down = EDGE, down + 22
        drawn += f'<rect x="{left}" y="{down - 11}" width="12" height="12" rx="2" fill="{PARTS[part].light}"/>'
        drawn += _text(left + 18, down, words, size=13)
        left += 34 + 8 * len(words)
    return drawn, down + 22


def _text(
    left: int, down: int, text: str, *, size: int = 14, weight: int = 400, fill: str = "#1c2128", anchor: str = "start"
) -> str:
    style = f'font-size="{size}" font-weight="{weight}" fill="{fill}" text-anchor="{anchor}"'
    return f'<text x="{left}" y="{down}" {style}>{escape(text)}</text>'
