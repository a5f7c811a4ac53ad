"""The memory of each GPU as a bar to scale: at the peak that kills the start, or when the server is ready."""

from collections.abc import Sequence

from oomph.ir import Plan, RankPlan, Stage
from oomph.report.bars import alike, sizes
from oomph.report.parts import PART_TERMS, PARTS
from oomph.units import gib, human
from oomph.web.markup import Html, el, join
from oomph.web.views.shared import block, percent, picture, span, upright

_LABEL_SHARE = 0.2  # of the width: less has no room for its name on a phone
_TOP, _HEIGHT = 4, 34


def memory_bars(plan: Plan) -> Html:
    rows = alike(plan)
    longest = max((_reach(rank, plan) for rank, _ in rows), default=1)
    return el("div", [_gpu(rank, count, plan, longest) for rank, count in rows], _legend(plan, rows), cls="bars")


def _reach(rank: RankPlan, plan: Plan) -> int:
    stage = shown_stage(rank, plan)
    used = sum(size for _, size in sizes(rank, plan))
    return max(used, rank.total_bytes, stage.peak_high if stage else 0, 1)


def shown_stage(rank: RankPlan, plan: Plan) -> Stage | None:
    """The stage whose memory the bar shows."""
    if not plan.fits:
        return next((stage for stage in rank.stages if stage.name == plan.verdict.stage), None)
    return max(rank.stages[-3:], key=lambda stage: stage.peak_bytes, default=None)


def _gpu(rank: RankPlan, count: int, plan: Plan, longest: int) -> Html:
    parts = [(part, size) for part, size in sizes(rank, plan) if size > 0]
    used = sum(size for _, size in parts)
    limited = not plan.fits and plan.verdict.stage == "kv_check" and rank.requested_bytes > 0
    limit = rank.requested_bytes if limited else rank.total_bytes
    name = f"GPU {rank.rank}" + (f" to {rank.rank + count - 1}, each" if count > 1 else "")
    filled = f"{human(used)} of {gib(limit)}{' budget' if limited else ''}"
    stage = shown_stage(rank, plan)
    spread = ""
    if stage is not None and stage.peak_high > stage.peak_low > 0 and not limited:
        spread = f", between {human(stage.peak_low)} and {human(stage.peak_high)}"
    budget = f"; budget {gib(rank.requested_bytes)}" if rank.requested_bytes and not limited else ""
    over = el("b", f" {human(used - limit)} too much", cls="bad") if used > limit else None
    caption = el("figcaption", el("span", f"{name}  {rank.gpu}"), el("span", filled, spread, budget, over))
    drawing = picture(
        _HEIGHT + 14, f"{name}: {filled}{spread}", _pieces(parts, rank, longest), _marks(rank, used, limit, longest),
        _interval(stage, longest) if spread else None, cls="bar",
    )  # fmt: skip
    return el("figure", drawing, caption, cls="gpu")


def _pieces(parts: Sequence[tuple[str, int]], rank: RankPlan, longest: int) -> list[Html]:
    out, at = [block("ground", 0, rank.total_bytes / longest, _TOP, _HEIGHT)], 0
    for part, size in parts:
        tip = f"{PARTS[part].words}: {human(size)}{_basis(part, rank)}"
        out.append(block(f"fill {part.lower()}", at / longest, size / longest, _TOP, _HEIGHT, tip))
        if size / longest >= _LABEL_SHARE:
            middle = percent((at + size / 2) / longest)
            text = f"{part} {human(size)}"
            out.append(el("text", text, x=middle, y=_TOP + _HEIGHT // 2 + 4, cls=f"on on-{part.lower()}"))
        at += size
    return out


def _marks(rank: RankPlan, used: int, limit: int, longest: int) -> Html:
    end = _TOP + _HEIGHT + 3
    over = block("over", limit / longest, (used - limit) / longest, _TOP, _HEIGHT) if used > limit else None
    budget = upright("budget", rank.requested_bytes / longest, 0, end) if rank.requested_bytes else None
    return join(over, budget, upright("limit", rank.total_bytes / longest, 0, end))


def _interval(stage: Stage | None, longest: int) -> Html | None:
    if stage is None:
        return None
    return span("interval", stage.peak_low / longest, stage.peak_high / longest, _TOP + _HEIGHT + 6)


def _basis(part: str, rank: RankPlan) -> str:
    terms = [rank.terms[name] for name in PART_TERMS.get(part, ()) if name in rank.terms]
    return "".join(f"\n{t.basis}, {human(t.low)} to {human(t.high)}" + (f": {t.why}" if t.why else "") for t in terms)


def _legend(plan: Plan, rows: Sequence[tuple[RankPlan, int]]) -> Html:
    """Every part with its size on each kind of GPU: what the bar is too narrow to say."""
    shown: dict[str, list[str]] = {}
    for rank, _ in rows:
        for part, size in sizes(rank, plan):
            if size > 0:
                shown.setdefault(part, []).append(human(size))
    items = [
        el("li", el("i", cls=f"chip {part.lower()}"), f"{PARTS[part].words} ", el("b", " | ".join(figures)))
        for part, figures in shown.items()
    ]
    lines = [el("li", el("i", cls="mark limit"), "the card's end")]
    if any(rank.requested_bytes for rank, _ in rows):
        lines.append(el("li", el("i", cls="mark budget"), "the engine's budget"))
    return el("ul", items, lines, cls="legend")
