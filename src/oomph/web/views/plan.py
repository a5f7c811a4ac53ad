"""A plan as people see it: the verdict with its margin, the memory, the start-up, why, what to do, the basis."""

import io
from collections import Counter

from oomph.commands import to_shell, without_secrets
from oomph.engines.registry import engine_of
from oomph.ir import STAGE_WORDS, TERM_WORDS, Margin, Plan, Term
from oomph.ir.roles import role_words
from oomph.report.screens.bars import alike
from oomph.report.screens.plan import KINDS, activation_words, engine_line, verdict_line
from oomph.report.screens.plan_lines import gpus_line, settling_words
from oomph.report.terminal import Style
from oomph.units import gib, human
from oomph.web.markup import Html, el, join
from oomph.web.views.advice import advice_parts
from oomph.web.views.shared import (
    block,
    command_block,
    details,
    memory_bars,
    percent,
    picture,
    section,
    soft,
    span,
    stage_words,
    table,
    tiles,
    timeline,
    upright,
)


def plan_view(plan: Plan, extra: tuple[tuple[str, str], ...] = ()) -> Html:
    """`extra`: further figures for the tiles."""
    return el(
        "article",
        heading(plan),
        verdict(plan),
        command_block(to_shell(without_secrets(plan.deployment))),
        section("Memory", memory_bars(plan)) if plan.ranks else None,
        tiles([*figures(plan), *extra]),
        *advice_parts(plan),
        section("Start-up", timeline(plan)) if plan.ranks and plan.ranks[0].stages else None,
        section("Basis", join(_cache(plan), _terms(plan), _settings(plan))) if plan.ranks else None,
        notes(plan),
        cls="view plan",
        data_outcome=plan.verdict.outcome,
    )


def heading(plan: Plan) -> Html:
    return el(
        "header", el("h1", plan.model),
        el("p", engine_line(plan), " on ", gpus_line(plan.deployment.gpus) or "no GPU", cls="soft"), cls="heading",
    )  # fmt: skip


def verdict(plan: Plan) -> Html:
    word, _, rest = verdict_line(plan, Style(io.StringIO())).partition("   ")
    message = plan.verdict.message if plan.verdict.stage != "other" else ""
    settling = settling_words(plan.verdict)
    return el(
        "div",
        el("p", el("strong", word), " ", rest, cls="says"),
        margin(plan),
        el("p", settling) if settling else None,
        el("pre", message, cls="message", tabindex=0) if message else None,
        cls=f"verdict {'at_risk' if plan.fits and runs_on_host(plan) else plan.verdict.outcome}",
        data_stage=plan.verdict.stage or "",
        data_outcome=plan.verdict.outcome,
    )


def runs_on_host(plan: Plan) -> bool:
    """Layers that are placed one by one: some of them, or their experts, are on the CPU."""
    resolved = plan.resolved
    if engine_of(plan.deployment).layout != "placed" or "offloaded" not in resolved:
        return False
    return bool(resolved["offloaded"] < resolved["layers"] or resolved["host"]["parts"].get("experts"))


def margin(plan: Plan) -> Html | None:
    """How much room is left at the stage that decides, at both ends of the interval."""
    room = plan.verdict.margin
    if room is None or not plan.ranks:
        return None
    stage = plan.verdict.stage or plan.verdict.first_to_break
    where = STAGE_WORDS[stage][0] if stage in STAGE_WORDS else "the tightest stage"
    words = f"Room at {where}: {_signed(room.expected)}"
    if room.low != room.high:
        words += f", between {_signed(room.low)} and {_signed(room.high)}"
    return el("div", _gauge(room, words), el("span", words), cls="margin")


def _signed(size: int) -> str:
    return f"−{gib(-size)}" if size < 0 else gib(size)


def _gauge(room: Margin, words: str) -> Html:
    reach = max(abs(room.low), abs(room.high), 1) * 1.15

    def place(size: int) -> float:
        return 0.5 + size / reach / 2

    return picture(
        22, words, block("short", 0, 0.5, 9, 4), block("left", 0.5, 0.5, 9, 4), upright("zero", 0.5, 2, 20),
        span("interval", place(room.low), place(room.high), 11, 5),
        el("circle", cls="expected", cx=percent(place(room.expected)), cy=11, r=5), cls="gauge",
    )  # fmt: skip


