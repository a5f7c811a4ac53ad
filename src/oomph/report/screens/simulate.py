"""A simulation: how many users, what stops the next one, latencies, and the KV cache over time."""

from collections.abc import Sequence
from itertools import accumulate

from oomph.engines.registry import engine_of
from oomph.report.answer import (
    Answer,
    Answers,
    Aside,
    Block,
    Cell,
    Column,
    Facts,
    Heading,
    Notes,
    Piece,
    Plot,
    Plots,
    Row,
    Series,
    Table,
    Verdict,
)
from oomph.report.screens.plan_words import gpus_line
from oomph.simulate.accuracy import SpeedError
from oomph.simulate.api import Held, Load, Setup, Simulation, Sweep, Target, TwoReleases, breach
from oomph.simulate.result import Result
from oomph.text.tables import all_that_hold

LIMITS = {
    "blocks": "KV blocks",
    "slots": "a free slot",
    "max_num_seqs": "one of the max_num_seqs places",
    "max_num_batched_tokens": "room in the batch (max_num_batched_tokens)",
}
PEOPLE = 30  # seconds that a reader takes before the next question, for the number of people
Rows = Sequence[tuple[int, Result]]  # (users, what they see)


def answer(simulated: Held | Simulation | Sweep | TwoReleases, sweep: Rows = ()) -> Answer:
    """`sweep`: the same load with fewer and more users, for a page."""
    if isinstance(simulated, TwoReleases):
        return _two_releases(simulated)
    setup = simulated.setup
    heading = Heading(setup.plan.model, _where(setup), below=(describe_load(simulated.load),))
    blocks: tuple[Block, ...]
    verdict: Verdict | None
    if isinstance(simulated, Sweep):
        enough = [users for users, result in simulated.rows if not breach(result, simulated.target)]
        word, tone = (_counted(max(enough)), "fits") if enough else ("NONE", "fails")
        verdict = Verdict(word, tone, promise_words(simulated.target), "of those tried are held")
        blocks = (_sweep_table(simulated), *_over_users(simulated.rows, max(enough, default=0)))
    else:
        result = simulated.result if isinstance(simulated, Simulation) else simulated.result or simulated.beyond
        verdict = _held(simulated) if isinstance(simulated, Held) else _judged(simulated)
        facts = _held_facts(simulated) if isinstance(simulated, Held) else _run_facts(simulated)
        users = simulated.users if isinstance(simulated, Held) else simulated.load.arrivals.users
        blocks = (Facts(facts), *(_course(result) if result is not None else ()), *_over_users(sweep, users))
    return Answer("simulate", heading, verdict, (*blocks, *_foot(setup)))


def _two_releases(pair: TwoReleases) -> Answer:
    first, second = pair.before, pair.after
    names = [side.setup.deployment.engine.version for side in (first, second)]
    says = ""
    if isinstance(first, Held) and isinstance(second, Held):
        says = f"{first.users:,} users on {names[0]}, {second.users:,} on {names[1]}"
    elif isinstance(first, Simulation) and isinstance(second, Simulation):
        before, after = first.result, second.result
        ratio = f" ({before.seconds / after.seconds:.2f} times)" if after.seconds else ""
        says = f"{duration(before.seconds)} on {names[0]}, {duration(after.seconds)} on {names[1]}{ratio}"
    heading = Heading(first.setup.plan.model, (f"{_where(first.setup)[0]} -> {names[1]}",))
    verdict = Verdict("", "close", says) if says else None
    return Answer("simulate", heading, verdict, (Answers((answer(first), answer(second)), on_screen=True),))


def _where(setup: Setup) -> tuple[str, str]:
    deployment = setup.deployment
    return f"{engine_of(deployment).title} {deployment.engine.version}", gpus_line(deployment.gpus)


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


def promise_words(target: Target) -> str:
    tokens = f", P95 {target.tpot * 1000:g} ms per token" if target.tpot else ""
    return f"P95 first token within {target.ttft:g} s{tokens}, no preemption"


def _held(largest: Held) -> Verdict:
    promise = promise_words(largest.target)
    if not largest.users:
        return Verdict("NOT ONE USER", "fails", promise)
    paused = largest.load.arrivals.pause or largest.load.shape.turn_pause
    asking = "at a time" if paused else "asking without a pause"
    each = _each(largest.result)
    return Verdict(_counted(largest.users), "fits", promise, f"{asking}, {each}" if each else asking)


def _counted(users: int) -> str:
    return f"{users:,} USER{'S' * (users > 1)}"


def _each(result: Result | None) -> str:
    """How fast each of the users is served, half of the time."""
    return f"{1 / result.tpot.p50:,.3g} tokens/s to each" if result is not None and result.tpot.p50 else ""


