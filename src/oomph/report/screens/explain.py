"""An explanation for people: one screen, the verdict first, then why, then what to do, as commands."""

import re
import textwrap

from oomph.doctor.explanation import Explanation
from oomph.doctor.reading.meanings import UNFINISHED
from oomph.engines.registry import engine_named
from oomph.ir import Judged, timeline
from oomph.report.terminal import Style
from oomph.text.tables import grouped
from oomph.units import GIB, gib, human

# Where a run died, in the words of every report.
STAGE_WORDS: dict[str, str] = {**{name: when for name, (_, when) in timeline.STAGE_WORDS.items()}, "other": ""}
MARGIN = 11
SHOWN = 6  # remedies and rejected advice on the one screen; --all shows the rest


def render(explanation: Explanation, style: Style, *, width: int = 100, everything: bool = False) -> str:
    return text(explanation, width=width, everything=everything)


def text(explanation: Explanation, *, width: int = 100, everything: bool = False) -> str:
    cause = explanation.cause
    others = explanation.candidates if not cause.sure or everything else ()
    parts = [
        "",
        "  " + _head(explanation),
        "",
        *_wrap(_verdict(explanation), width, "  ", "  "),
        "",
        *_wrap(cause.text, width, f"  {'Why':<{MARGIN - 2}}", " " * MARGIN),
        *_block("Inferred", explanation.inferred_reason, width),
        *_ledger(explanation, width),
        *_remedies(explanation, width, everything),
        *_rejected(explanation, width, everything),
        *_block("Or", "; ".join(f"{c.title} ({c.id})" for c in others), width),
        *_block("Settle", explanation.settle, width),
        *_lines(explanation, width),
        *_block("Rule", cause.id if cause.tier not in ("", "remark") else "", width),
        *(line for note in explanation.notes for line in _block("Note", note, width)),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _head(explanation: Explanation) -> str:
    engine = f"{engine_named(explanation.engine.name).title} {explanation.engine.version}".strip()
    size = f"{explanation.total_bytes / GIB:.2f} GiB per GPU" if explanation.total_bytes else ""
    card = ", ".join(words for words in (explanation.gpu, size) if words)
    return "   ".join(part for part in (explanation.model, engine, card) if part)


def _verdict(explanation: Explanation) -> str:
    open_end = explanation.settle == UNFINISHED
    if not explanation.failed and explanation.cause.id == "none" and (explanation.inferred_reason or open_end):
        return f"NO ERROR IN THIS LOG   {_likely(explanation)}"
    if open_end:
        return f"NO ERROR IN THIS LOG   {explanation.cause.title}"
    if explanation.failed is None:
        about = f"   {explanation.cause.title}" if explanation.cause.tier else ""
        return f"CANNOT TELL whether it failed{about}"
    if not explanation.failed:
        return f"DID NOT FAIL   {explanation.cause.title}"
    where = STAGE_WORDS.get(explanation.stage or "", "")
    if explanation.cause.tier in ("", "remark"):
        return f"FAILED {where}   {explanation.cause.title}".replace("  ", " ", 1)
    sure = "" if explanation.cause.sure else "probably: "
    return f"FAILED {where}   {sure}{explanation.cause.title}".replace("  ", " ", 1)


def _likely(explanation: Explanation) -> str:
    where = STAGE_WORDS.get(explanation.inferred_stage or explanation.stage or "", "")
    if explanation.inferred_stage:
        return f"if the run died, most likely {where}"
    return f"it ends {where}" if where else "and nothing in it points to one"


def _wrap(body: str, width: int, first: str, rest: str) -> list[str]:
    return textwrap.wrap(body, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False) or [first]


def _block(name: str, body: str, width: int) -> list[str]:
    """A name in the margin and what is said under it; nothing where nothing is said."""
    return _wrap(body, width, f"  {name:<{MARGIN - 2}}", " " * MARGIN) if body else []


def _ledger(explanation: Explanation, width: int) -> list[str]:
    if not explanation.ledger:
        return []
    terms = [f"{entry.term.replace('_', ' ')} {gib(entry.bytes).removesuffix(' GiB')}" for entry in explanation.ledger]
    if explanation.unaccounted_bytes and abs(explanation.unaccounted_bytes) > GIB // 20:
        terms.append(f"unaccounted {gib(explanation.unaccounted_bytes).removesuffix(' GiB')}")
    whole = sum(entry.bytes for entry in explanation.ledger) + (explanation.unaccounted_bytes or 0)
    total = f" = {gib(whole)}" if explanation.failed and explanation.unaccounted_bytes is not None else " GiB"
    return _block("Memory", " + ".join(terms) + total, width)


def _remedies(explanation: Explanation, width: int, everything: bool) -> list[str]:
    lines: list[str] = []
    shown = explanation.remedies if everything else explanation.remedies[:SHOWN]
    for i, remedy in enumerate(shown):
        lines += _block(
            "Works" if i == 0 and any(r.verified for r in shown) else "Try" if i == 0 else "", _said(remedy), width
        )
    best = next((r for r in shown if r.command), None)
    if best:
        lines += ["", *command_lines(best.command, width - MARGIN), ""]
    return lines


def command_lines(command: str, width: int) -> list[str]:
    """A command over several lines, ready to paste: flags stay with their values."""
    pieces = re.split(r" (?=--?[A-Za-z])", command)
    rows = [pieces[0]]
    for piece in pieces[1:]:
        if len(rows[-1]) + len(piece) + 3 <= width:
            rows[-1] += f" {piece}"
        else:
            rows.append(f"  {piece}")
    return [" " * MARGIN + row + (" \\" if i < len(rows) - 1 else "") for i, row in enumerate(rows)]


def _said(remedy: Judged) -> str:
    parts = [remedy.change.label]
    if remedy.verified:
        parts.append("planned: fits" + (f", {human(remedy.gain_bytes)} gained" if remedy.gain_bytes > 0 else ""))
    if remedy.costs:
        parts.append(remedy.costs)
    return "   ".join(parts)


def _rejected(explanation: Explanation, width: int, everything: bool) -> list[str]:
    by_reason = grouped(explanation.rejected, lambda rejected: rejected.why)
    lines: list[str] = []
    for i, (why, alike) in enumerate(list(by_reason.items())[: None if everything else SHOWN]):
        lines += _block("Useless" if i == 0 else "", f"{', '.join(one.change.label for one in alike)}: {why}", width)
    return lines


def _lines(explanation: Explanation, width: int) -> list[str]:
    lines: list[str] = []
    for i, evidence in enumerate(explanation.evidence[:4]):
        room = max(20, width - MARGIN - 8)
        shown = evidence.text if len(evidence.text) <= room else evidence.text[: room - 3] + "..."
        lines.append(f"  {'Log lines' if i == 0 else '':<{MARGIN - 2}}{evidence.line:>5}  {shown}")
    return ["", *lines] if lines else []
