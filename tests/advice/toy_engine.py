"""An engine of a few lines, so that thousands of tables of levers can be judged in a second: memory is counted in units
of 64 MiB, and small numbers make equal sizes, exact fits and lacks of one unit common."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from oomph.advice.judge import Judge
from oomph.errors import OomphError
from oomph.ir.advice import Change, Kind, Lever
from oomph.ir.deployment import Deployment, Engine, Measured
from oomph.ir.hardware import Device
from oomph.ir.ledger import Term
from oomph.ir.plan import HostPart, HostPlan, KvSummary, Plan, RankPlan
from oomph.ir.timeline import STAGES, Margin, Stage, StageName, Verdict
from oomph.sources.gpu import parse_gpus
from oomph.units import MIB

UNIT = 64 * MIB
CONTEXT = 64  # of the model
(CARD,) = parse_gpus("RTX 4090")
SIZES = {"big": 0, "small": 6, "tiny": 11}  # how many units less each checkpoint takes


def card(units: int) -> Device:
    return replace(CARD, total_bytes=units * UNIT)


class Toy:
    """One random machine and model; `plan` is its planner."""

    def __init__(self, chance: random.Random) -> None:
        self.weights = chance.randint(10, 30)
        self.activation = chance.randint(1, 8)
        self.graphs = chance.randint(0, 5)
        self.others = chance.choice((0, 0, 2, 4))
        self.per_token = chance.choice((1, 2, 4, 8, 12)) * UNIT // 16
        self.late = chance.choice((0, 0, 0, 3))  # taken after the KV cache is there
        self.host = chance.choice((0, 0, 0, 12, 20, 30))
        self.slack = chance.choice((0, 0, 1, 3))  # how many units the interval is wide, on either side
        self.hosted = chance.random() < 0.15  # layers may be on the host
        self.dust = chance.choice(
            (0, 0, MIB - 1, MIB, -MIB)
        )  # given to the KV cache by a flag that does next to nothing
        share = chance.choice((0.7, 0.8, 0.9, 0.95, 1.0))
        flags = {"share": share, **({"max_model_len": chance.choice((8, 16, 64))} if chance.random() < 0.3 else {})}
        gpus = (card(chance.randint(24, 72)),)
        pinned = {"weights": self.weights * UNIT} if chance.random() < 0.2 else {}
        size = chance.randint(1, 8) * UNIT
        seen = {"activation_peak": Measured(size, size, size, 2)} if chance.random() < 0.3 else {}
        self.second = chance.choice((None, None, -1, 2))  # how many units less a second GPU holds
        self.tells_its_cache = chance.random() < 0.9
        self.deployment = Deployment(Engine("toy", "1.0"), "big", flags, gpus, given=pinned, measured=seen)

    def plan(self, deployment: Deployment) -> Plan:
        flags: dict[str, Any] = deployment.flags
        if flags.get("forbidden"):
            raise OomphError("the engine does not take it")
        gpu = deployment.gpus[0]
        weights = deployment.given.get("weights", self.weights * UNIT)
        weights -= (SIZES[deployment.model] + flags.get("offload", 0) + flags.get("layout", 0)) * UNIT
        activation = max(1, self.activation - flags.get("batch", 0)) * UNIT
        if "activation_peak" in deployment.measured:
            activation = deployment.measured["activation_peak"].bytes
        graphs = 0 if flags.get("eager") else max(0, self.graphs - flags.get("fewer_graphs", 0)) * UNIT
        context = flags.get("max_model_len", CONTEXT)
        per_token = self.per_token // (2 if flags.get("kv") else 1)
        need = context * per_token * (1 if deployment.environment.get("PAGES") else 2) // 2
        budget = int(gpu.total_bytes * flags["share"])
        budget += self.dust if flags.get("dust") else 0
        available = budget - weights - activation - graphs
        late = max(0, self.late - flags.get("late", 0)) * UNIT
        others = self.others * UNIT if deployment.engine.version == "1.0" else 0
        peaks = {
            "startup_free_memory": others + budget, "weights_load": others + weights,
            "profile_run": others + weights + activation, "kv_check": gpu.total_bytes + need - available,
            "cudagraph_capture": others + budget + graphs // 2, "sampler_warmup": others + budget + late,
        }  # fmt: skip
        if flags.get("eager"):
            del peaks["cudagraph_capture"]
        stages = [Stage(name, peak, peak) for name, peak in peaks.items()]  # type: ignore[arg-type]
        host = self._host(flags)
        verdict = self._verdict(gpu, stages, host)
        if flags.get("wrong"):
            verdict = Verdict(False, "other", message="the settings\n  do not go together")
        terms = {
            name: Term(name, size, size, size, "exact", {"half": size // 2})
            for name, size in {"weights": weights, "activation_peak": activation, "cudagraph": graphs}.items()
        }
        first = RankPlan(0, gpu.name, gpu.total_bytes, others, terms, tuple(stages), verdict, 0, budget)
        ranks = [first]
        if self.second is not None:
            less = replace(
                first, rank=1, total_bytes=gpu.total_bytes - self.second * UNIT, requested_bytes=budget - UNIT
            )
            ranks.append(less)
            verdict = replace(verdict, rank=int(self.second > 0))
        kv = KvSummary(available, 1, 1, 1, max(0, available) // per_token, available / max(1, need), (), need)
        shown = kv if self.tells_its_cache or available > need else None
        moved = {"host": {"weights": flags.get("offload", 0) * UNIT}} if self.hosted else {}
        resolved = {"max_model_len": context, **moved}
        return Plan(deployment, deployment.model, verdict, tuple(ranks), shown, resolved, host=host)

    def _host(self, flags: dict[str, Any]) -> HostPlan | None:
        if not self.host:
            return None
        size = (self.weights + flags.get("offload", 0) - flags.get("lean", 0)) * UNIT
        left = self.host * UNIT - size
        margin = Margin(left - self.slack * UNIT, left, left + self.slack * UNIT)
        return HostPlan((HostPart("weights", size, size, size),), 0, 0, "--ram", self.host * UNIT, margin)

    def _verdict(self, gpu: Device, stages: list[Stage], host: HostPlan | None) -> Verdict:
        rooms: list[tuple[StageName, int]] = [(stage.name, gpu.total_bytes - stage.peak_bytes) for stage in stages]
        if host is not None and host.margin is not None:
            rooms.append(("host_ram", host.margin.expected))
        name, room = next(((name, room) for name, room in rooms if room < 0), min(rooms, key=lambda pair: pair[1]))
        wide = self.slack * UNIT
        fits, sure = room >= 0, room - wide >= 0 or room + wide < 0
        risk = "a burst" if fits and name == "sampler_warmup" and room == 0 else ""
        stage = None if fits else name
        return Verdict(
            fits, stage, max(0, -room), "out of memory", 0, sure, name, Margin(room - wide, room, room + wide), "", risk
        )


def levers(chance: random.Random) -> Iterator[Lever]:
    """A table as an engine's, with the settings of each lever from the mildest on."""
    for name, settings, frees in (
        ("max_model_len", (48, 32, 16, 8, 4, 2, 1), None), ("batch", (1, 3, 7), ("activation_peak",)),
        ("fewer_graphs", (1, 2, 5), ("cudagraph",)), ("eager", (True,), ("cudagraph",)), ("kv", (True,), None),
        ("late", (1, 3), ()), ("lean", (1, 4), ()), ("dust", (1,), ("cudagraph.half",)), ("forbidden", (True,), None),
        ("wrong", (True,), None), ("nothing", (1, 2), ("no term",)),
        ("share", (0.75, 0.85, 0.95, 1.0), ("beyond the budget",)),
    ):  # fmt: skip
        if chance.random() < 0.6:
            moves = (*(frees or ()), *(["weights"] if chance.random() < 0.1 else []))
            changes = [
                Change(name, f"--{name} {value}", flags={name: value}, rank=chance.randint(0, 6), moves=moves)
                for value in settings
            ]
            yield _told(chance, Lever(name, tuple(changes), frees=frees, two_sided=name == "share"))
    for kind, changes in _others(chance):
        if chance.random() < 0.4:
            yield Lever(kind, tuple(changes))


