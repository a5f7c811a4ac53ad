"""A plan as people see it: the verdict with its margin, the memory, the start-up, why, what to do, the basis."""

from __future__ import annotations

import io

from oomph.commands import to_shell, without_secrets
from oomph.engines.registry import engine_of
from oomph.ir import STAGE_WORDS, Margin, Plan
from oomph.report.plan_lines import gpus_line
from oomph.report.terminal import Style
from oomph.report.text import activation_words, engine_line, verdict_line
from oomph.report.verdict_text import settling_words
from oomph.units import gib, human
from oomph.web.markup import Html, el
from oomph.web.views.advice import advice_parts
from oomph.web.views.bars import memory_bars
from oomph.web.views.ledger import ledger_parts, notes
from oomph.web.views.scale import block, percent, picture, span, upright
from oomph.web.views.shared import command_block, section, tiles
from oomph.web.views.timeline import timeline


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
        section("Basis", ledger_parts(plan)) if plan.ranks else None,
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
