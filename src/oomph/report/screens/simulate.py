"""A simulation for people: how many users, what stops the next one, and the picture of the KV cache over time."""

from collections.abc import Sequence
from typing import Any

from oomph.engines.registry import engine_of
from oomph.report.terminal import Style, columns, wrap
from oomph.simulate.accuracy import SpeedError
from oomph.simulate.api import Held, Load, Setup, Simulation, Sweep, Target, TwoReleases, breach
from oomph.simulate.result import Result
from oomph.text.tables import all_that_hold

LIMITS = {
    "blocks": "KV blocks",
    "max_num_seqs": "one of the max_num_seqs places",
    "max_num_batched_tokens": "room in the batch (max_num_batched_tokens)",
}
SHORT = {"blocks": "KV blocks", "max_num_seqs": "max_num_seqs", "max_num_batched_tokens": "max_num_batched_tokens"}
PEOPLE = 30  # seconds that a reader takes before the next question, for the number of people
_BARS = " ▁▂▃▄▅▆▇█"


def render(answer: Any, style: Style, *, width: int = 100, everything: bool = False) -> str:
    return "\n".join(lines(answer, style)) + "\n"


def lines(answer: Any, style: Style, picture: bool = True) -> list[str]:
    """`picture`: with the bars over time (a page draws them itself)."""
    if isinstance(answer, Held):
        return [*_head(answer.setup, answer.load, style), *_held(answer, style, picture), *_foot(answer.setup)]
    if isinstance(answer, Simulation):
        return [*_head(answer.setup, answer.load, style), *_run(answer, style, picture), *_foot(answer.setup)]
    if isinstance(answer, Sweep):
        head, foot = _head(answer.setup, answer.load, style), _foot(answer.setup)
        return [*head, *_sweep(answer.rows, answer.target, style), *foot]
    return _compare(answer, style, picture)


def _head(setup: Setup, load: Load, style: Style) -> list[str]:
    deployment = setup.deployment
    gpu = f"{len(deployment.gpus)} x {deployment.gpus[0].name}" if len(deployment.gpus) > 1 else deployment.gpus[0].name
    return [
        "",
        f"  {style.bold(deployment.model)}   {engine_of(deployment).title} {deployment.engine.version}   {gpu}",
        f"  {describe_load(load)}",
        "",
    ]


def describe_load(load: Load) -> str:
    """The load in words."""
    if load.trace:
        return f"trace {load.trace}"
    shape, arrivals = load.shape, load.arrivals
    about = "about " if shape.prompt_sigma else ""
    bursts = f" in bursts of {arrivals.burst}" if arrivals.burst > 1 else ""
    words = all_that_hold(
        (True, f"{about}{shape.prompt:,} tokens in, {about}{shape.output:,} out"),
        (shape.turns > 1, f", conversations of {shape.turns} turns"),
        (shape.shared, f", {shape.shared:,} tokens of prefix shared by all"),
        (arrivals.rate, f"; {arrivals.rate:g} requests/s{bursts}"),
        (arrivals.at_once, "; all at once"),
        (arrivals.pause, f"; {arrivals.pause:g} s between requests"),
    )
    return "".join(words)


def _held(largest: Held, style: Style, picture: bool) -> list[str]:
    promise = promise_words(largest.target)
    out = []
    if largest.users:
        paused = largest.load.arrivals.pause or largest.load.shape.turn_pause
        again = " at a time" if paused else " asking without a pause"
        out += [
            f"  {style.good(f'{largest.users:,} USERS')}{again}{_each(largest.result)}   ({promise})",
            *_people(largest),
        ]
    else:
        out.append(f"  {style.bad('NOT ONE USER')}   ({promise})")
    if largest.breaks:
        out.append(f"  The next one breaks it: {largest.breaks}.")
    elif largest.users:
        out.append("  More were not tried.")
    if largest.high:
        same = largest.low == largest.high
        users = f"{largest.low:,} to {largest.high:,} users" if not same else "the same number"
        unsure = largest.setup.built.error.nine_of_ten
        out.append(f"  If every step takes {unsure:g} times longer or shorter: {users}.")
    printed = largest.setup.plan.kv
    if printed is not None and largest.result is not None:
        logged = largest.setup.built.max_concurrency
        length = largest.setup.built.config.max_model_len
        out.append(f'  The log will say "{logged:.2f}x": that counts requests of {length:,} tokens, not these users.')
    result = largest.result or largest.beyond
    return [*out, "", *_figures(result), "", *(_picture(result) if picture else ()), ""] if result is not None else out


