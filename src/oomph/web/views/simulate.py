"""A load of requests on a plan: what holds, what breaks, and the charts that a script draws from the data in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from oomph.engines.registry import engine_of
from oomph.report.plan_lines import gpus_line
from oomph.report.simulate_text import LIMITS, describe_load, duration, error_lines, promise_words
from oomph.simulate.api import Held, Load, Simulation, Sweep, Target, breach
from oomph.simulate.result import Result
from oomph.simulate.setup import Setup
from oomph.web.markup import Html, el, join
from oomph.web.views.shared import section, soft, table, tiles

Rows = Sequence[tuple[int, Result]]  # (users, what they see)


def simulate_view(answer: Held | Simulation, sweep: Rows = ()) -> Html:
    """`sweep`: the same load with fewer and more users."""
    setup = answer.setup
    result = answer.result if isinstance(answer, Simulation) else answer.result or answer.beyond
    return el(
        "article",
        el("header", el("h1", setup.plan.model), soft(_where(setup)), soft(describe_load(answer.load)), cls="heading"),
        _verdict(answer),
        tiles(_figures(result)) if result else None,
        section("Over time", _over_time(result)) if result else None,
        section("Users against latency", _over_users(sweep)) if len(sweep) > 1 else None,
        section("In figures", _percentiles(result)) if result else None,
        section("Notes", el("ul", [el("li", f"{n[:1].upper()}{n[1:]}.") for n in setup.built.notes], cls="notes"))
        if setup.built.notes else None,
        soft(" ".join(error_lines(setup.built.error)[:3])) if setup.timed else None,
        cls="view simulate",
    )  # fmt: skip


def any_simulation_view(answer: Any) -> Html:
    """Whatever `oomph simulate` answers: a load, the most that are held, a sweep, or two releases of one of these."""
    if isinstance(answer, Held | Simulation):
        return simulate_view(answer)
    if isinstance(answer, Sweep):
        return _sweep_view(answer.setup, answer.load, answer.target, answer.rows)
    return join(any_simulation_view(answer.before), any_simulation_view(answer.after))


def _sweep_view(setup: Setup, load: Load, target: Target, rows: Rows) -> Html:
    held = [users for users, result in rows if not breach(result, target)]
    word = f"{max(held):,} USERS" if held else "NONE"
    cells = [
        (f"{users:,}", duration(r.ttft.p95), duration(r.tpot.p95), f"{r.output_tokens_per_second:,.0f}",
         f"{r.kv_peak:.0%}", f"{r.preemptions:,}", breach(r, target))
        for users, r in rows
    ]  # fmt: skip
    heads = ["#users", "#first token, P95", "#per token, P95", "#tokens/s", "#KV cache", "#preemptions", "breaks"]
    return el(
        "article",
        el("header", el("h1", setup.plan.model), soft(_where(setup)), soft(describe_load(load)), cls="heading"),
        _box(word, "fits" if held else "fails", f"of those tried are held ({promise_words(target)})", ""),
        section("Users against latency", _over_users(rows)),
        section("In figures", table(heads, cells, sorts=True, label="The sweep")),
        soft(" ".join(error_lines(setup.built.error)[:3])) if setup.timed else None,
        cls="view simulate",
    )  # fmt: skip


def _where(setup: Setup) -> str:
    d = setup.deployment
    return f"{engine_of(d).title} {d.engine.version} on {gpus_line(d.gpus)}"


def _verdict(answer: Held | Simulation) -> Html:
    if isinstance(answer, Held):
        word = f"{answer.users:,} USERS" if answer.users else "NOT ONE USER"
        kind = "fits" if answer.users else "fails"
        says = f"asking without a pause ({promise_words(answer.target)})"
        more = f"The next one breaks it: {answer.breaks}." if answer.breaks else "More were not tried."
        if answer.high and answer.low != answer.high:
            unsure = answer.setup.built.error.nine_of_ten
            more += f" If every step takes {unsure:g} times longer or shorter: {answer.low:,} to {answer.high:,} users."
        return _box(word, kind, says, more)
    broken = breach(answer.result, answer.target) if answer.target else ""
    r = answer.result
    users = f"{answer.load.arrivals.users:,} users"
    if r.rejected:
        return _box("REFUSED", "fails", f"{r.rejected:,} requests: {r.rejection}", "")
    if not broken:
        return _box("HELD", "fits", f"{users} ({promise_words(answer.target)})" if answer.target else users, "")
    held = f"It would hold {answer.held_users:,} users." if answer.held_users > 0 else "It would not hold one user."
    return _box("TOO MUCH", "fails", f"for {users}: {broken}", held if answer.held_users >= 0 else "")


def _box(word: str, kind: str, says: str, more: str) -> Html:
    return el("div", el("p", el("strong", word), " ", says, cls="says"), el("p", more) if more else None,
              cls=f"verdict {kind}")  # fmt: skip


def _figures(r: Result) -> list[tuple[str, str]]:
    rows = [(f"{r.output_tokens_per_second:,.0f}", "tokens out per second")]
    if r.tpot.p50:
        rows.append((f"{1 / r.tpot.p50:,.3g}", "tokens per second to each user"))
    rows += [
        (duration(r.ttft.p95), "to the first token, P95"),
        (f"{r.mean_running:.1f}", f"running on average, {r.max_running:,} at most"),
        (f"{r.kv_peak:.0%}", "of the KV cache in use at most"),
        (f"{r.preemptions:,}", "preemptions"),
    ]  # fmt: skip
    share = sum(r.binds.values())
    if share >= 0.005:
        main = max(r.binds, key=lambda k: r.binds[k])
        rows.append((f"{share:.0%}", f"of the time somebody waited, mostly for {LIMITS.get(main, main)}"))
    return rows


def plot(title: str, across: str, xs: Sequence[float], series: Sequence[dict[str, Any]], *, marks: str = "") -> Html:
    """A chart's data in its element: web/static/plots.js draws it. The table behind it is for readers of text."""
    data = {"title": title, "x": across, "xs": list(xs), "series": list(series), "marks": marks}
    label = f"{title}: " + "; ".join(f"{s['label']} up to {max(s['ys'], default=0):,.4g}" for s in series)
    canvas = el("div", cls="plot", data_plot=msgspec.json.encode(data).decode(), role="img", aria_label=label)
    return el("figure", el("figcaption", title), canvas, cls="chart")


