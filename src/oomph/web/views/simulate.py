"""A load of requests on a plan: what holds, what breaks, and the charts that a script draws from the data in them."""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from oomph.engines.registry import engine_of
from oomph.report.screens.plan_lines import gpus_line
from oomph.report.screens.simulate import LIMITS, describe_load, duration, error_text, promise_words
from oomph.simulate.api import Held, Load, Simulation, Sweep, Target, breach
from oomph.simulate.build import Setup
from oomph.simulate.result import Result
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
        soft(error_text(setup.built.error)) if setup.timed else None,
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
    enough = [users for users, result in rows if not breach(result, target)]
    word = f"{max(enough):,} USERS" if enough else "NONE"
    cells = [
        (f"{users:,}", duration(result.ttft.p95), duration(result.tpot.p95), f"{result.output_tokens_per_second:,.0f}",
         f"{result.kv_peak:.0%}", f"{result.preemptions:,}", breach(result, target))
        for users, result in rows
    ]  # fmt: skip
    heads = ["#users", "#first token, P95", "#per token, P95", "#tokens/s", "#KV cache", "#preemptions", "breaks"]
    return el(
        "article",
        el("header", el("h1", setup.plan.model), soft(_where(setup)), soft(describe_load(load)), cls="heading"),
        _box(word, "fits" if enough else "fails", f"of those tried are held ({promise_words(target)})", ""),
        section("Users against latency", _over_users(rows)),
        section("In figures", table(heads, cells, sorts=True, label="The sweep")),
        soft(" ".join(error_text(setup.built.error)[:3])) if setup.timed else None,
        cls="view simulate",
    )  # fmt: skip


def _where(setup: Setup) -> str:
    deployment = setup.deployment
    return f"{engine_of(deployment).title} {deployment.engine.version} on {gpus_line(deployment.gpus)}"


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
    result = answer.result
    users = f"{answer.load.arrivals.users:,} users"
    if result.rejected:
        return _box("REFUSED", "fails", f"{result.rejected:,} requests: {result.rejection}", "")
    if not broken:
        return _box("HELD", "fits", f"{users} ({promise_words(answer.target)})" if answer.target else users, "")
    would_hold = (
        f"It would hold {answer.held_users:,} users." if answer.held_users > 0 else "It would not hold one user."
    )
    return _box("TOO MUCH", "fails", f"for {users}: {broken}", would_hold if answer.held_users >= 0 else "")


def _box(word: str, kind: str, says: str, more: str) -> Html:
    return el("div", el("p", el("strong", word), " ", says, cls="says"), el("p", more) if more else None,
              cls=f"verdict {kind}")  # fmt: skip


def _figures(result: Result) -> list[tuple[str, str]]:
    rows = [(f"{result.output_tokens_per_second:,.0f}", "tokens out per second")]
    if result.tpot.p50:
        rows.append((f"{1 / result.tpot.p50:,.3g}", "tokens per second to each user"))
    rows += [
        (duration(result.ttft.p95), "to the first token, P95"),
        (f"{result.mean_running:.1f}", f"running on average, {result.max_running:,} at most"),
        (f"{result.kv_peak:.0%}", "of the KV cache in use at most"),
        (f"{result.preemptions:,}", "preemptions"),
    ]  # fmt: skip
    share = sum(result.binds.values())
    if share >= 0.005:
        main = max(result.binds, key=lambda k: result.binds[k])
        rows.append((f"{share:.0%}", f"of the time somebody waited, mostly for {LIMITS.get(main, main)}"))
    return rows


def plot(title: str, across: str, xs: Sequence[float], series: Sequence[dict[str, Any]]) -> Html:
    """A chart's data in its element: web/static/plots.js draws it. The table behind it is for readers of text."""
    data = {"title": title, "x": across, "xs": list(xs), "series": list(series)}
    label = f"{title}: " + "; ".join(f"{one['label']} up to {max(one['ys'], default=0):,.4g}" for one in series)
    canvas = el("div", cls="plot", data_plot=msgspec.json.encode(data).decode(), role="img", aria_label=label)
    return el("figure", el("figcaption", title), canvas, cls="chart")


def line(label: str, colour: str, values: Iterable[float], **more: Any) -> dict[str, Any]:
    """One line of a chart. `colour` is the name of a part; `unit` and `top` may be said."""
    return {"label": label, "colour": colour, "ys": list(values), **more}


def _over_time(result: Result) -> list[Html]:
    points = result.timeline
    if len(points) < 2:
        return []
    xs = [point.seconds for point in points]
    preempted = list(accumulate(point.preemptions for point in points))
    running = line("running", "weights", (point.running for point in points))
    waiting = line("waiting", "activations", (point.waiting for point in points))
    used = line("in use", "kv", (100 * point.used for point in points), unit="%", top=100)
    charts = [
        plot("Requests", "seconds", xs, [running, waiting]),
        plot("KV cache in use", "seconds", xs, [used]),
        plot("Preemptions so far", "seconds", xs, [line("preemptions", "bad", preempted)]),
    ]
    return charts if preempted[-1] else charts[:2]


def _over_users(sweep: Rows) -> list[Html]:
    xs = [float(users) for users, _ in sweep]
    results = [result for _, result in sweep]
    first = line("first token", "activations", (result.ttft.p95 for result in results), unit=" s")
    later = line("per token", "context", (1000 * result.tpot.p95 for result in results), unit=" ms")
    speed = line("tokens/s", "weights", (result.output_tokens_per_second for result in results))
    return [
        plot("Time to the first token, P95", "users", xs, [first]),
        plot("Time per token, P95", "users", xs, [later]),
        plot("Tokens per second, all users together", "users", xs, [speed]),
    ]


def _percentiles(result: Result) -> Html:
    rows = [
        (name, duration(spread.p50), duration(spread.p95), duration(spread.p99))
        for name, spread in (("first token", result.ttft), ("per token", result.tpot), ("in the queue", result.queue),
                        ("whole answer", result.latency))
    ]  # fmt: skip
    return table(["", "#P50", "#P95", "#P99"], rows, label="Latency")