def _each(result: Result | None) -> str:
    """How fast each of the users is served, half of the time."""
    return f", {1 / result.tpot.p50:,.3g} tokens/s to each" if result is not None and result.tpot.p50 else ""


def promise_words(target: Target) -> str:
    tokens = f", P95 {target.tpot * 1000:g} ms per token" if target.tpot else ""
    return f"P95 first token within {target.ttft:g} s{tokens}, no preemption"


def _people(largest: Held) -> list[str]:
    """The same load as people make it: who reads for half a minute asks that much less often."""
    result, load = largest.result, largest.load
    if (
        result is None
        or not largest.setup.timed
        or load.arrivals.pause
        or load.shape.turn_pause
        or not result.latency.mean
    ):
        return []
    people = largest.users * (1 + PEOPLE / result.latency.mean)
    digits = max(0, len(str(int(people))) - 2)
    return [f"  About {round(people, -digits):,.0f} people who read {PEOPLE} s between questions (--think {PEOPLE})."]


def _run(sim: Simulation, style: Style, picture: bool) -> list[str]:
    result = sim.result
    out = []
    if sim.load.arrivals.users:
        count = sim.load.arrivals.users
        out.append(f"  {style.bold(f'{count:,} user' + 's' * (count > 1))}{_each(result)}")
    if sim.target is not None and not result.rejected and not result.never:
        why = breach(result, sim.target)
        if why:
            out += [
                f"  {style.bad('TOO MUCH')}   ({promise_words(sim.target)})",
                f"  {why[0].upper()}{why[1:]}.",
                *_would_hold(sim),
            ]
        else:
            out.append(f"  {style.good('HELD')}   ({promise_words(sim.target)})")
    if result.rejected:
        out += [f"  {style.bad(f'{result.rejected:,} requests are refused')}: {result.rejection}"]
    if result.never:
        text = f"{result.never:,} requests never start"
        out += [
            f"  {style.bad(text)}: the engine gives no error, they wait for ever and so does all behind them.",
            "  They were taken out so that the rest could be simulated.",
        ]
    return [*out, "", *_figures(result), "", *(_picture(result) if picture else ()), ""]


def _would_hold(sim: Simulation) -> list[str]:
    """How much of the load would be held."""
    if sim.held_users >= 0:
        return [f"  It would hold {sim.held_users:,} users." if sim.held_users else "  It would not hold one user."]
    if sim.held_rate > 0:
        return [f"  It would hold {sim.held_rate:.3g} requests/s."]
    return ["  It would not hold a hundredth of that rate."] if sim.held_rate == 0 else []


def _figures(result: Result) -> list[str]:
    def row(name: str, *values: str) -> str:
        return f"  {name:<18}" + "".join(f"{v:>12}" for v in values)

    out = [
        row("", "P50", "P95", "P99"),
        row("first token", *(duration(v) for v in (result.ttft.p50, result.ttft.p95, result.ttft.p99))),
        row("per token", *(duration(v) for v in (result.tpot.p50, result.tpot.p95, result.tpot.p99))),
        row("in the queue", *(duration(v) for v in (result.queue.p50, result.queue.p95, result.queue.p99))),
        "",
    ]
    each = f" ({1 / result.tpot.p50:,.3g} to each)" if result.tpot.p50 else ""
    out.append(
        f"  {result.output_tokens_per_second:,.0f} tokens/s out{each}, {result.prompt_tokens_per_second:,.0f} in; "
        f"{result.mean_running:.1f} running on average, {result.max_running:,} at most"
    )
    preempted = (
        f"{result.preemptions:,} preemption{'s' if result.preemptions > 1 else ''}"
        if result.preemptions
        else "no preemption"
    )
    full = f"KV cache {result.kv_mean:.0%} full on average, {result.kv_peak:.0%} at most"
    out.append(f"  {result.done:,} requests in {duration(result.seconds)}; {full}; {preempted}")
    if result.is_sample:
        whole = f" of {result.load_requests:,}" if result.load_requests else " of the trace"
        out.append(f"  These are the first {result.done:,} requests{whole}: to follow all of them would take too long.")
    if result.cached_share:
        out.append(f"  {result.cached_share:.0%} of the prompt tokens came from the prefix cache")
    share = sum(result.binds.values())
    if share >= 0.005:
        main = max(result.binds, key=lambda k: result.binds[k])
        out.append(f"  Somebody waited {share:.0%} of the time, mostly for {LIMITS.get(main, main)}")
    return out