def _held_facts(largest: Held) -> tuple[tuple[str, str], ...]:
    further = f"breaks it: {largest.breaks}" if largest.breaks else "more were not tried" if largest.users else ""
    span = f"{largest.low:,} to {largest.high:,} users" if largest.low != largest.high else "the same number"
    unsure = f"if every step takes {largest.setup.built.error.nine_of_ten:g} times longer or shorter: {span}"
    length, logged = largest.setup.built.config.max_model_len, largest.setup.built.max_concurrency
    log = f'will say "{logged:.2f}x": that counts requests of {length:,} tokens, not these users'
    is_printed = logged > 0 and largest.setup.plan.kv is not None and largest.result is not None
    return (
        ("People", _people(largest)),
        ("Next one", further),
        ("Unsure", unsure if largest.high else ""),
        ("The log", log if is_printed else ""),
    )


def _people(largest: Held) -> str:
    """The same load as people make it: who reads for half a minute asks that much less often."""
    result, load = largest.result, largest.load
    pauses = load.arrivals.pause or load.shape.turn_pause
    if result is None or not largest.setup.timed or pauses or not result.latency.mean:
        return ""
    people = largest.users * (1 + PEOPLE / result.latency.mean)
    digits = max(0, len(str(int(people))) - 2)
    return f"about {round(people, -digits):,.0f} who read {PEOPLE} s between questions (--think {PEOPLE})"


def _judged(sim: Simulation) -> Verdict | None:
    result, count = sim.result, sim.load.arrivals.users
    users = f"{count:,} user{'s' * (count > 1)}" if count else ""
    each = ", ".join(words for words in (users, _each(result) if count else "") if words)
    if result.rejected:
        return Verdict("REFUSED", "fails", f"{result.rejected:,} requests: {result.rejection}")
    if result.never:
        why = "the engine gives no error, they wait for ever and so does all behind them"
        return Verdict("NEVER STARTS", "fails", f"{result.never:,} requests: {why}")
    if sim.target is None:
        return Verdict("", "fits", each) if each else None
    broken = breach(result, sim.target)
    promise = promise_words(sim.target)
    if broken:
        return Verdict("TOO MUCH", "fails", f"{broken} ({promise})", f"for {each}" if each else "")
    return Verdict("HELD", "fits", promise, each)


def _run_facts(sim: Simulation) -> tuple[tuple[str, str], ...]:
    taken = "those requests were taken out so that the rest could be simulated" if sim.result.never else ""
    return ("Holds", _would_hold(sim)), ("Without", taken)


def _would_hold(sim: Simulation) -> str:
    """How much of the load would be held."""
    if sim.target is None or not breach(sim.result, sim.target):
        return ""
    if sim.held_users >= 0:
        return f"it would hold {sim.held_users:,} users" if sim.held_users else "it would not hold one user"
    if sim.held_rate > 0:
        return f"it would hold {sim.held_rate:.3g} requests/s"
    return "it would not hold a hundredth of that rate" if sim.held_rate == 0 else ""


def _course(result: Result) -> tuple[Block, ...]:
    """What the requests saw: latencies, figures, and the cache over time."""
    spreads = (("first token", result.ttft), ("per token", result.tpot), ("in the queue", result.queue),
               ("whole answer", result.latency))  # fmt: skip
    rows = tuple(Row((name, *map(duration, (spread.p50, spread.p95, spread.p99)))) for name, spread in spreads)
    columns = (Column("", 18), *(Column(name, 12, is_number=True) for name in ("P50", "P95", "P99")))
    return Table("Latency", columns, rows, sorts=False), Facts(_figures(result)), *_over_time(result)


def _figures(result: Result) -> tuple[tuple[str, str], ...]:
    each = f" ({1 / result.tpot.p50:,.3g} to each)" if result.tpot.p50 else ""
    preempted = f"{result.preemptions:,} preemption{'s' if result.preemptions > 1 else ''}"
    whole = f" of {result.load_requests:,}" if result.load_requests else " of the trace"
    share, cached = sum(result.binds.values()), result.cached_share
    waits = f"{share:.0%} of the time, mostly for {_main_limit(result)}" if share >= 0.005 else ""
    return (
        ("Speed", f"{result.output_tokens_per_second:,.0f} tokens/s out{each}, "
                  f"{result.prompt_tokens_per_second:,.0f} in; {result.done:,} requests in {duration(result.seconds)}"),
        ("Running", f"{result.mean_running:.1f} on average, {result.max_running:,} at most; "
                    f"{preempted if result.preemptions else 'no preemption'}"),
        ("KV cache", f"{result.kv_mean:.0%} full on average, {result.kv_peak:.0%} at most"),
        ("Prefixes", f"{cached:.0%} of the prompt tokens came from the prefix cache" if cached else ""),
        ("Waiting", waits),
        ("Sample", f"the first {result.done:,} requests{whole}: to follow all of them would take too long"
                   if result.is_sample else ""),
    )  # fmt: skip


