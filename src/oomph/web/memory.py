"""Pictures of a plan's memory: the room that is left, the stages of the start, each GPU as a bar."""

from collections.abc import Sequence

from oomph.ir import Margin, Plan, RankPlan, Stage
from oomph.report.answer import Room, Shares
from oomph.report.bars import alike, sizes
from oomph.report.parts import PART_TERMS, PARTS
from oomph.units import gib, human
from oomph.web.elements import block, percent, picture, span, stage_words, upright
from oomph.web.markup import Html, el, join

# The start-up from top to bottom, each stage to scale: what stays, how high the peak goes, and where it dies.

_HEIGHT = 22


def timeline(plan: Plan) -> Html:
    rank = plan.ranks[min(plan.verdict.rank, len(plan.ranks) - 1)]
    longest = max(rank.total_bytes, *(max(s.peak_bytes, s.peak_high) for s in rank.stages), 1)
    names = [stage.name for stage in rank.stages]
    dies = names.index(plan.verdict.stage) if not plan.fits and plan.verdict.stage in names else len(names)
    rows = [_stage(stage, index - dies, rank, longest, plan) for index, stage in enumerate(rank.stages)]
    return join(_scrubber(rank, min(dies, len(names) - 1)), el("ol", rows, cls="timeline"))


def _scrubber(rank: RankPlan, at: int) -> Html:
    """A moment of the start, moved by hand: what is on the GPU then, in a sentence. A file has nobody who moves it."""
    slider = el("input", type="range", min=0, max=len(rank.stages) - 1, value=at)
    words = el("output", _moment(rank.stages[at], rank.total_bytes))
    return el("div", el("label", "Moment of the start", slider), words, cls="scrub")


def _moment(stage: Stage, total: int) -> str:
    left = total - stage.peak_bytes
    end = f"{human(left)} left" if left >= 0 else f"{human(-left)} too much"
    stays, peak = human(stage.resident_bytes), human(stage.peak_bytes)
    return f"{stage_words(stage.name)}: {stays} stay, the peak is {peak} of {human(total)}, {end}"


def _stage(stage: Stage, place: int, rank: RankPlan, longest: int, plan: Plan) -> Html:
    """`place`: 0 is the stage that kills; those behind it are never reached."""
    dies = place == 0
    over = stage.peak_bytes > rank.total_bytes
    tight = plan.fits and stage.name == plan.verdict.first_to_break
    note = _note(stage, plan) if dies else stage.note
    word = "dies here" if dies else "tightest" if tight else "not reached" if place > 0 else ""
    track = picture(
        _HEIGHT,
        f"{stage_words(stage.name)}: {human(stage.resident_bytes)} stay, the peak is {human(stage.peak_bytes)}",
        block("ground", 0, rank.total_bytes / longest, 5, 12),
        block("stays", 0, stage.resident_bytes / longest, 5, 12, f"stays: {human(stage.resident_bytes)}"),
        block("rises over" if dies or over else "rises", stage.resident_bytes / longest,
              max(0, stage.peak_bytes - stage.resident_bytes) / longest, 5, 12, f"peak: {human(stage.peak_bytes)}"),
        block("rises over", rank.total_bytes / longest, (stage.peak_bytes - rank.total_bytes) / longest, 5, 12)
        if over else None,
        upright("peak over" if dies or over else "peak", stage.peak_bytes / longest, 2, 20),
        span("interval", stage.peak_low / longest, stage.peak_high / longest, 11, 3) if stage.peak_low else None,
        upright("limit", rank.total_bytes / longest, 0, _HEIGHT),
        cls="track",
    )  # fmt: skip
    return el(
        "li", el("span", stage_words(stage.name), cls="stage"), track,
        el("span", human(stage.peak_bytes), cls="size"),
        el("span", el("b", word, cls="word") if word else None, " " if word and note else None, note, cls="note")
        if word or note else None,
        cls="dies" if dies else "later" if place > 0 else "", data_moment=_moment(stage, rank.total_bytes),
    )  # fmt: skip


def _note(stage: Stage, plan: Plan) -> str:
    short = f"{human(plan.verdict.short_bytes)} short"
    return f"{short}; {stage.note}" if stage.note else short


# The memory of each GPU as a bar to scale: at the peak that kills the start, or when the server is ready.

