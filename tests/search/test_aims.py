"""What an arm is said to reach at most of an aim, it does not exceed when it is searched."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from oomph.answers.bare_plan import run
from oomph.search.best import BestFirst, objective_of
from oomph.search.request import Spaces, Want, base_of, models_of
from oomph.search.solve import Solver
from oomph.sources.gpu import parse_gpus

QUESTIONS = (
    ("Qwen/Qwen3-8B", "RTX 3060", "vllm", 0), ("Qwen/Qwen3.6-27B", "RTX 5090", "vllm", 0),
    ("openai/gpt-oss-20b", "B200", "vllm", 4), ("Qwen/Qwen3-30B-A3B", "2x RTX 3090", "sglang", 2),
)  # fmt: skip


@pytest.mark.parametrize("prefer", ["context", "users", "speed"])
@pytest.mark.parametrize(("model", "gpu", "engine", "users"), QUESTIONS)
def test_no_arm_reaches_more_of_an_aim_than_its_bound(
    model: str, gpu: str, engine: str, users: int, prefer: str
) -> None:
    gpus = parse_gpus(gpu)
    base, _ = base_of(model, gpus, engine)
    models, _ = models_of(base, False, ())
    spaces = Spaces(models, gpus, Want(0, users, prefer), base)
    search = BestFirst(Solver(base, models, run, spaces.default), spaces, objective_of(spaces))
    place = [measure.name for measure in search.objective.order].index(prefer)
    reached = 0
    chance = random.Random(f"{model} {prefer}")
    for arm in chance.sample(spaces.arms, 12):
        arm = replace(arm, unlimited=chance.random() < 0.5)
        answer = search.evaluate(arm)
        if answer is None:
            continue
        reached += 1
        by_size = search.aims.by_size(arm, search.space.contexts[0])
        for bound in (by_size, *(by_plan(arm) for by_plan in search.aims.by_plans)):
            assert answer.key[place] <= bound.get(prefer, float("inf")), f"{arm}: {bound}"
    assert reached or gpu == "RTX 3060"
