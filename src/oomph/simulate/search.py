"""The largest load that keeps a promise, and several loads side by side."""

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph.errors import CommandError
from oomph.ir.printed import Printed
from oomph.simulate.build import Setup, rebuilt, scaled
from oomph.simulate.largest import Trial, largest
from oomph.simulate.play import Ends, Load, simulate, spread_over, times_alone
from oomph.simulate.result import Collector, Result

MOST_USERS = 4096
# Of one of the dozen runs of a search, and for each user at least; play.MOST_WORK says what is counted.
MOST_WORK, LEAST_WORK = 250_000, 500


class Target(Struct, frozen=True):
    """What "held" means."""

    ttft: float = 2.0  # seconds, 95th percentile
    tpot: float = 0.05  # seconds, 95th percentile: 20 tokens/s, chosen, four times as fast as people read; 0 = anything
    preemptions: int = 0

    def is_broken(self, seen: Collector, requests: int) -> bool:
        """Whether so many of all requests were too slow that the rest cannot bring the 95th percentile back
        (Sketch.quantile: it is above a limit as soon as 5 % and one of the values are)."""
        most = 0.05 * requests + 0.95
        slow = seen.ttft.count_above(self.ttft) >= most
        return slow or (self.tpot > 0 and seen.tpot.count_above(self.tpot) >= most)

    def use(self, result: Result) -> float:
        """How much of the allowed times the slowest requests take: 1.0 = all of it."""
        return max(result.ttft.p95 / self.ttft, result.tpot.p95 / self.tpot if self.tpot else 0.0)


class Simulation(Printed, frozen=True):
    """One load, played."""

    setup: Setup
    load: Load
    result: Result
    target: Target | None = None  # what it is judged by, if anything
    held_users: int = -1  # how many users would be held, if these are too many; -1 = not searched
    held_rate: float = -1.0  # the same of an open load's requests per second

    def in_short(self) -> str:
        breaks = breach(self.result, self.target) if self.target is not None else ""
        speed = f"{self.result.output_tokens_per_second:,.0f} tokens/s"
        return f"{self.setup.deployment.model}: {speed}{f', too much: {breaks}' if breaks else ''}"


class Held(Printed, frozen=True):
    """The most users of a closed loop that keep the target, and what breaks it beyond them."""

    setup: Setup
    load: Load
    target: Target
    users: int
    result: Result | None  # at that number
    beyond: Result | None  # at the first number that fails
    breaks: str = ""  # what fails there
    runs: int = 0
    low: int = 0  # users, if every step takes as much longer as the measured error allows; 0 = not searched
    high: int = 0  # ... or shorter

    def in_short(self) -> str:
        return f"{self.setup.deployment.model}: {self.users:,} users held"


class Sweep(Printed, frozen=True):
    """Several numbers of users side by side."""

    setup: Setup
    load: Load
    target: Target
    rows: tuple[tuple[int, Result], ...]  # (users, what they see)

    def in_short(self) -> str:
        most = max((users for users, result in self.rows if not breach(result, self.target)), default=0)
        return f"{self.setup.deployment.model}: {len(self.rows)} loads, {most:,} users held"


Answer = Simulation | Held | Sweep


class TwoReleases(Printed, frozen=True):
    """The same load before and after an upgrade."""

    before: Answer
    after: Answer

    def in_short(self) -> str:
        first, last = (side.setup.deployment.engine.version for side in (self.before, self.after))
        return f"{self.before.setup.deployment.model}: {first} and {last}"


def breach(result: Result, target: Target) -> str:
    """What of the target a result breaks, in a few words; "" = nothing."""
    if result.never:
        return "requests that never start"
    if result.rejected:
        return "requests longer than max_model_len"
    if result.preemptions > target.preemptions:
        times = "1 preemption" if result.preemptions == 1 else f"{result.preemptions:,} preemptions"
        return f"{times}: KV blocks run out while tokens are generated"
    if result.ttft.p95 > target.ttft:
        waits = max(result.binds, key=lambda k: result.binds[k]) if result.binds else ""
        behind = {
            "blocks": "waiting for KV blocks",
            "max_num_seqs": "waiting for one of max_num_seqs places",
            "slots": "waiting for a free slot",
            "max_num_batched_tokens": "waiting for room in the batch",
        }.get(waits, "the prompts alone take that long")
        return f"P95 time to first token {result.ttft.p95:.2f} s, {behind}"
    if target.tpot and result.tpot.p95 > target.tpot:
        return f"P95 time per token {result.tpot.p95 * 1000:.0f} ms"
    return ""


def judge(setup: Setup, load: Load, target: Target) -> Simulation:
    """One load played and judged; if it is too much, how much of it would be held."""
    sim = Simulation(setup, load, simulate(setup, load), target)
    if not breach(sim.result, target) or load.trace or sim.result.rejected or sim.result.never:
        return sim
    if load.arrivals.users:
        return replace(sim, held_users=_search(setup, load, target, load.arrivals.users, within=0.03).users)
    return replace(sim, held_rate=_held_rate(setup, load, target))


