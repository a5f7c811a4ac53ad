"""fit on random toy machines, as stored: lines, neighbours, refusals and the plans on the way, whatever a planner says.

The planner is a few lines that count memory in units of 64 MiB, so that equal sizes, exact fits and lacks of one unit
are common, and hundreds of plans take milliseconds. `python tools/replay.py renew toy_fit` stores them
again, the answer and the way to it, and a commit that does says why.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from stored_answers import Row, check_table

from oomph.answers.plan import load
from oomph.errors import OomphError
from oomph.ir.deployment import Deployment
from oomph.ir.hardware import Device
from oomph.ir.ledger import Term
from oomph.ir.model import Model
from oomph.ir.plan import KvGroup, KvSummary, Plan, RankPlan
from oomph.ir.timeline import Margin, Stage, Verdict
from oomph.search.fit import Fit, fit
from oomph.search.request import Want
from oomph.sources.gpu import parse_gpus
from oomph.units import MIB

RELEASE = "vllm==0.21.0"
UNIT = 64 * MIB
MACHINES = 80
EACH = 16  # machines of one test
(CARD,) = parse_gpus("RTX 4090")
NAMES = ("Qwen/Qwen3-8B", "openai/gpt-oss-20b", "google/gemma-3-27b-it", "cyankiwi/Qwen3.6-27B-AWQ-INT4")


class Toy:
    """One random machine, and how much a model takes on it; `plan` is its planner."""

    def __init__(self, seed: int) -> None:
        chance = self.chance = random.Random(seed)
        self.name = chance.choice(NAMES)
        self.count = chance.choice((1, 1, 1, 2, 2, 4))
        self.activation = chance.randint(2, 12)
        self.graphs = chance.randint(0, 6)
        self.context = chance.choice((2, 8))
        self.per_token = chance.choice((UNIT // 2048, UNIT // 512, UNIT // 128))
        self.slack = chance.choice((0, 0, 1, 2))  # how many units the interval is wide, on either side
        self.refuses = chance.choice(("", "", "", "kv_cache_dtype", "enforce_eager"))
        self.grows = chance.choice((0, 0, 0, 1, 2))  # units of activation for every 4,096 tokens of the context
        self.shrink = chance.choice((1, 1, 2, 3))  # how much smaller than the checkpoint the weights are
        nodes = chance.choice((1, 1, 1, 2)) if self.count > 1 else 1
        least = load(self.name).nbytes // UNIT // self.shrink // self.count  # units of weights on each GPU
        units = int(least * chance.choice((0.6, 0.9, 1.1, 1.3, 1.6))) + chance.randint(0, 30)
        used = chance.choice((0, 0, 5)) * UNIT
        self.gpus: tuple[Device, ...] = tuple(
            replace(CARD, total_bytes=units * UNIT, used_bytes=used, node=number * nodes // self.count)
            for number in range(self.count)
        )
        self.want = Want(
            chance.choice((0, 0, 4096, 16384, 65536, load(self.name).max_position)), chance.choice((0, 0, 1, 3, 16)),
            chance.choice(("", "", "context", "users", "quality", "speed")),
        )  # fmt: skip
        self.only = chance.random() < 0.7
        self.asked: list[Any] = []  # every plan and every step that is told, in turn

    def answer(self) -> Fit | str:
        try:
            return fit(
                self.name, self.gpus, self.want, engine=RELEASE, only=self.only, planner=self.plan, explain=True,
                progress=lambda *step: self.asked.append(step),
            )  # fmt: skip
        except OomphError as error:
            return error.message

    def plan(self, deployment: Deployment, model: Model | None = None) -> Plan:
        assert model is not None
        flags: dict[str, Any] = deployment.flags
        self.asked.append((deployment.model, sorted(flags.items(), key=str)))
        if self.refuses and flags.get(self.refuses):
            raise OomphError(f"the engine does not take {self.refuses}")
        ranks = flags.get("tensor_parallel_size", 1) * flags.get("pipeline_parallel_size", 1)
        device = deployment.gpus[0]
        total, used = device.total_bytes, device.used_bytes
        share = flags.get("gpu_memory_utilization", 0.92)
        length, users = flags["max_model_len"], flags.get("max_num_seqs", 64)
        offloaded = int(flags.get("cpu_offload_gb", 0)) * 16
        weights = max(1, model.nbytes // UNIT // self.shrink // ranks - offloaded) * UNIT
        towers = 0 if flags.get("limit_mm_per_prompt") or flags.get("language_model_only") else 2 * UNIT
        activation = self.activation * UNIT // (2 if flags.get("max_num_batched_tokens") else 1) + towers
        activation += self.grows * length // 4096 * UNIT
        graphs = 0 if flags.get("enforce_eager") else self.graphs * UNIT
        graphs //= 2 if flags.get("max_cudagraph_capture_size") else 1
        per_token = self.per_token // (2 if flags.get("kv_cache_dtype") else 1) // ranks
        drafts = UNIT if flags.get("speculative_config") else 0
        context, budget = self.context * UNIT // 4, int(total * share)
        available = budget - context - weights - activation - drafts
        need = length * per_token
        wide = self.slack * UNIT
        peaks = {
            "startup_free_memory": used + context, "weights_load": used + context + weights,
            "profile_run": used + context + weights + activation + drafts,
            "cudagraph_capture": used + budget - activation + graphs,
        }  # fmt: skip
        room = {name: total - peak for name, peak in peaks.items()}
        room["startup_free_memory"] = total - used - context - budget
        room["kv_check"] = available - need
        name = next((one for one, left in room.items() if left < 0), min(room, key=room.__getitem__))
        left = room[name]
        fits, sure = left >= 0, left - wide >= 0 or left + wide < 0
        verdict = Verdict(
            fits, None if fits else name, max(0, -left), "out of memory", 0, sure, name,  # type: ignore[arg-type]
            Margin(left - wide, left, left + wide),
        )  # fmt: skip
        stages = [Stage(one, peak, peak, peak - wide, peak + wide) for one, peak in peaks.items()]  # type: ignore[arg-type]
        terms = {
            "weights": Term("weights", weights, weights, weights, "exact"),
            "context": Term("context", context, context, context, "exact"),
            "available_kv": Term("available_kv", available, available - wide, available + wide, "exact"),
        }
        rows = [
            RankPlan(rank, device.name, total, used, terms, tuple(stages), verdict, 0, budget) for rank in range(ranks)
        ]
        page = max(1, 16 * per_token)
        blocks = max(0, available) // page
        kv = KvSummary(
            available, blocks, page, 16, blocks * 16, blocks * page / max(1, need),
            (KvGroup("full", 1, 16, page),), need,
        )  # fmt: skip
        resolved = {
            "max_model_len": length, "max_num_seqs": users, "gpu_memory_utilization": share,
            "max_num_batched_tokens": flags.get("max_num_batched_tokens", 8192),
        }  # fmt: skip
        return Plan(deployment, deployment.model, verdict, tuple(rows), kv, resolved)


def row(answer: Fit | str) -> Any:
    if isinstance(answer, str):
        return answer
    lines = [
        (one.point, one.relative_speed, one.gives_up, one.note, one.plan.deployment.flags)
        for one in (*answer.front, *answer.nearest, *([answer.pick] if answer.pick else []))
    ]
    parts = (answer.met, answer.close, answer.neighbours, answer.refused, answer.notes, answer.in_short())
    return lines, parts


def rows(first: int) -> Iterator[Row]:
    """The answer, and the way to it: a search that plans more, or in another order, is another search. `way` alone may
    change where a search was made quicker; then no answer does."""
    with pytest.MonkeyPatch.context() as patch:
        without_times(patch)
        for seed in range(first, first + EACH):
            toy = Toy(seed)
            answer = toy.answer()
            plans = answer.plans if isinstance(answer, Fit) else 0
            yield f"{seed}", {"answer": row(answer), "plans": plans, "way": toy.asked}


TABLES: dict[str, Callable[[], Iterator[Row]]] = {
    f"{first:02}": partial(rows, first) for first in range(0, MACHINES, EACH)
}


@pytest.fixture(autouse=True)
def _no_times(monkeypatch: pytest.MonkeyPatch) -> None:
    without_times(monkeypatch)


def without_times(patch: pytest.MonkeyPatch) -> None:
    """The roofline of search/score.py instead of the time model, which wants a whole plan."""
    patch.setattr("oomph.search.fit.plan_speed", lambda plan, model, users: None)
    patch.setattr("oomph.search.best.plan_speed", lambda plan, model, users: None)


@pytest.mark.parametrize("name", TABLES)
def test_a_fit_is_as_stored(name: str) -> None:
    check_table("toy_fit", name, TABLES[name]())


def test_every_line_of_a_front_fits_and_is_what_was_wanted() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(EACH):
        toy = Toy(seed)
        answer = toy.answer()
        if isinstance(answer, str):
            kinds["refused"] += 1
            continue
        kinds["met" if answer.met else "close" if answer.close else "nearest" if answer.nearest else "nothing"] += 1
        for line in answer.front:
            assert line.plan.verdict.outcome == "fits"
            assert line.point.context >= toy.want.context and line.point.users >= toy.want.users
    assert min(kinds[kind] for kind in ("met", "nothing")) > 0, kinds
