"""An explanation as people see it: what happened, where, why, what fixes it, and the lines of the log that say so."""

from collections.abc import Sequence

from oomph.doctor.explanation import Explanation
from oomph.doctor.reading.meanings import UNFINISHED
from oomph.doctor.runs import Run
from oomph.engines.registry import engine_named
from oomph.ir import STAGES, Judged
from oomph.report.screens.explain import STAGE_WORDS
from oomph.units import GIB, gib, human
from oomph.web.markup import Html, el, join
from oomph.web.views.advice import after_words, apply_change
from oomph.web.views.shared import apply_button, block, command_block, details, picture, section, soft, stage_words

AROUND = 2  # lines of the log that are shown on both sides of one that says something
_MOST = 8
# Terms of a log's ledger -> the parts whose colour they have.
_PARTS = {
    "others": "others", "context": "context", "non_torch": "context", "weights": "weights", "kv": "kv",
    "profiling kv": "kv", "profiling_kv": "kv", "activations": "activations", "graphs": "graphs", "reserved": "buffers",
}  # fmt: skip


def explain_view(run: Run) -> Html:
    result = run.explanation
    return el(
        "article",
        heading(result),
        _verdict(result),
        _strip(result) if result.failed else None,
        section("Why", el("p", result.cause.text),
                el("p", "Inferred: ", result.inferred_reason) if result.inferred_reason else None,
                el("p", "What would settle it: ", result.settle) if result.settle else None, name="why"),
        section("Memory, as the log tells it", _ledger(result)),
        section("What works" if any(r.verified for r in result.remedies) else "What to try", _remedies(result),
                name="works"),
        section("What does not help", _rejected(result), name="useless"),
        section("The log", _excerpt(run), name="evidence"),
        section("What else it could be", _candidates(result)) if not result.cause.sure else None,
        section("Notes", el("ul", [el("li", note) for note in result.notes], cls="notes")) if result.notes else None,
        cls="view explain",
        data_cause=result.cause.id,
        data_stage=result.stage or "",
    )  # fmt: skip


def heading(result: Explanation) -> Html:
    engine = f"{engine_named(result.engine.name).title} {result.engine.version}".strip() if result.engine.name else ""
    card = f"{result.total_bytes / GIB:.2f} GiB per GPU" if result.total_bytes else ""
    words = ", ".join(part for part in (engine, card) if part)
    return el("header", el("h1", result.model or "A log"), soft(words) if words else None, cls="heading")


def short_words(result: Explanation) -> str:
    """A run's name on its tab."""
    if result.failed:
        return f"failed {STAGE_WORDS.get(result.stage or '', '')}".strip()
    return "cannot tell" if result.failed is None else "did not fail"


def _verdict(result: Explanation) -> Html:
    open_end = result.settle == UNFINISHED
    cut = not result.failed and (open_end or bool(result.inferred_reason)) and result.cause.id == "none"
    if result.failed:
        word, kind = "FAILED", "fails"
    elif cut or open_end:
        word, kind = "NO ERROR IN THIS LOG", "close"
    elif result.failed is None:
        word, kind = "CANNOT TELL", "close"
    else:
        word, kind = "DID NOT FAIL", "fits"
    where = STAGE_WORDS.get(result.stage or "", "") if result.failed else ""
    sure = "" if result.cause.sure else "probably: "
    title = "" if cut else f"{sure}{result.cause.title}"
    says = el("p", el("strong", word), " ", f"{where}. " if where else "", title[:1].upper() + title[1:], cls="says")
    return el("div", says, cls=f"verdict {kind}", data_cause=result.cause.id, data_stage=result.stage or "")


def _strip(result: Explanation) -> Html | None:
    """The stages in their order, up to the one in which it died."""
    order = [stage for stage in STAGES if stage not in ("host_ram", "other")]
    if result.stage not in order:
        return None
    at = order.index(result.stage)
    rows = [
        el("li", stage_words(stage), el("span", ": died here") if i == at else None,
           cls="done" if i < at else "died" if i == at else "")
        for i, stage in enumerate(order)
    ]  # fmt: skip
    return el("ol", rows, cls="strip", aria_label="The stages of the start-up")