def most_users(setup: Setup, load: Load, target: Target) -> Held:
    """The most users that keep the target, by the step times as they are."""
    return _search(setup, load, target, MOST_USERS, within=0.02, shows=True)


def search(setup: Setup, load: Load, target: Target) -> Held:
    """The most users that keep the target; and how many if steps take as much longer or shorter as was measured."""
    most = most_users(setup, load, target)
    if not setup.timed or setup.calibrated or not most.users:
        return most
    unsure = setup.built.error.nine_of_ten
    low = _search(scaled(setup, unsure), load, target, most.users, max(1, round(most.users / unsure)), 0.05).users
    high = most.users
    if most.beyond is not None and most.beyond.preemptions <= target.preemptions:  # else memory is what ends it
        high = _search(scaled(setup, 1 / unsure), load, target, MOST_USERS, round(most.users * unsure), 0.05).users
    return replace(most, low=min(low, most.users), high=max(high, most.users))


def _search(
    setup: Setup, load: Load, target: Target, most: int, first: int = 1, within: float = 0.0, *, shows: bool = False
) -> Held:
    """What breaks the target is played only until that is certain; with `shows` to its end where it is the answer's."""
    alone = times_alone(setup, load)
    results: dict[int, Result] = {}

    def trial(users: int, *, to_its_end: bool = False) -> Trial:
        at = spread_over(replace(load, arrivals=replace(load.arrivals, users=users, rate=0.0)), *alone)
        if load.requests:
            at = replace(at, requests=max(load.requests, users))
        work = max(MOST_WORK, LEAST_WORK * users)
        results[users] = simulate(setup, at, Ends(target.preemptions, work, None if to_its_end else target.is_broken))
        return Trial(breach(results[users], target), target.use(results[users]))

    good, bad, why = largest(trial, most, first, within)
    if shows and bad and results[bad].is_sample:
        why = trial(bad, to_its_end=True).breach
    return Held(
        setup,
        load=load,
        target=target,
        users=good,
        result=results.get(good),
        beyond=results.get(bad),
        breaks=why,
        runs=len(results),
    )


def _held_rate(setup: Setup, load: Load, target: Target) -> float:
    """Requests per second, in hundredths of the rate that was too much."""

    def trial(percent: int) -> Trial:
        rate = load.arrivals.rate * percent / 100
        at = replace(load, arrivals=replace(load.arrivals, rate=rate))
        result = simulate(setup, at, Ends(target.preemptions, MOST_WORK, target.is_broken))
        return Trial(breach(result, target), target.use(result))

    return load.arrivals.rate * largest(trial, 100, 50)[0] / 100


def calibrated(setup: Setup, load: Load, tokens_per_second: float) -> Setup:
    """All times scaled so that `load` gives the measured output tokens per second; without pauses that is exact."""
    if tokens_per_second <= 0:
        raise CommandError(f"{tokens_per_second:g} tokens/s measured: it must be more than nothing")
    for _ in range(3):  # pauses and ramps do not scale, so it is repeated
        rate = simulate(setup, load).output_tokens_per_second
        factors = replace(setup.factors, scale=setup.factors.scale * rate / tokens_per_second)
        setup = replace(rebuilt(setup, factors), calibrated=True)
    return setup


def sweep(setup: Setup, load: Load, target: Target, users: Sequence[int]) -> Sweep:
    alone = times_alone(setup, load)
    loads = [spread_over(replace(load, arrivals=replace(load.arrivals, users=n, rate=0.0)), *alone) for n in users]
    return Sweep(setup, load, target, tuple((n, simulate(setup, at)) for n, at in zip(users, loads)))


def parse_sweep(text: str) -> list[int]:
    """'users=1..256' doubles from 1 to 256; 'users=8..64:8' goes in steps of 8; 'users=1,4,16' is a list."""
    match = re.fullmatch(r"\s*users\s*=\s*(\d{1,6})\s*\.\.\s*(\d{1,6})(?:\s*:\s*(\d{1,6}))?\s*", text)
    if match:
        low, high, step = int(match[1]), int(match[2]), int(match[3] or 0)
        if 1 <= low <= high and (step or not match[3]):
            if step:
                numbers = list(range(low, high + 1, step))
            else:
                doubles = [low << i for i in range((high // low).bit_length())]
                numbers = [n for n in doubles if n < high] + [high]
            if len(numbers) <= 512 and high <= 100_000:
                return numbers
    elif re.fullmatch(r"\s*users\s*=\s*\d{1,6}(\s*,\s*\d{1,6})*\s*", text):
        numbers = sorted({int(n) for n in text.partition("=")[2].split(",")})
        if numbers[0] >= 1:
            return numbers
    raise CommandError(f"--sweep {text!r} is not users=1..256, users=8..64:8 or users=1,4,16")
