"""Are the intervals honest? For each term with measured values: how many lie inside, and how wide the interval is.

An interval that holds 85 to 99 % of the truth is calibrated; one that holds everything is merely wide. Exact terms
(weights, an interval of nothing) are left out. The groups are the truth sets; what was measured here and what others
posted is told apart, by kind of model and by release.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from oomph.ir import Attention, Experts, Model, State
from oomph.ir.ledger import Term
from oomph.sources.build import build_model
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
POSTS = "posted start-ups"


class Measured(NamedTuple):
    group: str
    term: str
    name: str
    value: int
    low: int
    high: int
    total: int
    release: str
    kind: str  # of model

    @property
    def is_posted(self) -> bool:
        return self.group == POSTS

    @property
    def is_inside(self) -> bool:
        return self.low <= self.value <= self.high


def kind_of(model: Model) -> str:
    """What decides most about its memory."""
    mixers = [mixer for layer in model.layers for mixer in layer.mixers]
    attention = [mixer for mixer in mixers if isinstance(mixer, Attention)]
    if any(isinstance(mixer, State) for mixer in mixers):
        return "hybrid"
    if any(isinstance(module, Experts) for layer in model.layers for module in layer.block.modules):
        return "experts"
    if any(mixer.kind == "mla" for mixer in attention):
        return "latent"
    return "windows" if any(mixer.kind == "sliding_window" for mixer in attention) else "dense"


def measured_on_the_h200() -> Iterator[Measured]:
    import h200_truth

    for row in h200_truth.measured():
        plan, kind = h200_truth.planned(row), kind_of(h200_truth.Case(row).model)
        for term, field in h200_truth.FIELDS.items():
            if plan.ranks and row[field]:
                rank = plan.ranks[0]
                place = ("one H200, whole models", h200_truth.VERSION, kind)
                yield _measured(place, term, row["id"], row[field], rank.terms[term], rank.total_bytes)


def traced_on_the_h200() -> Iterator[Measured]:
    import activation_truth

    for row in activation_truth.rows():
        plan, kind = activation_truth.planned(row), kind_of(activation_truth.model(row["model"]))
        for term, field in activation_truth.FIELDS.items():
            if plan.ranks and row[field]:
                rank = plan.ranks[0]
                place = ("one H200, models cut short", row["vllm"], kind)
                yield _measured(place, term, row["id"], row[field], rank.terms[term], rank.total_bytes)


def served_on_the_h200() -> Iterator[Measured]:
    """Memory in use when the server is ready and after a heavy load, of 0.24.0 to 0.26.0."""
    import test_served as served

    for index in served.READY:
        row = served.ROWS[index]
        stages = [("ready", served.stage(index, "sampler_warmup"), row["ready_bytes"])]
        if index in served.HEAVY:
            stages.append(("full_load", served.stage(index, "runtime_request"), served.served_bytes(row)))
        kind = kind_of(build_model(row["model"], served.MODELS[row["model"]]))
        for term, stage, value in stages:
            yield Measured("one H200, under load", term, row["id"], value, stage.peak_low, stage.peak_high,
                           row["total_bytes"], row["vllm"], kind)  # fmt: skip


def newest_on_the_h200() -> Iterator[Measured]:
    import newest_truth

    for index, row in enumerate(newest_truth.ROWS):
        kind = kind_of(newest_truth.model(row["model"]))
        for term in newest_truth.terms(index):
            if term.name != "weights":
                yield Measured("one H200, newest release", term.name, term.row, term.value, term.low, term.high,
                               row["total_bytes"], row["vllm"], kind)  # fmt: skip


def posted() -> Iterator[Measured]:
    """Where nobody said whether the compile cache was empty, the nearer of the two plans counts."""
    import field_truth
    from oomph.answers.plan import run
    from oomph.facts.vllm.versions import in_range

    for row in field_truth.rows():
        deployment, model = field_truth.deployment(row), field_truth.model(row)
        caches = (row["compile_cache"],) if row.get("compile_cache") else ("cold", "warm")
        plans = [run(replace(deployment, compile_cache=cache), model) for cache in caches]
        for field, term in POSTED.items():
            # since 0.27.0 "peak activation" is a headroom with the estimate of the graphs in it
            is_other = term == "activation_peak" and in_range(deployment.engine.version, "0.27.0")
            if field not in row or not plans[0].ranks or is_other:
                continue
            value = round(row[field] * GIB)
            nearest = min((p.ranks[0].terms[term] for p in plans), key=lambda t: abs(t.bytes - value))
            total = plans[0].ranks[0].total_bytes
            place = (POSTS, deployment.engine.version, kind_of(model))
            yield _measured(place, term, row["id"], value, nearest, total, ROUNDING)


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
            place = (POSTS, deployment.engine.version, kind_of(model))
            yield _measured(place, "captured graphs", row["id"], value, term, total, ROUNDING)


def _measured(
    place: tuple[str, str, str], term: str, name: str, value: int, ours: Term, total: int, rounding: int = 0
) -> Measured:
    group, release, kind = place
    return Measured(group, term, name, value, ours.low - rounding, ours.high + rounding, total, release, kind)


def collect() -> dict[tuple[str, str], list[Measured]]:
    """(set, term) -> true values beside their intervals; exact terms are left out, and "all" has every set."""
    sets: dict[tuple[str, str], list[Measured]] = defaultdict(list)
    for source in (
        measured_on_the_h200, traced_on_the_h200, served_on_the_h200, newest_on_the_h200, posted, posted_captures
    ):  # fmt: skip
        for item in source():
            if item.high - item.low > 2 * ROUNDING:
                sets[item.group, item.term].append(item)
    for (_, term), items in list(sets.items()):
        sets[ALL, term] = [*sets[ALL, term], *items]
    return sets


def report() -> None:
    sets = collect()
    every = [item for (group, _), items in sets.items() if group != ALL for item in items]
    _print_table(
        "", {", ".join(key): items for key, items in sorted(sets.items(), key=lambda x: (x[0][0] != ALL, x[0]))}
    )
    for origin in (False, True):
        items = [item for item in every if item.is_posted == origin]
        word = "posted" if origin else "measured"
        _print_table(f"{word}, by kind of model", _grouped(items, lambda item: f"{item.kind}, {item.term}"))
        _print_table(f"{word}, by release", _grouped(items, lambda item: f"{item.release}, {item.term}"))

    close, judged = close_calls()
    print(f"  too close to call: {close} of {judged} random deployments ({close / judged:.1%})")


def _grouped(items: list[Measured], key: Callable[[Measured], str]) -> dict[str, list[Measured]]:
    groups: dict[str, list[Measured]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return dict(sorted(groups.items()))


def _print_table(title: str, groups: dict[str, list[Measured]]) -> None:
    print(f"\n  {title:<44}{'count':>6}{'inside':>8}{'median width':>14}{'of the card':>13}")
    for name, items in groups.items():
        inside = sum(item.is_inside for item in items) / len(items)
        width = median(item.high - item.low for item in items)
        share = median((item.high - item.low) / item.total for item in items)
        print(f"  {name:<44}{len(items):>6}{inside:>8.1%}{width / GIB:>10.2f} GiB{share:>12.2%}")
        for item in sorted(items, key=lambda item: -_distance(item))[:3]:
            if not item.is_inside and not title and not name.startswith(ALL):
                print(f"      {item.name}: {item.value / GIB:.2f} GiB, {item.low / GIB:.2f} to {item.high / GIB:.2f}")


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
