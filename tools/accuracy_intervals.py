"""Are the intervals honest? For each term with measured values: how many lie inside, and how wide the interval is.

An interval that holds 85 to 99 % of the truth is calibrated; one that holds everything is merely wide. Exact terms
(weights, an interval of nothing) are left out. The groups are the truth sets, by card where there are several.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from oomph.ir.ledger import Term
from oomph.units import GIB

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("tools", "tests", "tests/engines/vllm")]
# Printed figures have two decimals, of which the last is rounded; a plan is not blamed for that.
ROUNDING = GIB // 100
POSTED = {"kv_gib": "available_kv", "activation_gib": "activation_peak"}
# gpu_model_runner.py capture_model: "Graph capturing finished ..., took X GiB" is a difference of free memory. Before
# this release the cache of the warm-up passes is freed in between: what is printed is less than the graphs take, and
# often negative.
CAPTURE_LINE_IS_WHOLE_SINCE = "0.18.0"


ALL = "all"


class Measured(NamedTuple):
    group: str
    term: str
    name: str
    value: int
    low: int
    high: int
    total: int

    @property
    def is_inside(self) -> bool:
        return self.low <= self.value <= self.high


def measured_on_the_h200() -> Iterator[Measured]:
    import h200_truth

    for row in h200_truth.measured():
        plan = h200_truth.planned(row)
        for term, field in h200_truth.FIELDS.items():
            if plan.ranks and row[field]:
                rank = plan.ranks[0]
                yield _measured(
                    "one H200, whole models", term, row["id"], row[field], rank.terms[term], rank.total_bytes
                )


def traced_on_the_h200() -> Iterator[Measured]:
    import activation_truth

    for row in activation_truth.rows():
        plan = activation_truth.planned(row)
        for term, field in activation_truth.FIELDS.items():
            if plan.ranks and row[field]:
                rank = plan.ranks[0]
                group = "one H200, models cut short"
                yield _measured(group, term, row["id"], row[field], rank.terms[term], rank.total_bytes)


def posted() -> Iterator[Measured]:
    """Where nobody said whether the compile cache was empty, the nearer of the two plans counts."""
    import field_truth
    from oomph.answers.plan import run

    for row in field_truth.rows():
        deployment, model = field_truth.deployment(row), field_truth.model(row)
        caches = (row["compile_cache"],) if row.get("compile_cache") else ("cold", "warm")
        plans = [run(replace(deployment, compile_cache=cache), model) for cache in caches]
        for field, term in POSTED.items():
            if field not in row or not plans[0].ranks:
                continue
            value = round(row[field] * GIB)
            nearest = min((p.ranks[0].terms[term] for p in plans), key=lambda t: abs(t.bytes - value))
            total = plans[0].ranks[0].total_bytes
            yield _measured("posted start-ups", term, row["id"], value, nearest, total, ROUNDING)


def posted_captures() -> Iterator[Measured]:
    """What capture took in the end, beside the plan's stage of that name (not beside the profiler's estimate)."""
    import field_truth
    from oomph.engines.vllm.planner import captured_graphs
    from oomph.facts.vllm.versions import in_range

    for row in field_truth.rows():
        deployment, model = field_truth.deployment(row), field_truth.model(row)
        if "graphs_gib" not in row or not in_range(deployment.engine.version, CAPTURE_LINE_IS_WHOLE_SINCE):
            continue
        term, total = captured_graphs(model, deployment), deployment.gpus[0].total_bytes
        if term is not None:
            value = round(row["graphs_gib"] * GIB)
            yield _measured("posted start-ups", "captured graphs", row["id"], value, term, total, ROUNDING)


def _measured(group: str, term: str, name: str, value: int, ours: Term, total: int, rounding: int = 0) -> Measured:
    return Measured(group, term, name, value, ours.low - rounding, ours.high + rounding, total)


def collect() -> dict[tuple[str, str], list[Measured]]:
    """(set, term) -> true values beside their intervals; exact terms are left out, and "all" has every set."""
    sets: dict[tuple[str, str], list[Measured]] = defaultdict(list)
    for source in (measured_on_the_h200, traced_on_the_h200, posted, posted_captures):
        for item in source():
            if item.high - item.low > 2 * ROUNDING:
                sets[item.group, item.term].append(item)
    for (_, term), items in list(sets.items()):
        sets[ALL, term] = [*sets[ALL, term], *items]
    return sets


def report() -> None:
    sets = collect()
    print(f"\n  {'':<44}{'count':>6}{'inside':>8}{'median width':>14}{'of the card':>13}")
    for (group, term), items in sorted(sets.items(), key=lambda pair: (pair[0][0] != ALL, pair[0])):
        inside = sum(item.is_inside for item in items) / len(items)
        width = median(item.high - item.low for item in items)
        share = median((item.high - item.low) / item.total for item in items)
        print(f"  {group + ', ' + term:<44}{len(items):>6}{inside:>8.1%}{width / GIB:>10.2f} GiB{share:>12.2%}")
        for item in sorted(items, key=lambda item: -_distance(item))[:3]:
            if not item.is_inside and group != ALL:
                print(f"      {item.name}: {item.value / GIB:.2f} GiB, {item.low / GIB:.2f} to {item.high / GIB:.2f}")

    close, judged = close_calls()
    print(f"  too close to call: {close} of {judged} random deployments ({close / judged:.1%})")


def close_calls() -> tuple[int, int]:
    """(how many of the replayed plans are too close to call, how many are judged at all)."""
    import replay

    answers = replay.answer_plans("plan", replay.cases("plan"))
    outcomes = [fields["verdict"]["outcome"] for fields in answers if fields.get("ranks")]
    return outcomes.count("close"), len(outcomes)


def _distance(item: Measured) -> int:
    return max(item.low - item.value, item.value - item.high, 0)


if __name__ == "__main__":
    report()
