"""models, gpus and the trials of one candidate on random toy catalogues, as stored: answers, words, and the way there.

Whatever an engine would answer is drawn at random from few values, so that ties and bounds are common and a search
takes milliseconds. `python tools/replay.py renew toy_searches` stores them again, and a commit that does says why.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from stored_answers import Row, check_table

from oomph.answers.plan import plan
from oomph.catalog.facts import TAGS, CheckpointFacts, Facts, ModelFacts
from oomph.errors import OomphError
from oomph.facts.gpus import find
from oomph.ir.plan import Plan
from oomph.search import cards, models
from oomph.search.candidates import PURPOSES, Candidate, Filters
from oomph.search.outcome import Outcome
from oomph.search.prices import Api, Load, Prices
from oomph.search.quality import Quality
from oomph.search.request import Want
from oomph.search.trial import Served, Trial
from oomph.simulate.speed import Speed
from oomph.sources.gpu import parse_gpus
from oomph.units import GIB

RELEASE = "vllm==0.21.0"
GPU = parse_gpus("RTX 4090")
PRECISIONS = ("BF16", "FP8", "INT4", "FP4")


@cache
def served(command: str = "vllm serve Qwen/Qwen3-8B --max-model-len 8192") -> Plan:
    return plan(command, gpu="RTX 4090", engine=RELEASE if command.startswith("vllm") else "", advise=False)


def speed(chance: random.Random) -> Speed | None:
    one, several = chance.choice((10.0, 12.5, 20.0, 25.0, 40.26)), chance.choice((1, 1.5, 2))
    return None if chance.random() < 0.15 else Speed(one, one * several, 1, 0.1, 2048, 1.2, 0)


# --- models ----------------------------------------------------------------------------------------------------------


def catalogue(chance: random.Random) -> Facts:
    found = []
    checkpoints = []
    for number in range(chance.randint(1, 12)):
        value, wide = chance.choice((8.0, 20.0, 21.6, 25.0, 40.0)), chance.choice((0.0, 2.0, 6.0))
        parameters = chance.choice((4, 8, 9)) * 10**9
        sizes = tuple(parameters * bits // 8 for bits in (8, 6, 5, 4, 4, 3, 2))
        found.append(
            ModelFacts(
                f"family {number}", f"maker/Model-{number}", parameters, parameters // chance.choice((1, 4)),
                chance.choice((512, 8192, 16384, 40960, 40960)), chance.choice((0, 2**14, 2**17)),
                chance.choice(("c", "ck", "cr", "crv", "crv", "cv", "cve")),
                chance.choice(("", "2025-12-01", "2026-03-01")),
                chance.choice(("mit", "apache-2.0", "own")), (value, value - wide, value + wide), chance.randint(0, 2),
                chance.choice(("", f"files/Model-{number}-GGUF")), sizes if chance.random() < 0.7 else (),
            )
        )  # fmt: skip
        for precision in chance.sample(PRECISIONS, chance.randint(0, 3)):
            bits = {"BF16": 16, "FP8": 8}.get(precision, 4)
            name = f"maker/Model-{number}" + ("" if precision == "BF16" else f"-{precision}")
            checkpoints.append(CheckpointFacts(name, number, parameters * bits // 8, precision, bits == 16, 0))
    return Facts(("a table", "another table", "no published figure: from its size"), tuple(found), tuple(checkpoints))


def ask(chance: random.Random) -> models.Ask:
    engines = chance.choice(((), (), (), ("vllm",), ("llamacpp",), ("sglang", "ollama"), ("vllm==0.21.0", "ollama")))
    filters = Filters(
        chance.choice(((), (), (), ("model",), ("maker", "2"))), chance.choice(("", "", "", "open", "MIT")),
        chance.choice(("", "", "", "2026")), engines, chance.choice((0.0, 0.0, 0.0, 8.0)),
        chance.choice((0.0, 0.0, 0.0, 8.0)),
    )  # fmt: skip
    return models.Ask(
        chance.choice((*PURPOSES, "chat", "chat")), chance.choice((0, 0, 0, 512, 8192, 16384)),
        chance.choice((0, 1, 3)),
        chance.choice(("", "", "quality", "speed", "context", "users")), filters, chance.choice((0, 1, 2, 3, 10, 10)),
    )  # fmt: skip


def search_models(seed: int, patch: pytest.MonkeyPatch) -> Any:
    chance = random.Random(seed)
    known, wanted = catalogue(chance), ask(chance)
    patch.setattr("oomph.search.quality._sisters", dict)  # those of the real catalogue
    way: list[Any] = []
    stop = chance.choice((None,) * 8 + (0, 2))

    def serve(
        self: Trial, candidate: Candidate, engine: str, context: int, longest: bool, spill: bool = False
    ) -> Served | None:
        self.plans += 1
        way.append((candidate.checkpoint, candidate.tag, engine, context, longest))
        draw = random.Random(f"{seed} {candidate.checkpoint} {candidate.tag} {engine}")
        if draw.random() < 0.25:
            self.short.setdefault((candidate.checkpoint, candidate.tag), draw.choice((0, 1, 3)) * GIB)
            return None
        name = f"{draw.choice(('', 'hf.co/'))}{candidate.checkpoint}"
        command = draw.choice(("vllm serve Qwen/Qwen3-8B --max-model-len 8192", "ollama run qwen3:8b"))
        whole = served(command)
        variables = draw.choice(({}, {"OLLAMA_NUM_PARALLEL": "2"}, {"A": "1", "B": "2"}))
        stages = tuple(
            replace(one, peak_high=one.peak_high + draw.choice((0, 9)) * GIB) for one in whole.ranks[0].stages
        )
        whole = replace(
            whole, deployment=replace(whole.deployment, model=name, environment=variables),
            ranks=(replace(whole.ranks[0], stages=stages),),
        )  # fmt: skip
        length = min(context * draw.choice((1, 2)), candidate.model.context) if longest else context
        return Served(whole, length, self.users, self.users * draw.choice((1, 2, 4)))

    def tell(name: str, number: int, count: int) -> None:
        way.append((name, number, count))
        if number == stop:
            raise KeyboardInterrupt

    patch.setattr("oomph.search.candidates.facts", lambda: known)
    patch.setattr("oomph.search.quality.facts", lambda: known)
    patch.setattr(models, "_speed", lambda one, candidate: speed(random.Random(f"{seed} {candidate} {one.context}")))
    patch.setattr(Trial, "serve", serve)
    answer = models.Search(GPU, wanted).run(tell)
    picks = [
        [getattr(pick, name) for name in pick.__struct_fields__ if name not in ("plan", "quality")]
        for pick in answer.picks
    ]
    rest = [getattr(answer, name) for name in answer.__struct_fields__ if name not in ("gpus", "picks")]
    return picks, rest, way


# --- gpus ------------------------------------------------------------------------------------------------------------

NAMES = (
    "RTX 4090", "RTX 3090", "RTX 3060 12GB", "T4", "L4", "A10G", "H100 SXM", "A100 SXM 80GB", "DGX Spark", "B200",
    "RTX 3090 Ti", "RTX 5090", "V100 SXM2 16GB", "RTX 4090 Laptop", "MI300X", "L40S",
)  # fmt: skip


@cache
def known_cards() -> list[Any]:
    return [find(name) for name in NAMES]


def search_cards(seed: int, patch: pytest.MonkeyPatch) -> Any:
    chance = random.Random(seed)
    some = chance.sample(known_cards(), chance.randint(4, len(NAMES)))
    priced = {row.name: float(chance.choice((400, 800, 800, 1600))) for row in some[: chance.randint(1, 6)]}
    prices = chance.choice((None, priced, Prices(priced, "2026-11-01", "a shop", chance.choice(("card", "hour")))))
    names = chance.choice(((), (), tuple(row.name for row in some[:3])))
    way: list[Any] = []
    stop = chance.choice((None,) * 8 + (0, 3))
    longest = chance.choice((4096, 8192, 8193, 40960, 40960, 40960))

    def seek(row: Any, count: int, price: float | None, want: Want) -> tuple[cards.Card | None, int]:
        draw = random.Random(f"{seed} {row.name} {count}")
        way.append((row.name, count, price, want.context, want.users))
        if draw.random() < 0.3:
            return None, draw.randint(1, 3)
        card = cards.Card(
            row.name, count, row.total_bytes * count, row.nominal_gb * count, price, "a/b", "", "", served(), 0,
            draw.choice((1, 2, 4)), draw.choice((4096, 8192)), speed=speed(draw),
        )  # fmt: skip
        return card, draw.randint(1, 3)

    def tell(name: str, number: int, count: int) -> None:
        way.append((name, number, count))
        if number == stop:
            raise KeyboardInterrupt

    least = chance.choice((0, 20, 60)) * GIB
    api = chance.choice((None, Api(0.15, 0.6))) if prices or chance.random() < 0.1 else None
    patch.setattr(cards, "rows", lambda: some)
    patch.setattr(cards, "search_for", lambda *_: cards.Search(seek, least, longest, chance.choice(((7, 5), (8, 9)))))
    try:
        answer = cards.cards(
            "a/b", chance.choice((None, Want(), Want(4096, 3), Want(8192, 1), Want(8193))), prices=prices, names=names,
            most=chance.choice((0, 1, 3, 12)), sort=chance.choice(("", "", "", *cards.SORTS)),
            everything=chance.random() < 0.3, api=api,
            load=chance.choice((None, Load(500, 1000, 24.0))), progress=tell,
        )  # fmt: skip
    except OomphError as error:
        return error.message, way
    lines = [(card.name, card.count, card.price, card.instances, card.step) for card in answer.cards]
    rest = [getattr(answer, name) for name in answer.__struct_fields__ if name != "cards"]
    return lines, rest, way


# --- one candidate ---------------------------------------------------------------------------------------------------


def try_candidate(seed: int, patch: pytest.MonkeyPatch) -> Any:
    """Plans that fit up to a random context, in both ways of serving."""
    chance = random.Random(seed)
    placed = chance.random() < 0.6
    count, users = chance.choice((1, 2, 3)), chance.choice((1, 2))
    until, per_token, capacity = (
        chance.choice((1000, 5000, 9000, 30000, 40960)),
        chance.choice((1, 64)),
        chance.choice((0, 1, 3)),
    )
    parts = chance.choice(((), (), ("experts",)))
    slots = chance.choice(("num_parallel", "n_seq_max", ""))
    answered = chance.choice((users,) * 7 + (1,))
    has_cache, pooling = chance.random() < 0.9, chance.random() < 0.15
    missing = "no kernels for this card" if chance.random() < 0.1 else ""
    fails = chance.choice(("fails", "close"))
    low_room = chance.choice((0, 0, 1))
    way: list[Any] = []

    def plan_of(deployment: Any, model: Any = None) -> Any:
        context = deployment.flags["length"]
        shape = deployment.flags.get("tensor_parallel_size", 1), deployment.flags.get("share"), len(deployment.gpus)
        way.append((context, shape, model is None))
        if context == 7 * 256:
            raise OomphError("the engine does not take it")
        room = (until - context) * per_token
        fits = context <= until
        verdict = SimpleNamespace(
            outcome="fits" if fits else fails, short_bytes=max(0, -room) if fails == "fails" else 0
        )
        resolved: dict[str, Any] = {"layers": 4, "offloaded": chance.choice((4,) * 9 + (3,))}
        if parts:
            resolved["host"] = {"parts": dict.fromkeys(parts, chance.choice((0, 0, 5)))}
        if slots:
            resolved[slots] = answered
        stages = [SimpleNamespace(peak_high=peak, peak_bytes=peak) for peak in (10, 100_000_000 - room + low_room)]
        ranks = [SimpleNamespace(total_bytes=100_000_000, stages=stages)] * count
        kv = SimpleNamespace(need_bytes=context * per_token) if has_cache else None
        return SimpleNamespace(deployment=deployment, verdict=verdict, resolved=resolved, ranks=ranks, kv=kv)

    def judge(whole: Any, margin: bool) -> Outcome:
        assert margin
        kind: Any = "ok" if whole.verdict.outcome == "fits" else "short"
        held = capacity + 0.5 if capacity else float(users)
        return Outcome(kind, held, None)

    layout = "placed" if placed else "batched"
    engine = SimpleNamespace(layout=layout, spare_bytes=0, missing_kernels=lambda deployment: missing)
    base = replace(served().deployment, flags={})
    patch.setattr("oomph.search.trial.engine_of", lambda deployment: engine)
    patch.setattr("oomph.search.trial.plan_with_engine", plan_of)
    patch.setattr("oomph.search.trial.judge", judge)
    patch.setattr("oomph.search.trial.load_once", lambda name: SimpleNamespace(pooling=pooling))
    default = chance.choice((0.0, 0.9, 0.95))
    knobs = SimpleNamespace(users="seqs", context="length", share="share", default_share=default, known_flags=())
    patch.setattr("oomph.search.trial.knobs_of", lambda deployment: knobs)
    patch.setattr(Trial, "_base", lambda self, name: base)
    patch.setattr(
        Trial, "_read", lambda self, name, file, context, whole: replace(base, model=file, flags={"length": context})
    )
    facts: Any = SimpleNamespace(
        kv_bytes=0, context=chance.choice((4096, 8192, 40960)), gguf_repo=chance.choice(("", "files/x"))
    )
    quality = Quality(20.0, 18.0, 22.0, True, "B", "a source")
    candidate = Candidate(facts, "a/b", chance.choice(TAGS) if placed else "", quality, 1, 1)
    trial = Trial(GPU * count, users)
    answer = trial.serve(candidate, "vllm", chance.choice((256, 1024, 1024, 4096)), longest=chance.random() < 0.7)
    shown = None
    if answer is not None:
        shown = (
            answer.context,
            answer.users,
            answer.capacity,
            answer.plan.deployment.model,
            answer.plan.deployment.flags,
        )
    return shown, trial.plans, trial.short, way


SEARCHES: dict[str, tuple[Callable[[int, pytest.MonkeyPatch], Any], int]] = {
    "models": (search_models, 600), "cards": (search_cards, 600), "trials": (try_candidate, 800),
}  # fmt: skip


def rows(name: str) -> Iterator[Row]:
    search, count = SEARCHES[name]
    for seed in range(count):
        with pytest.MonkeyPatch.context() as patch:
            yield f"{seed}", search(seed, patch)


TABLES: dict[str, Callable[[], Iterator[Row]]] = {name: partial(rows, name) for name in SEARCHES}


@pytest.mark.parametrize("name", TABLES)
def test_a_search_is_as_stored(name: str) -> None:
    check_table("toy_searches", name, TABLES[name]())
