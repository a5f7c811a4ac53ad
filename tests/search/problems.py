"""Random small problems for the search, and their answer by trying everything."""

from __future__ import annotations

import random
from functools import lru_cache
from itertools import product
from typing import Any

from oomph.answers.plan import load, run
from oomph.facts.vllm.facts import at
from oomph.facts.vllm.versions import NEWEST
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.ir.model import Model
from oomph.search.request import Arm, Layout, Options, Space, arms_of
from oomph.search.solve import Point, Solver, pareto
from oomph.units import GIB, MIB

# Every cache kind that fit() meets: full, sliding window, latent, recurrent, experts, four and eight bits, images, MTP.
MODELS = (
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-8B-FP8",
    "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4",
    "google/gemma-3-27b-it",
    "openai/gpt-oss-20b",
    "cyankiwi/Qwen3.6-27B-AWQ-INT4",
    "deepseek-ai/DeepSeek-V2-Lite",
)
VERSIONS = (NEWEST, "0.21.0")
CARDS = ((8, 0), (8, 9), (9, 0), (12, 0))


@lru_cache(maxsize=16)
def model(name: str) -> Model:
    return load(name)


def problem(seed: int) -> tuple[Solver, Space]:
    rng = random.Random(seed)
    names = rng.sample(MODELS, rng.choice((1, 1, 2)))
    models = {n: model(n) for n in names}
    count = rng.choice((1, 1, 2))
    need = min(m.nbytes for m in models.values())
    total = int(need * rng.uniform(0.9, 1.6) / count + rng.uniform(0.5, 6) * GIB)
    used = rng.choice((0, 300 * MIB))
    gpu = Device("card", total, rng.choice(CARDS), sm_count=132, bandwidth=10**12, used_bytes=used)
    version = rng.choice(VERSIONS)
    base = Deployment(Engine("vllm", version), names[0], {}, (gpu,) * count)
    shapes = [Layout()] if count == 1 else rng.sample([Layout(), Layout(2), Layout(1, 2)], 2)
    options = Options(
        kv_dtypes=_some(rng, ("auto", "fp8")),
        graphs=_some(rng, ("all", "few", "eager")),
        text_only=_some(rng, (False, True)),
        drafts=_some(rng, (0, 1)),
        prefix_off=_some(rng, (False, True)),
        tokens=_some(rng, (0, 2048)),
    )
    arms = [a for n, m in models.items() for a in arms_of(n, m, shapes, options)]
    default = at(version).limits.utilization
    space = Space(
        tuple(rng.sample(arms, min(len(arms), 3))),
        tuple(sorted(rng.sample((1024, 2048, 4096, 8192, 16384, 32768), 3))),
        tuple(sorted(rng.sample((1, 2, 3, 8, 16, 64), 3))),
        tuple(sorted({default, *rng.sample((0.6, 0.8, 0.95, 0.97, 0.98, 0.99), 3)})),
    )
    return Solver(base, models, run, default, margin=rng.random() < 0.7), space


def _some(rng: random.Random, values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted(rng.sample(values, rng.randint(1, len(values))), key=values.index))


GRID = tuple(range(1024, 40960, 6144))


def everything(solver: Solver, space: Space, grid: tuple[int, ...] = ()) -> list[Point]:
    """The front by planning the whole product, and with `grid` also each arm at its longest context."""
    points = []
    for arm in space.arms:
        rank = solver.rank(arm, space)
        if rank is None:
            continue

        def at(context: int, users: int, arm: Arm = arm, rank: tuple[float, int] = rank) -> list[Point]:
            out = []
            for utilisation in space.utilisations:
                found = solver.outcome(arm, context, users, utilisation)
                if found.kind == "ok" and found.concurrency >= users:
                    out.append(
                        Point(
                            arm=arm, context=context, users=users, utilisation=utilisation, quality=rank[0],
                            speed=rank[1], concurrency=found.concurrency,
                        )
                    )  # fmt: skip
            return out

        longest = max((c for c in grid if at(c, space.users[0])), default=0)
        for context, users in product({*space.contexts, longest} - {0}, space.users):
            points += at(context, users)
    return pareto(points)