def _ledger(result: Explanation) -> Html | None:
    if not result.ledger:
        return None
    rows = [(entry.term.replace("_", " "), entry.bytes, entry.basis) for entry in result.ledger]
    if result.unaccounted_bytes and abs(result.unaccounted_bytes) > GIB // 20:
        rows.append(("unaccounted", result.unaccounted_bytes, "what the lines do not say"))
    known = sum(max(0, size) for _, size, _ in rows)
    if result.total_bytes - known > GIB // 20:
        rows.append(("not told", result.total_bytes - known, "no line of this log says what it is"))
    whole = max(result.total_bytes, known, 1)
    pieces, at = [block("ground", 0, 1, 0, 26)], 0
    for term, size, basis in rows:
        if size > 0 and term != "free":
            part = _PARTS.get(term, "unknown")
            pieces.append(block(f"fill {part}", at / whole, size / whole, 0, 26, f"{term}: {human(size)}, {basis}"))
            at += size
    words = ", ".join(f"{term} {human(size)}" for term, size, _ in rows)
    items = [
        el("li", el("i", cls=f"chip {_PARTS.get(term, 'free' if term == 'free' else 'unknown')}"), f"{term} ",
           el("b", human(size)), el("span", f" {basis}", cls="soft"))
        for term, size, basis in rows
    ]  # fmt: skip
    of = el("p", f"{gib(whole)} in all", cls="soft")
    return join(picture(26, words, pieces, cls="bar"), el("ul", items, cls="legend"), of)


def _remedies(result: Explanation) -> Html | None:
    cards = [_remedy(one, result) for one in result.remedies]
    if not cards:
        return None
    rest = details(f"{len(cards) - _MOST} more", el("ul", cards[_MOST:], cls="changes")) if len(cards) > _MOST else None
    return join(el("ul", cards[:_MOST], cls="changes"), rest)


def _remedy(remedy: Judged, result: Explanation) -> Html:
    before = el("span", "failed" if result.failed else "as it is", cls="before")
    is_planned = remedy.effect != "unplanned"
    outcome = after_words(remedy) if is_planned else "not planned"
    kind = remedy.outcome or "unplanned"
    gain = el("span", f"+{human(remedy.gain_bytes)}", cls="gain") if remedy.gain_bytes > 0 else None
    label = remedy.change.label
    return el(
        "li", el("code", label, cls="label"),
        apply_change(remedy, result.engine.name) if is_planned else apply_button(remedy.command, data_label=label),
        el("p", before, el("span", " → ", aria_label="becomes"), el("b", outcome, cls=kind), " ", gain),
        soft(remedy.costs[:1].upper() + remedy.costs[1:]) if remedy.costs else None,
        details("the command", command_block(remedy.command)) if remedy.command else None,
        cls="change",
    )  # fmt: skip


def _rejected(result: Explanation) -> Html | None:
    rows = [el("li", el("code", r.change.label), ": ", r.why) for r in result.rejected]
    return el("ul", rows, cls="reasons") if rows else None


def _candidates(result: Explanation) -> Html | None:
    rows = [el("li", el("b", c.title), " ", c.text) for c in result.candidates]
    return el("ul", rows, cls="reasons") if rows else None


def _excerpt(run: Run) -> Html | None:
    """The lines that say it, marked, with a few around them."""
    evidence = {line.line: line.text for line in run.explanation.evidence}
    if not evidence:
        return None
    near = {n for line in evidence for n in range(line - AROUND, line + AROUND + 1)}
    lines = {line.number: line.text for line in run.log.lines if line.number in near} | {
        n: text for n, text in evidence.items() if n not in {line.number for line in run.log.lines}
    }
    rows: list[Html] = []
    last = 0
    for number in sorted(lines):
        if last and number > last + 1:
            rows.append(el("span", "⋮", cls="gap"))
        text = join(el("span", f"{number:>6}", cls="number"), " ", lines[number][:2000].rstrip())
        rows.append(el("mark", text) if number in evidence else el("span", text))
        last = number
    return el("pre", rows, cls="log", tabindex=0, aria_label="Lines of the log")


def run_names(runs: Sequence[Run]) -> list[str]:
    return [f"Run {i}: {short_words(run.explanation)}" for i, run in enumerate(runs, 1)]