def _main_limit(result: Result) -> str:
    name = max(result.binds, key=lambda limit: result.binds[limit])
    return LIMITS.get(name, name)


def _over_time(result: Result) -> tuple[Block, ...]:
    points = result.timeline
    if len(points) < 2:
        return ()
    times = tuple(point.seconds for point in points)
    waiting = tuple(point.waiting for point in points)
    used = Series("KV cache", "kv", tuple(100 * point.used for point in points), unit="%", top=100.0)
    running = Series("running", "weights", tuple(float(point.running) for point in points),
                     top=float(max(1, result.max_running)))  # fmt: skip
    requests = (running, *([Series("waiting", "activations", waiting)] if result.max_waiting else []))
    plots = [Plot("KV cache in use", "seconds", times, (used,)), Plot("Requests", "seconds", times, requests)]
    if result.preemptions:
        gone = tuple(float(count) for count in accumulate(point.preemptions for point in points))
        plots.append(Plot("Preemptions so far", "seconds", times, (Series("preempted", "bad", gone),)))
    return (Plots("Over time", tuple(plots), end=duration(times[-1]), on_screen=True),)


def _over_users(rows: Rows, most_users: int = 0) -> tuple[Block, ...]:
    """`most_users`: the users of the verdict."""
    if len(rows) < 2:
        return ()
    users, results = tuple(float(number) for number, _ in rows), [result for _, result in rows]
    first = Series("first token", "activations", tuple(result.ttft.p95 for result in results), unit=" s")
    later = Series("per token", "context", tuple(1000 * result.tpot.p95 for result in results), unit=" ms")
    speed = Series("tokens/s", "weights", tuple(result.output_tokens_per_second for result in results))
    used = Series("KV cache", "kv", tuple(100 * result.kv_peak for result in results), unit="%", top=100.0)
    titles = ("Time to the first token, P95", "Time per token, P95", "Tokens per second, all users together",
              "KV cache at most")  # fmt: skip
    mark = float(most_users) if 0 < most_users <= users[-1] else None
    lines = zip(titles, (first, later, speed, used))
    plots = tuple(Plot(title, "users", users, (line,), mark) for title, line in lines)
    return (Plots("Users against latency", plots, end=f"{rows[-1][0]:,} users"),)


def _sweep_table(swept: Sweep) -> Table:
    columns = (
        Column("users", 6, is_number=True), Column("first token", 13, is_number=True),
        Column("per token", 10, is_number=True), Column("tokens/s", 10, is_number=True),
        Column("running", 9, is_number=True), Column("KV", 6, is_number=True), Column("preempted", 11, is_number=True),
        Column("waits for", 20, gap="  "), Column("", 12, gap="  "),
    )  # fmt: skip
    top = max((result.output_tokens_per_second for _, result in swept.rows), default=0.0) or 1.0
    rows = tuple(_sweep_row(users, result, top, bool(breach(result, swept.target))) for users, result in swept.rows)
    return Table("In figures", columns, rows, label="The sweep")


def _sweep_row(users: int, result: Result, top: float, is_broken: bool) -> Row:
    speed = result.output_tokens_per_second
    limit = max(result.binds, key=lambda name: result.binds[name]) if result.binds else ""
    waits, bar = limit.replace("blocks", "KV blocks"), (Piece("weights", speed / top),)
    return Row((
        Cell(f"{users:,}", users, "fails" if is_broken else "fits"), Cell(duration(result.ttft.p95), result.ttft.p95),
        Cell(duration(result.tpot.p95), result.tpot.p95), Cell(f"{speed:,.0f}", speed), f"{result.mean_running:.1f}",
        f"{result.kv_peak:.0%}", f"{result.preemptions:,}", waits, Cell("", speed, bar=bar),
    ))  # fmt: skip


def _foot(setup: Setup) -> tuple[Block, ...]:
    notes = tuple(f"{note[0].upper()}{note[1:]}." for note in setup.built.notes)
    if not setup.timed:
        return Aside("Times are steps: one millisecond stands for one step."), Notes(notes)
    scaled = f"Times are scaled by {setup.factors.scale:.2f} to your measurement; other loads were not measured."
    computed = f"{error_text(setup.built.error)} --measured scales them to a speed that you measured."
    return Aside(scaled if setup.calibrated else computed), Notes(notes)


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
