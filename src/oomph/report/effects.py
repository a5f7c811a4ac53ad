"""What each change does, as lines under the heads of their effects; settings of one flag that end alike are one."""

from msgspec.structs import replace

from oomph.advice.what_if import Row
from oomph.report.answer import Effects
from oomph.report.terminal import Style, clean, wrap
from oomph.units import human

_HEADS = {
    "fixes": "Makes it fit",
    "helps": "Helps",
    "nothing": "Does nothing here",
    "worse": "Makes it worse",
    "refused": "Refused",
}


def effect_lines(effects: Effects, style: Style, width: int) -> list[str]:
    rows = _merged(effects.rows)
    widest = max((len(row.label) for row in rows if len(row.label) <= 34), default=0)
    lines = [style.dim(f"{'tokens':>17}" if effects.fits else f"{'room':>11}{'tokens':>11}")]
    head = ""
    for row in rows:
        if row.effect != head:
            head = row.effect
            lines += [*([""] if row is not rows[0] else []), f"  {style.bold(_HEADS[head])}"]
        lines += _line(row, effects.fits, width, widest)
    return lines


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
    return [
        *wrap(row.label, width, head[: len(column) + 2], " " * (len(column) + 4)),
        *(wrap(why, width, " " * (len(column) + 4)) if why else []),
    ]


def _signed(n: int) -> str:
    return f"{'+' if n >= 0 else '-'}{human(abs(n))}"