_LABEL_SHARE = 0.2  # of the width: less has no room for its name on a phone
_TOP, _BAR_HEIGHT = 4, 34


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
    spread = (
        f", between {human(stage.peak_low)} and {human(stage.peak_high)}"
        if stage is not None and stage.peak_high > stage.peak_low > 0 and not limited
        else ""
    )
    budget = f"; budget {gib(rank.requested_bytes)}" if rank.requested_bytes and not limited else ""
    over = el("b", f" {human(used - limit)} too much", cls="bad") if used > limit else None
    caption = el("figcaption", el("span", f"{name}  {rank.gpu}"), el("span", filled, spread, budget, over))
    drawing = picture(
        _BAR_HEIGHT + 14, f"{name}: {filled}{spread}", _pieces(parts, rank, longest),
        _marks(rank, used, limit, longest), _interval(stage, longest) if spread else None, cls="bar",
    )  # fmt: skip
    return el("figure", drawing, caption, cls="gpu")


def _pieces(parts: Sequence[tuple[str, int]], rank: RankPlan, longest: int) -> list[Html]:
    out, at = [block("ground", 0, rank.total_bytes / longest, _TOP, _BAR_HEIGHT)], 0
    for part, size in parts:
        tip = f"{PARTS[part].words}: {human(size)}{_basis(part, rank)}"
        out.append(block(f"fill {part.lower()}", at / longest, size / longest, _TOP, _BAR_HEIGHT, tip))
        if size / longest >= _LABEL_SHARE:
            middle = percent((at + size / 2) / longest)
            text = f"{part} {human(size)}"
            out.append(el("text", text, x=middle, y=_TOP + _BAR_HEIGHT // 2 + 4, cls=f"on on-{part.lower()}"))
        at += size
    return out


def _marks(rank: RankPlan, used: int, limit: int, longest: int) -> Html:
    end = _TOP + _BAR_HEIGHT + 3
    over = block("over", limit / longest, (used - limit) / longest, _TOP, _BAR_HEIGHT) if used > limit else None
    budget = upright("budget", rank.requested_bytes / longest, 0, end) if rank.requested_bytes else None
    return join(over, budget, upright("limit", rank.total_bytes / longest, 0, end))


def _interval(stage: Stage | None, longest: int) -> Html | None:
    if stage is None:
        return None
    return span("interval", stage.peak_low / longest, stage.peak_high / longest, _TOP + _BAR_HEIGHT + 6)


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


# Services beside each other on one card.

_SERVICES = ("count1", "count2", "count4", "count8", "kv")


def shares(block_: Shares) -> Html:
    return el("div", [_card(number, *card) for number, card in enumerate(block_.cards)], cls="bars")


def _card(number: int, total: int, parts: Sequence[tuple[str, int]]) -> Html:
    used = sum(size for _, size in parts)
    pieces, items, at = [block("ground", 0, 1, _TOP, _BAR_HEIGHT)], [], 0
    for place, (name, size) in enumerate(parts):
        colour = "others" if name == "others" else _SERVICES[place % len(_SERVICES)]
        pieces.append(block(f"fill {colour}", at / total, size / total, _TOP, _BAR_HEIGHT, f"{name}: {human(size)}"))
        items.append(el("li", el("i", cls=f"chip {colour}"), f"{name} ", el("b", human(size))))
        at += size
    words = f"GPU {number}: {human(used)} of {gib(total)}"
    drawing = picture(_BAR_HEIGHT + 14, words, pieces, cls="bar")
    return el("figure", drawing, el("figcaption", words), el("ul", items, cls="legend"), cls="gpu")


# How much room is left at the stage that decides, at both ends of the interval.


def gauge(room: Room) -> Html:
    margin = room.margin
    words = f"Room at {room.stage}: {_signed(margin.expected)}"
    if margin.low != margin.high:
        words += f", between {_signed(margin.low)} and {_signed(margin.high)}"
    return el("div", _scale(margin, words), el("span", words), cls="margin")


def _signed(size: int) -> str:
    return f"−{gib(-size)}" if size < 0 else gib(size)


def _scale(room: Margin, words: str) -> Html:
    reach = max(abs(room.low), abs(room.high), 1) * 1.15

    def place(size: int) -> float:
        return 0.5 + size / reach / 2

    return picture(
        22, words, block("short", 0, 0.5, 9, 4), block("left", 0.5, 0.5, 9, 4), upright("zero", 0.5, 2, 20),
        span("interval", place(room.low), place(room.high), 11, 5),
        el("circle", cls="expected", cx=percent(place(room.expected)), cy=11, r=5), cls="gauge",
    )  # fmt: skip