def _picture(result: Result) -> list[str]:
    width = columns() - 16
    if len(result.timeline) < 2 or width < 20:
        return []
    end = result.timeline[-1].seconds or 1.0
    rows = [
        ("KV cache", [p.used for p in result.timeline], 1.0, "100%"),
        ("running", [p.running for p in result.timeline], float(max(1, result.max_running)), f"{result.max_running:,}"),
    ]
    if result.max_waiting:
        top = max(p.waiting for p in result.timeline)
        rows.append(("waiting", [p.waiting for p in result.timeline], max(1.0, top), f"{max(1.0, top):,.0f}"))
    out = []
    times = [p.seconds for p in result.timeline]
    for name, values, top, label in rows:
        out.append(f"  {name:<9} {_spark(times, values, end, top, width)} {label}")
    out.append(f"  {'':<9} 0{duration(end):>{width - 1}}")
    return out


def _spark(times: list[float], values: list[float], end: float, top: float, width: int) -> str:
    out, at = "", 0
    for column in range(width):
        until = end * (column + 0.5) / width
        while at < len(times) - 1 and times[at] < until:
            at += 1
        share = min(1.0, max(0.0, values[at] / top))
        out += _BARS[round(share * 8)] if share > 0 else " "
    return out


def _sweep(rows: Sequence[tuple[int, Result]], target: Target, style: Style) -> list[str]:
    heads = "".join(
        f"{name:>{width}}"
        for name, width in (
            ("users", 6), ("first token", 13), ("per token", 10), ("tokens/s", 10), ("running", 9), ("KV", 6),
            ("preempted", 11),
        )
    )  # fmt: skip
    out = [f"  {heads}  waits for"]
    for n, result in rows:
        waits = SHORT[max(result.binds, key=lambda k: result.binds[k])] if result.binds else ""
        line = (
            f"  {n:>6,}{duration(result.ttft.p95):>13}{duration(result.tpot.p95):>10}"
            f"{result.output_tokens_per_second:>10,.0f}{result.mean_running:>9.1f}"
            f"{result.kv_peak:>6.0%}{result.preemptions:>11,}  {waits}"
        )
        out.append(style.bad(line) if breach(result, target) else line)
    top = max((r.output_tokens_per_second for _, r in rows), default=0.0)
    out += ["", "  tokens/s out"]
    for n, result in rows:
        bar = "█" * max(1, round(50 * result.output_tokens_per_second / top)) if top else ""
        out.append(f"  {n:>6,} {bar} {result.output_tokens_per_second:,.0f}")
    good = [n for n, r in rows if not breach(r, target)]
    most = f"{max(good):,}" if good else "none"
    return [*out, "", f"  Held of these (P95 first token within {target.ttft:g} s, no preemption): {most}", ""]


def _compare(pair: TwoReleases, style: Style, picture: bool) -> list[str]:
    first, second = pair.before, pair.after
    out = [*lines(first, style, picture), *lines(second, style, picture)]
    names = [side.setup.deployment.engine.version for side in (first, second)]
    if isinstance(first, Held) and isinstance(second, Held):
        out.append(f"  {style.bold(f'{first.users:,} users on {names[0]}, {second.users:,} on {names[1]}')}")
    elif isinstance(first, Simulation) and isinstance(second, Simulation):
        before, after = first.result, second.result
        ratio = f" ({before.seconds / after.seconds:.2f} times)" if after.seconds else ""
        text = f"{duration(before.seconds)} on {names[0]}, {duration(after.seconds)} on {names[1]}{ratio}"
        out.append(f"  {style.bold(text)}")
    return [*out, ""]


def _foot(setup: Setup) -> list[str]:
    out = []
    if not setup.timed:
        out.append("  Times are steps: one millisecond stands for one step.")
    elif setup.calibrated:
        scale = setup.factors.scale
        out.append(f"  Times are scaled by {scale:.2f} to your measurement; other loads were not measured.")
    else:
        text = f"{error_text(setup.built.error)} --measured scales them to a speed that you measured."
        out += wrap(text, 98, "  ")
    return [*out, *(f"  {n[0].upper()}{n[1:]}." for n in setup.built.notes), ""]


def error_text(error: SpeedError) -> str:
    """How far such times were from published ones."""
    text = f"Times are computed, not measured: {error.sentence()}."
    if error.first_tokens:
        text += f" Of {error.first_tokens} first tokens {error.first_near} were within 2 times."
    return text


def duration(value: float) -> str:
    if value >= 120:
        return f"{value / 60:,.1f} min"
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1000:.1f} ms" if value < 0.01 else f"{value * 1000:.0f} ms"
