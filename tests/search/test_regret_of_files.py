"""Regret of searches for files: no command of llama.cpp or Ollama that is drawn and planned without the search is
better by the stated objective. OOMPH_REGRET=300 asks 100 questions (`make long`), OOMPH_REGRET_FROM=N others."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from msgspec.structs import replace
from regret import MODELS, TIES

from oomph.answers.bare_plan import run
from oomph.answers.compare import compare
from oomph.commands import parse_command
from oomph.engines.llamacpp.offer import QUANTS
from oomph.engines.llamacpp.source import repository_of_files
from oomph.engines.registry import engine_of
from oomph.errors import OomphError
from oomph.ir import Experts, Plan
from oomph.ir.objective import (
    LEAST_CONTEXT,
    Objective,
    serving_objective,
    shortness,
    slowness,
    speed_step,
    users_step,
)
from oomph.search.fit import fit
from oomph.search.request import Want
from oomph.search.screen import with_screen
from oomph.simulate.speed import speed_of
from oomph.sources.gpu import parse_gpus
from oomph.sources.load import load_once

QUESTIONS = int(os.environ.get("OOMPH_REGRET", "30")) // 3
DRAWN = 300 if QUESTIONS > 10 else 30
FROM = int(os.environ.get("OOMPH_REGRET_FROM", "0")) + 4000
MACHINES = ("RTX 3060", "RTX 4060 8GB", "RTX 3090", "RTX 5090, 96GB RAM", "2x RTX 3090", "Tesla P40", "GTX 1080 Ti",
            "M2 16GB", "M4 Pro 48GB", "M4 Max 128GB", "RX 7900 XTX", "H100", "RTX 4090, 64GB RAM", "GB10")  # fmt: skip
CONTEXTS = (4096, 8192, 10240, 13312, 16384, 24576, 32768, 40960, 65536, 131072)


class Command(NamedTuple):
    quant: str
    slots: int
    context: int
    cache: str
    batch: int
    experts: int
    layers: int

    @property
    def is_whole(self) -> bool:
        return not self.experts and not self.layers


class Question:
    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.model, self.gpu, self.engine = rng.choice(MODELS), rng.choice(MACHINES), rng.choice(("llamacpp", "ollama"))
        context = rng.choice((0, 0, 4096, 8192, 16384, 32768))
        self.want = Want(
            context, rng.choice((0, 0, 1, 2, 8)), rng.choice(("", "", "quality", "users", "context", "speed"))
        )
        self.gpus = with_screen(parse_gpus(self.gpu))
        model = load_once(self.model)
        self.longest = model.max_position
        self.is_routed = any(isinstance(m, Experts) for layer in model.layers for m in layer.block.modules)
        uncounted = () if context or self.want.users or self.want.prefer == "users" else ("users",)
        self.objective: Objective = serving_objective(
            checkpoint=self.model, context=context, users=self.want.users, prefer=self.want.prefer,
            without=("images", "prefix", "screen", "graphs", "limit", *uncounted),
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"{self.model} on {self.gpu} by {self.engine}: {self.want}"

    def words(self, one: Command) -> list[str]:
        repository = repository_of_files(self.model)
        assert repository
        if self.engine == "ollama":
            cache = ["OLLAMA_FLASH_ATTENTION=1", f"OLLAMA_KV_CACHE_TYPE={one.cache}"] if one.cache else []
            settings = [f"OLLAMA_NUM_PARALLEL={one.slots}", f"OLLAMA_CONTEXT_LENGTH={one.context}"]
            return [*settings, *cache, "ollama", "run", f"hf.co/{repository}:{one.quant}"]
        words = ["llama-server", "-hf", f"{repository}:{one.quant}", "-c", str(one.context * one.slots)]
        words += ["-np", str(one.slots)]
        for flag, value in (("-ctk", one.cache), ("-ctv", one.cache), ("-ub", one.batch), ("-ngl", one.layers)):
            words += [flag, str(value)] if value else []
        return words + (["--n-cpu-moe", str(one.experts)] if one.experts else [])

    def commands(self, rng: random.Random) -> Iterator[Command]:
        want, layers = self.want, len(load_once(self.model).layers)
        while True:
            contexts = [c for c in (*CONTEXTS, self.longest) if want.context <= c <= self.longest]
            fixed = want.context and want.prefer != "context"
            context = want.context if fixed else rng.choice(contexts or [self.longest])
            slots = max(want.users, 1) if want.prefer != "users" else max(want.users, rng.choice((1, 2, 4, 8, 16, 32)))
            beside = (
                "itself",
                "layers",
                *(["experts"] if self.is_routed else []),
            )  # of others the flag turns --fit off
            where = rng.choice(("gpu", "gpu", *beside)) if self.engine == "llamacpp" else "gpu"
            plain = Command("Q4_K_M" if self.engine == "ollama" else rng.choice(QUANTS), slots, context, "", 0, 0, 0)
            if where == "gpu":
                yield plain._replace(
                    cache=rng.choice(("", "q8_0")), batch=rng.choice((0, 256)) if self.engine == "llamacpp" else 0
                )
            elif where == "itself":
                yield plain
            else:
                yield plain._replace(**{where: rng.randint(1, layers)})

    def key(self, one: Command, plan: Plan) -> tuple[float, ...] | None:
        """None: it does not serve what is asked for."""
        users, resolved = self.want.users or 1, plan.resolved
        held = resolved.get("num_parallel", resolved.get("n_seq_max"))
        if plan.verdict.outcome != "fits" or (one.slots > 1 and held != one.slots):
            return None
        if plan.host is not None and plan.host.absent_bytes:
            return None
        whole = resolved["layers"] == resolved["offloaded"] and not resolved["host"]["parts"].get("experts")
        timing = engine_of(plan.deployment).timing(plan, load_once(self.model))
        assert timing is not None
        speed = speed_of(timing, users)
        rate = speed.all_users / speed.users
        quants = ("Q4_K_M",) if self.engine == "ollama" else QUANTS
        return self.objective.key({
            "request": 0.0, "reading": slowness(rate), "on_gpu": 0.0 if whole else -1.0,
            "length": 0.0 if one.context >= min(LEAST_CONTEXT, self.longest) else -1.0,
            "precision": -float(quants.index(one.quant)), "kv_bits": -1.0 if one.cache else 0.0,
            "steps": -1.0 if one.batch else 0.0, "enough": shortness(one.context, self.longest),
            "speed": speed_step(rate), "users": users_step(one.slots), "plain": -float(len(self.words(one))),
            "context": users_step(one.context) if self.want.prefer == "context" else float(one.context),
        })  # fmt: skip

    def planned(self, one: Command) -> Plan | None:
        try:
            return run(replace(parse_command(self.words(one)), gpus=self.gpus))
        except OomphError:
            return None

    def better(self, key: tuple[float, ...], seed: int) -> list[tuple[tuple[float, ...], Command]]:
        out, drawn = [], self.commands(random.Random(seed))
        for _ in range(DRAWN):
            one = next(drawn)
            plan = self.planned(one)
            found = self.key(one, plan) if plan is not None else None
            if found is not None and found > key and not self.tied(key, found):
                out.append((found, one))
        return out

    def tied(self, key: tuple[float, ...], found: tuple[float, ...]) -> bool:
        place = next(n for n, (x, y) in enumerate(zip(found, key, strict=True)) if x != y)
        name = self.objective.order[place].name
        near = abs(found[place] - key[place]) <= 1 or (name == "context" and found[place] <= 1.07 * key[place])
        return name in TIES and near


@pytest.mark.parametrize("seed", range(FROM, FROM + QUESTIONS))
def test_no_file_that_is_drawn_is_better_than_what_fit_picks(seed: int) -> None:
    asked = Question(seed)
    answer = fit(asked.model, asked.gpu, asked.want, engine=asked.engine)
    key = (-1.0,) * len(asked.objective.order)
    if answer.met:
        assert answer.pick is not None
        resolved, point = answer.pick.plan.resolved, answer.pick.point
        quant = answer.pick.precision
        own = Command(quant, point.users, point.context, "", 0, 0, 0)
        gives = answer.pick.gives_up
        own = own._replace(
            cache="q8_0" if "16-bit KV cache" in gives else "", batch=256 if "large prefill steps" in gives else 0
        )
        assert resolved["layers"]
        told = asked.key(own, answer.pick.plan)
        assert told is not None, asked
        key = told
    assert not asked.better(key, seed), f"seed {seed}: {asked}: {answer.pick.command if answer.pick else None}"


@pytest.mark.parametrize("seed", range(FROM + 500, FROM + 500 + max(2, QUESTIONS // 5)))
def test_compare_names_the_file_that_fit_picks(seed: int) -> None:
    asked = Question(seed)
    context = min(asked.want.context or 8192, asked.longest)
    want = Want(context, asked.want.users if asked.want.users > 1 else 0)
    answer = fit(asked.model, asked.gpu, want, engine=asked.engine)
    row = compare(asked.model, gpu=asked.gpu, context=context, users=want.users or 1, engines=(asked.engine,)).rows[0]
    assert row.fits is answer.met
    if answer.met:
        assert answer.pick is not None and answer.pick.command == row.command