def _over_time(r: Result) -> list[Html]:
    if len(r.timeline) < 2:
        return []
    xs = [p.seconds for p in r.timeline]
    total, preempted = 0, []
    for p in r.timeline:
        total += p.preemptions
        preempted.append(total)
    charts = [
        plot("Requests", "seconds", xs, [
            {"label": "running", "colour": "weights", "ys": [p.running for p in r.timeline]},
            {"label": "waiting", "colour": "activations", "ys": [p.waiting for p in r.timeline]}]),
        plot("KV cache in use", "seconds", xs, [
            {"label": "in use", "colour": "kv", "unit": "%", "top": 100, "ys": [100 * p.used for p in r.timeline]}]),
        plot("Preemptions so far", "seconds", xs, [{"label": "preemptions", "colour": "bad", "ys": preempted}]),
    ]  # fmt: skip
    return charts if total else charts[:2]


def _over_users(sweep: Rows) -> list[Html]:
    xs = [float(users) for users, _ in sweep]
    return [
        plot("Time to the first token, P95", "users", xs, [
            {"label": "first token", "colour": "activations", "unit": " s", "ys": [r.ttft.p95 for _, r in sweep]}]),
        plot("Time per token, P95", "users", xs, [
            {"label": "per token", "colour": "context", "unit": " ms", "ys": [1000 * r.tpot.p95 for _, r in sweep]}]),
        plot("Tokens per second, all users together", "users", xs, [
            {"label": "tokens/s", "colour": "weights", "ys": [r.output_tokens_per_second for _, r in sweep]}]),
    ]  # fmt: skip


def _percentiles(r: Result) -> Html:
    rows = [
        (name, duration(s.p50), duration(s.p95), duration(s.p99))
        for name, s in (("first token", r.ttft), ("per token", r.tpot), ("in the queue", r.queue),
                        ("whole answer", r.latency))
    ]  # fmt: skip
    return table(["", "#P50", "#P95", "#P99"], rows, label="Latency")
