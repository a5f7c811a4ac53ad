"""The largest number that keeps a promise: found to its tolerance, in few trials; and a run is cut only where its
judgement is certain."""

import random

from hypothesis import example, given, settings, strategies as st

from oomph.simulate.largest import Trial, largest
from oomph.simulate.result import Collector, Sketch
from oomph.simulate.search import Target


@given(
    held=st.integers(0, 4096), first=st.integers(1, 4096), power=st.floats(0.0, 3.0),
    within=st.sampled_from([0.0, 0.02, 0.05]), silent=st.booleans(), noise=st.integers(0, 99),
)  # fmt: skip
@example(held=0, first=462, power=0.0, within=0.0, silent=False, noise=10)
@settings(max_examples=300, deadline=None)
def test_the_largest_number_is_found(
    held: int, first: int, power: float, within: float, silent: bool, noise: int
) -> None:
    most, trials = 4096, []
    chance = random.Random(noise)

    def trial(number: int) -> Trial:
        trials.append(number)
        use = (number / max(held, 0.5)) ** power * chance.uniform(0.9, 1.1)
        return Trial("too slow" if number > held else "", 0.0 if silent else use)

    good, bad, why = largest(trial, most, first, within)
    assert good <= held and (bad == 0 or bad > held)
    assert bool(why) == bool(bad)
    assert good == most if not bad else bad - good <= max(1, int(within * bad))
    assert len(trials) == len(set(trials)) <= 60


@given(
    values=st.lists(st.sampled_from([0.01, 0.04, 0.0499, 0.05, 0.051, 0.2]), min_size=1, max_size=120),
    cut=st.integers(1, 120),
)
@settings(max_examples=300, deadline=None)
def test_a_run_is_cut_only_where_its_judgement_is_certain(values: list[float], cut: int) -> None:
    target = Target(ttft=1.0, tpot=0.05)

    def seen(times: list[float]) -> Collector:
        collector = Collector.__new__(Collector)
        collector.ttft, collector.tpot = Sketch(), Sketch()
        for time in times:
            collector.ttft.add(0.1)
            collector.tpot.add(time)
        return collector

    if target.is_broken(seen(values[:cut]), len(values)):
        assert seen(values[:cut]).tpot.quantile(0.95) > target.tpot
        assert seen(values).tpot.quantile(0.95) > target.tpot
    if seen(values).tpot.quantile(0.95) > target.tpot:
        assert target.is_broken(seen(values), len(values))
