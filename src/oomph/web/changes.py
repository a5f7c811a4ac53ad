"""A change that was planned, as a card with a button that applies it."""

from oomph.advice.what_if import Row
from oomph.ir import Judged
from oomph.report.answer import Effects
from oomph.report.screens.advice import OUTCOMES
from oomph.units import MIB
from oomph.web.cases import gpu_words
from oomph.web.elements import apply_button, command_block, copy_button, details, section, signed, soft, table
from oomph.web.markup import Html, el

_KINDS = {
    "flag": "a restart", "environment": "a variable", "host": "on the host", "layout": "another layout",
    "release": "another release", "checkpoint": "another checkpoint", "hardware": "other GPUs",
    "offload": "weights in host memory",
}  # fmt: skip


def change(judged: Judged, before: str, engine: str) -> Html:
    """`before`: how it is without it."""
    gain = el("span", signed(judged.gain_bytes), cls="gain") if judged.gain_bytes else None
    kind = "unplanned" if judged.effect == "unplanned" else judged.outcome or "refused"
    return el(
        "li",
        el("code", judged.change.label, cls="label"),
        apply_change(judged, engine),
        el("p", el("span", before, cls="before"), el("span", " → ", aria_label="becomes"),
           el("b", after_words(judged), cls=kind), " ", gain),
        soft(cost_words(judged)),
        details("the command", command_block(judged.command)) if judged.command else None,
        cls="change",
    )  # fmt: skip


def best_change(judged: Judged, title: str, engine: str) -> Html:
    """The one to take first, in the card of the verdict."""
    words = [
        el("b", f"{title}: "),
        el("code", judged.change.label),
        f": {after_words(judged)}. {cost_words(judged)}.",
    ]
    buttons = (apply_change(judged, engine), " ", copy_button(judged.command))
    shown = details("the command", command_block(judged.command))
    return el("div", el("p", words), el("p", *buttons, cls="meant"), shown, cls="best")


def apply_change(judged: Judged, engine: str) -> Html | None:
    """A button for a change that may need another release or other GPUs beside its command."""
    change = judged.change
    return apply_button(
        judged.command,
        data_label=change.label,
        data_request=f"{change.engine or engine}=={change.version}" if change.version and engine else None,
        data_gpu=gpu_words(change.gpus, "") or None,
    )


def after_words(judged: Judged) -> str:
    if judged.outcome is None:
        return "not planned" if judged.effect == "unplanned" else "refused"
    tokens = f", {judged.tokens:,} tokens, {judged.concurrency:.2f} at once" if judged.tokens else ""
    return f"{OUTCOMES[judged.outcome]}{tokens if judged.outcome != 'fails' else ''}"


def cost_words(judged: Judged) -> str:
    parts = dict.fromkeys((judged.change.cost, judged.why))
    return ". ".join(part[:1].upper() + part[1:] for part in parts if part) or _KINDS[judged.change.kind]


_EFFECTS = {
    "fixes": "fixes it", "helps": "helps", "nothing": "does nothing", "worse": "makes it worse", "refused": "refused"
}  # fmt: skip


# What a change is about: the flags first, they cost nothing.
_ABOUT = {"checkpoint": "Another download", "hardware": "Other hardware"}
_FLAGS = "Flags and settings"
_LITTLE = 64 * MIB
NEXT_TO_NOTHING = "What gives next to nothing"
_NO_USE = ("nothing", "worse", "refused")


def effects_tables(effects: Effects) -> list[Html | None]:
    """A table for what costs nothing, one for other downloads, one for other hardware; each with its buttons. What is
    of no use stands below."""
    useful = [row for row in effects.rows if row.effect not in _NO_USE and not is_little(row.judged)]
    little = [row for row in effects.rows if row.effect not in _NO_USE and is_little(row.judged)]
    rest = [row for row in effects.rows if row.effect in _NO_USE]
    groups = [
        section(title, _effects(rows, effects, title), name="effects")
        for title in (_FLAGS, *_ABOUT.values())
        if (rows := [row for row in useful if _ABOUT.get(row.judged.change.kind, _FLAGS) == title])
    ]
    folded = [
        details(f"{title}: {len(rows)}", _effects(rows, effects, title))
        for title, rows in ((NEXT_TO_NOTHING, little), ("What does not help", rest))
        if rows
    ]
    return [*groups, section("", folded, name="useless")]


def is_little(judged: Judged) -> bool:
    """It helps, by less than anybody would restart for."""
    return judged.effect == "helps" and 0 < judged.gain_bytes < _LITTLE


def _effects(rows: list[Row], effects: Effects, label: str) -> Html:
    gain = "#KV memory" if effects.fits else "#room where it dies"
    heads = ["change", "effect", gain, "#tokens", "#at once", "then", "cost or reason", ""]
    return table(heads, [_row(row, effects.engine) for row in rows], sorts=True, label=label)


def _row(row: Row, engine: str) -> tuple[object, ...]:
    j = row.judged
    order = list(_EFFECTS)
    then = OUTCOMES[j.outcome] if j.outcome else "refused"
    return (
        (
            el("span", el("code", row.label), el("span", " *", title="guides advise it") if row.advised else None),
            row.label,
        ),
        (el("b", _EFFECTS[row.effect], cls=f"effect {row.effect}"), order.index(row.effect)),
        (signed(j.gain_bytes) if j.gain_bytes else "", j.gain_bytes),
        (f"{j.tokens:,}" if j.tokens else "", j.tokens),
        (f"{j.concurrency:.2f}" if j.tokens else "", j.concurrency),
        (el("span", then, cls=f"effect {j.outcome or 'refused'}"), then),
        (el("div", cost_words(j), cls="reason"), cost_words(j)),
        (apply_change(j, engine) or "", 0),
    )