def _told(chance: random.Random, lever: Lever) -> Lever:
    if chance.random() < 0.06:
        return replace(lever, refused="this release has no such flag")
    if chance.random() < 0.06:
        return replace(lever, idle="it is ignored here")
    if chance.random() < 0.25:
        return replace(lever, not_read={chance.choice(STAGES): "it is read later", "profile_run": "later"})
    return lever


def _others(chance: random.Random) -> Iterator[tuple[Kind, list[Change]]]:
    weights = ("weights",)
    yield "checkpoint", [Change("checkpoint", "small", "checkpoint", model="small", moves=weights, rank=1)]
    yield "checkpoint", [Change("checkpoint", "tiny", "checkpoint", model="tiny", moves=weights, rank=2)]
    yield "environment", [Change("pages", "PAGES=1", "environment", environment={"PAGES": "1"}, cost="slower")]
    yield "release", [Change("release", "2.0", "release", version="2.0", cost="an upgrade")]
    yield "hardware", [Change("gpus", "a larger card", "hardware", gpus=(card(chance.choice((40, 60))),))]
    yield (
        "layout",
        [
            Change("layout", f"--layout {units}", "layout", flags={"layout": units}, moves=weights, cost="more links")
            for units in (1, 3)
        ],
    )
    yield (
        "offload",
        [
            Change("offload", f"--offload {units}", "offload", flags={"offload": units}, moves=weights, cost="slower")
            for units in (2, 6)
        ],
    )


def problems(seeds: range) -> Iterator[tuple[int, Judge, list[Lever]]]:
    for seed in seeds:
        chance = random.Random(seed)
        toy = Toy(chance)
        writer = lambda deployment: f"{deployment.model} {sorted(deployment.flags.items())}"  # noqa: E731
        yield seed, Judge(toy.plan(toy.deployment), toy.plan, writer), list(levers(chance))
