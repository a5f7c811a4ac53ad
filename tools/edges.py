"""Where the longest context stops to fit, for random deployments: is the edge called honestly?

    python tools/edges.py COUNT [SEED]      what is wrong with each of COUNT edges; exit code 1 if anything is

For each deployment the contexts are searched at which the outcome changes: from `fits` to `close`, and from `close` to
`fails`. Between the two nothing may be sure, the expected edge (where `fits` of the JSON turns false) must lie inside,
and text and JSON must say the same.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from random_plans import contradictions

from oomph import catalog
from oomph.answers.plan import plan
from oomph.errors import OomphError
from oomph.facts.gpus import rows as gpu_rows
from oomph.facts.vllm.versions import RELEASES
from oomph.ir.plan import Plan

STEP = 16  # tokens: one block
LONGEST = 1 << 20


class Edge(NamedTuple):
    sure_fit: int  # the longest context that surely fits, in steps
    expected: int  # the longest that fits in the expected case
    close: int  # the longest that is too close to call


def planner(draw: random.Random) -> tuple[str, Callable[[int], Plan]]:
    """A deployment, and its plan with a context of so many steps."""
    card, width = draw.choice([row.name for row in gpu_rows()]), draw.choice((1, 1, 2, 4, 8))
    model, release = draw.choice(list(catalog.ids())), draw.choice(RELEASES[10:])
    share = draw.choice((0.8, 0.85, 0.9, 0.92))
    words = ["vllm", "serve", model, "--tensor-parallel-size", str(width), "--gpu-memory-utilization", str(share)]
    # the edge of memory and not the one of the model's config.json
    environment = ["env", "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"]

    def planned(steps: int) -> Plan:
        context = ["--max-model-len", str(max(1, steps) * STEP)]
        command = [*environment, *words, *context]
        return plan(command, gpu=f"{width}x {card}", engine=f"vllm=={release}", advise=False)

    return f"{width}x {card} vllm=={release} {' '.join(words)}", planned


def longest(planned: Callable[[int], Plan], holds: Callable[[Plan], bool]) -> int:
    """By bisection; what holds at a context holds at every shorter one."""
    low, high = 1, LONGEST // STEP
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(planned(middle)) else (low, middle)
    return low


def find_edge(planned: Callable[[int], Plan]) -> Edge | None:
    """None: there is none between one block and the longest context, or another stage than the KV check decides."""
    first, last = planned(1), planned(LONGEST // STEP)
    if first.verdict.outcome != "fits" or last.verdict.outcome != "fails" or last.verdict.stage != "kv_check":
        return None
    fits = longest(planned, lambda answer: answer.verdict.outcome == "fits")
    expected = longest(planned, lambda answer: answer.fits)
    close = longest(planned, lambda answer: answer.verdict.outcome != "fails")
    return Edge(fits, expected, close)


def problems(planned: Callable[[int], Plan], edge: Edge, draw: random.Random) -> Iterator[str]:
    if not edge.sure_fit <= edge.expected <= edge.close:
        yield f"the expected edge is outside: {edge}"
    if edge.close == edge.sure_fit:
        yield "nothing is too close to call"
    inside = [draw.randint(edge.sure_fit + 1, edge.close) for _ in range(4)] if edge.close > edge.sure_fit else []
    # around the expected edge too: one block more or less is where a check of its own may say something else
    middle = [edge.expected + step for step in range(-1, 4) if edge.sure_fit < edge.expected + step <= edge.close]
    for steps in sorted({edge.sure_fit, edge.sure_fit + 1, edge.close, edge.close + 1, *inside, *middle}):
        answer = planned(steps)
        expected = "fits" if steps <= edge.sure_fit else "close" if steps <= edge.close else "fails"
        starts_at_risk = (
            expected == "close" and answer.verdict.outcome == "at_risk"
        )  # nothing sure is said there either
        if answer.verdict.outcome != expected and not starts_at_risk:
            yield f"{steps * STEP} tokens: {answer.verdict.outcome}, not {expected}"
        yield from (f"{steps * STEP} tokens: {text}" for text in contradictions(answer))


def edges(count: int, seed: int) -> Iterator[tuple[str, Edge, list[str]]]:
    draw = random.Random(seed)
    while count:
        name, planned = planner(draw)
        try:
            edge = find_edge(planned)
        except OomphError:
            continue
        if edge is not None:
            count -= 1
            yield name, edge, list(problems(planned, edge, draw))


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    wrong, widths = 0, []
    for name, edge, texts in edges(count, seed):
        wrong += bool(texts)
        widths.append((edge.close - edge.sure_fit) / edge.expected)
        for text in texts:
            print(f"{text}: {name}")
    print(f"{count} edges (seed {seed}): {wrong} wrong; contexts too close to call: {median(widths):.1%} of the edge")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