def figures(plan: Plan) -> list[tuple[str, str]]:
    """(figure, what it is)"""
    if not plan.ranks:
        return []
    rows: list[tuple[str, str]] = []
    kv, first, engine = plan.kv, plan.ranks[0].terms, engine_of(plan.deployment)
    length = plan.resolved.get("max_model_len", 0)
    ranks = engine.layout == "ranks"
    if kv is not None and kv.logged_tokens:
        remark = f", as {engine.title} prints it" if plan.fits and ranks else "" if plan.fits else ": too few"
        rows.append((f"{kv.logged_tokens:,}", f"tokens of KV cache{remark}"))
        if length and ranks:
            rows.append((f"{kv.max_concurrency:.2f}", f"requests of {length:,} tokens at once"))
    if kv is not None and kv.need_bytes:
        rows.append((human(kv.need_bytes), "KV cache of one longest request"))
    rows.append((gib(first["weights"].bytes), "weights per GPU"))
    if "activation_peak" in first:
        rows.append((human(first["activation_peak"].bytes), f"activations, {activation_words(first)}"))
    return rows


# The basis of each term, on demand: bytes, interval, where the figure comes from, and what it is made of.

BASES = {
    "exact": "follows from the engine's source to the byte",
    "formula": "derived, with a small known error",
    "measured": "a constant that was measured",
    "assumed": "nobody knows it: the interval is wide",
    "given": "observed, and pinned",
}


def _terms(plan: Plan) -> Html:
    legend = soft("Where a figure comes from: ", "; ".join(f"{name}: {words}" for name, words in BASES.items()), ".")
    tables = []
    for rank, count in alike(plan):
        name = f"GPU {rank.rank}" + (f" to {rank.rank + count - 1}, each" if count > 1 else "")
        rows = [row for term in rank.terms.values() for row in _rows(term)]
        stages = [
            (stage_words(stage.name), human(stage.resident_bytes), human(stage.peak_bytes), stage.note)
            for stage in rank.stages
        ]  # fmt: skip
        tables.append(
            details(
                f"The basis of each term on {name}",
                table(["term", "#size", "#bytes", "basis", "#interval", "from"], rows, label=f"Terms of {name}"),
                table(["stage", "#stays", "#peak", "note"], stages, label=f"Stages of {name}"),
                legend,
            )
        )
    return join(*tables)


class _Part(tuple[object, ...]):
    cls = "inner"


def _rows(term: Term) -> list[tuple[object, ...]]:
    span = "" if term.low == term.bytes == term.high else f"{human(term.low)} to {human(term.high)}"
    name = TERM_WORDS.get(term.name, term.name.replace("_", " "))
    rows: list[tuple[object, ...]] = [(name, human(term.bytes), f"{term.bytes:,}", term.basis, span, term.why)]
    if len(term.parts) > 1:
        inside = sorted(term.parts.items(), key=lambda item: -abs(item[1]))
        rows += [_Part((role_words(k), human(v), f"{v:,}", "", "", "")) for k, v in inside if v]
    return rows


def _cache(plan: Plan) -> Html | None:
    kv = plan.kv
    if kv is None or not kv.groups:
        return None
    same = Counter((group.kind, group.layers, group.block_size, group.page_bytes) for group in kv.groups)
    rows = [
        (KINDS.get(kind, kind.replace("_", " ")), f"{n * layers:,}", f"{n}", f"{block:,}", human(page))
        for (kind, layers, block, page), n in same.items()
    ]
    unit = engine_of(plan.deployment).words.cache_unit
    sentence = f"{kv.num_blocks:,} {unit} of {human(kv.bytes_per_block)}." if kv.num_blocks else ""
    lines = el("pre", "\n".join(kv.log_lines), cls="log", tabindex=0) if kv.log_lines else None
    heads = ["kind", "#layers", "#groups", "#tokens per block", "#page"]
    return details(
        "The KV cache", el("p", sentence), table(heads, rows, label="KV cache groups"),
        join(el("p", f"What {engine_of(plan.deployment).title} will print:"), lines) if lines else None,
    )  # fmt: skip


def _settings(plan: Plan) -> Html | None:
    plain = {k: v for k, v in plan.resolved.items() if isinstance(v, str | int | float | bool) and v != ""}
    if not plain:
        return None
    rows = [(el("code", key), f"{value:,}" if type(value) is int else str(value)) for key, value in plain.items()]
    return details("The settings that the engine ends up with", table(["setting", "value"], rows, label="Settings"))


def notes(plan: Plan) -> Html | None:
    lines = [*plan.warnings, *plan.assumptions]
    return section("Notes", el("ul", [el("li", note) for note in lines], cls="notes")) if lines else None
