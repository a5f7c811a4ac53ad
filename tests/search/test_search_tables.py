"""What the parts of a search answer, row by row: grids, orders, losses, bounds. A flipped comparison changes a row.

table_models.txt names the models of the catalogue that the rows are about, so that a model more changes none. `python
tools/replay.py renew search_tables` stores the rows again; a commit that does says why. The values sit on both sides of
the bounds that decide.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from stored_answers import check_table

from oomph.answers.plan import load, plan
from oomph.catalog.facts import ModelFacts, facts
from oomph.errors import OomphError
from oomph.facts.gpus import find
from oomph.ir.model import Scheme
from oomph.ir.plan import Plan
from oomph.search import (
    card,
    cards,
    fit,
    models,
    neighbours,
    outcome,
    picks as picks_module,
    prices,
    quality,
    request,
    score,
    solve,
)
from oomph.search.candidates import PURPOSES, Filters, candidates, check_date, wanted
from oomph.simulate.speed import Speed
from oomph.sources.gpu import parse_gpus

MODELS = Path(__file__).parent / "table_models.txt"
NAMES = ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B-FP8", "Qwen/Qwen3-30B-A3B", "google/gemma-3-27b-it", "openai/gpt-oss-20b")
MACHINES = ("RTX 4090", "2x RTX 3090", "8x H100", "2x(2x H200)", "T4")
RELEASE = "vllm==0.21.0"
Row = tuple[str, Any]


@cache
def served(model: str, gpu: str, flags: str = "--max-model-len 8192") -> Plan:
    return plan(f"vllm serve {model} {flags}", gpu=gpu, engine=RELEASE, advise=False)


def grids() -> Iterator[Row]:
    for count, moe in product((1, 2, 3, 4, 6, 8, 16, 72), (False, True)):
        yield f"layouts {count} {moe}", request.layouts(count, moe=moe)
    for context, longest in product((0, 256, 2048, 4096, 8192, 8193), (256, 2048, 4096, 4097, 8192, 9216, 40960)):
        yield f"ladder {context} {longest}", request.context_ladder(context, longest)
        yield f"grid {context} {longest}", request.context_grid(longest, context)
        yield f"next {context} {longest}", neighbours._next(longest, context)
    for users, most in product((0, 1, 7, 9, 256, 257, 300), (1, 8, 256)):
        yield f"users {users} {most}", request.user_levels(users, most)
    for default, highest in product((0.9, 0.915, 0.92), (0.5, 0.9, 0.915, 0.99, 1.0)):
        yield f"shares {default} {highest}", request.utilisation_grid(default, highest)


FLAGS: dict[str, Any] = {
    "kv_dtype": "fp8", "eager": True, "few_graphs": True, "text_only": True, "drafts": 1, "prefix_off": True,
    "tokens": 2048, "offload_gib": 4, "layout": request.Layout(2, 2, True),
}  # fmt: skip


def arms() -> list[request.Arm]:
    alone = [request.Arm("a/b", **{name: value}) for name, value in FLAGS.items()]
    shapes = [request.Arm("a/b", request.Layout(*shape)) for shape in ((2, 1), (1, 2), (2, 1, True))]
    return [request.Arm("a/b"), *alone, *shapes, request.Arm("a/b", **FLAGS)]


def settings() -> Iterator[Row]:
    for number, arm in enumerate(arms()):
        point = solve.Point(arm=arm, context=4096, users=3, utilisation=0.9, quality=1.0, speed=5)
        yield f"arm {number}", (arm.changes, arm.layout.gpus, fit._small_flags(arm), solve._hunger(arm), point.goals)
        yield f"words {number}", (fit.gives_up(point), fit.describe(point, 0.9), fit.describe(point, 0.92))
    for name in (*NAMES, "Qwen/Qwen3.6-27B", "deepseek-ai/DeepSeek-V3.2"):
        model = load(name)
        yield f"arms of {name}", list(request.arms_of(name, model, request.layouts(2, moe=True), request.Options()))
        only = request.Options(kv_dtypes=("fp8",), drafts=(1,), text_only=(True,))
        yield f"fewer arms of {name}", list(request.arms_of(name, model, (request.Layout(),), only))
        yield f"precision of {name}", (score.precision(model), request.is_moe(model), request.least_weights(model))
        yield f"active of {name}", (score._active_parameters(model), len(score._blocks(model)))
        yield f"loss of {name}", [score.quality_loss(model, request.Arm(name, kv_dtype=kv)) for kv in ("auto", "fp8")]
    for bits, inputs, kind in product((1, 2, 3, 4, 5, 8, 16, 32), (4, 8, 15, 16, 32), ("float", "int")):
        scheme = Scheme("x", bits, kind, "group", input_bits=inputs)  # type: ignore[arg-type]
        yield f"scheme {bits} {inputs} {kind}", score.scheme_loss(scheme)


def speeds() -> Iterator[Row]:
    for name, gpu in product(NAMES[:3], ("RTX 4090", "2x RTX 3090", "4x H100")):
        width = len(parse_gpus(gpu))
        for flags in ("--max-model-len 8192", "--max-model-len 1024 --max-num-batched-tokens 1024"):
            for shape in ((width, 1), (1, width)):
                layout = f"-tp {shape[0]} -pp {shape[1]}"
                answer = served(name, gpu, f"{flags} {layout}")
                for arm in arms()[:9] if answer.ranks else ():
                    placed = replace(arm, layout=request.Layout(*shape))
                    seconds = score.request_seconds(load(name), placed, answer)
                    yield f"seconds {name} {gpu} {flags} {placed}", (f"{seconds:.9g}", score.speed_band(seconds))
                if answer.kv is not None and answer.fits:
                    yield f"cache {name} {gpu} {flags} {shape}", (
                        score.kv_read(answer), f"{outcome.low_concurrency(answer):.9g}", outcome.share_of(answer),
                        outcome.guess_share(answer, request.utilisation_grid(0.9, 0.99), 30, margin=True),
                        outcome.guess_share(answer, request.utilisation_grid(0.9, 0.99), 0, margin=False),
                        card.headroom(answer), cards._weights(answer),
                    )  # fmt: skip
    for exponent in range(-12, 6):
        yield f"band {exponent}", [score.speed_band(share * 10.0**exponent) for share in (1, 1.02, 1.03, 1.05, 1.5)]


def outcomes() -> Iterator[Row]:
    for name, gpu in product(NAMES, ("RTX 4090", "RTX 3060 12GB", "H100")):
        for flags in ("--max-model-len 8192", "--gpu-memory-utilization 0.99", "--gpu-memory-utilization 0.5"):
            for margin in (False, True):
                judged = outcome.judge(served(name, gpu, flags), margin=margin)
                row = (judged.kind, f"{judged.concurrency:.9g}", judged.error)
                yield f"outcome {name} {gpu} {flags} {margin}", row
    one = outcome.judge(served(NAMES[0], "RTX 4090"), margin=False)
    other = outcome.judge(served(NAMES[0], "RTX 4090", "--max-model-len 4096"), margin=False)
    bare = outcome.Outcome("never", 0.0, None)
    assert one.plan is not None
    cacheless = replace(one, plan=replace(one.plan, kv=None))
    for number, pair in enumerate(product((one, other, bare, cacheless, replace(one, kind="over")), repeat=2)):
        yield f"budget {number}", outcome.same_budget(*pair)


def points() -> list[solve.Point]:
    draw = random.Random(3)
    out = []
    for _ in range(40):
        arm = draw.choice(arms())
        context, users = draw.choice((2048, 4096, 8192)), draw.choice((1, 2, 8, 9, 10))
        loss, speed = draw.choice((0.0, 1.0, 1.4, 1.5, 3.3)), draw.choice((4, 5, 6))
        share = draw.choice((0.8, 0.9))
        out.append(solve.Point(arm=arm, context=context, users=users, utilisation=share, quality=loss, speed=speed))
    return out


def choices() -> Iterator[Row]:
    for size in (1, 2, 5, 12, 40):
        yield f"front {size}", solve.pareto(points()[:size])
        yield f"frugal {size}", solve._frugal([point.arm for point in points()[:size]])
    for gpu, name in product(MACHINES, NAMES[1:4]):
        gpus = parse_gpus(gpu)
        base, _ = request.base_of(name, gpus, RELEASE)
        spaces = request.Spaces({name: load(name), NAMES[0]: load(NAMES[0])}, gpus, request.Want(4096, 2), base)
        yield f"spaces {gpu} {name}", (spaces.shapes, spaces.too_large, len(spaces.arms), spaces.longest)
        for context, users in product((0, 4096), (0, 1, 40)):
            yield f"space {gpu} {name} {context} {users}", spaces.space(context, users, spaces.arms[:4])
        yield f"offloaded {gpu} {name}", (spaces.offloaded(4), spaces.offloaded(60)[:3])


TABLE = ("a table", "another")


def qualities() -> list[quality.Quality]:
    draw = random.Random(5)
    shares = ((1.0, 1.0), (0.97, 1.0), (0.95, 0.97), (0.9, 0.95))
    out = []
    for _ in range(24):
        value, width = draw.choice((20.0, 21.6, 23.2, 25.0, -3.0)), draw.choice((0.0, 1.6, 4.0))
        share = draw.choice(shares)
        grade, source = draw.choice("ABC"), draw.choice(TABLE)
        out.append(quality.Quality(value, value - width, value + width, draw.random() < 0.7, grade, source, share))
    return out


def qualities_of() -> Iterator[Row]:
    for number, (first, second) in enumerate(product(qualities(), repeat=2)):
        one, other = quality.decides(first, second, False), quality.decides(first, second, True)
        yield f"quality {number}", (first.rank, one, other, quality.comparable(first, second))
    for model in known():
        for precision, native in product(("BF16", "FP8", "INT4", "FP4", "Q4_K_M", "Q8_0", "Q2_K"), (False, True)):
            yield f"quality of {model.plain} {precision} {native}", quality.quality_of(model, precision, native)
    for value, share in product((-10.0, 0.0, 30.0), (0.0, 0.9, 1.0)):
        yield f"share {value} {share}", f"{quality._times(value, share):.9g}"


@cache
def known() -> list[ModelFacts]:
    by_name = {model.plain: model for model in facts().models}
    return [by_name[name] for name in MODELS.read_text(encoding="utf-8").splitlines()]


def catalogue() -> Iterator[Row]:
    sizes = sorted({model.parameters / 1e9 for model in known()})
    dates = sorted({model.date for model in known() if model.date})
    some = [Filters(largest=size) for size in sizes[:: len(sizes) // 6]]
    some += [Filters(smallest=size) for size in sizes[:: len(sizes) // 6]]
    some += [Filters(since=date) for date in dates[:: len(dates) // 6]]
    some += [Filters(licence=text) for text in ("open", "mit", "Apache-2.0", "llama")]
    some += [Filters(("qwen",)), Filters(("coder",)), Filters(("qwen", "8b")), Filters(("no such",)), Filters()]
    for purpose in PURPOSES:
        for number, filters in enumerate(some):
            chosen = {model.plain for _, model in wanted(purpose, filters)}
            yield f"wanted {purpose} {number}", [model.plain for model in known() if model.plain in chosen]
    every = [pair for pair in wanted("chat", Filters()) if pair[1] in known()]
    for gpu, context, users in product(("T4", "RTX 4090", "8x H100"), (0, 8192, 32768, 32769), (1, 8)):
        for engines in (("vllm",), ("ollama",), models.SEARCHED):
            groups = candidates(every, parse_gpus(gpu), context, users, engines)
            rows = [(one.checkpoint, one.tag, one.weights, one.read) for group in groups.values() for one in group]
            yield f"candidates {gpu} {context} {users} {engines}", rows
    place, model = every[0]
    for least in (one.weights for one in candidates([every[0]], parse_gpus("8x H100"), 0, 1, ("vllm",))[place]):
        for room in (least - 1, least, least + 1):
            yield f"room {least} {room}", len(candidates([(place, model)], (), 0, 1, ("vllm",), room).get(place, ()))


def pick(draw: random.Random, number: int) -> picks_module.Pick:
    one = draw.choice((0.0, 10.0, 12.5, 20.0, 25.0, 40.0))
    speed = Speed(one, one, 1, 0.1, 100, 1.2, 0) if one else None
    context, capacity = draw.choice((4096, 8192)), draw.choice((1, 2, 4))
    planned = served(NAMES[0], "RTX 4090")
    return picks_module.Pick(
        f"m{number}", "a/b", draw.choice(("FP8", "Q4_K_M")), "vllm", context, 1, capacity, speed,
        draw.choice(qualities()), 0, "", planned, 8, 8, "", "",
    )  # fmt: skip


def short(one: picks_module.Pick) -> tuple[Any, ...]:
    return one.model, one.traded


def orders() -> Iterator[Row]:
    for seed in range(60):
        draw = random.Random(seed)
        picks = [pick(draw, number) for number in range(draw.choice((2, 3, 6)))]
        for prefer in ("", "speed", "context", "users"):
            yield f"ranked {seed} {prefer}", [short(one) for one in picks_module.ranked(picks, prefer)]
            yield f"better {seed} {prefer}", short(picks_module.better(picks[:2], prefer))
            yield f"displaces {seed} {prefer}", picks_module.displaces(picks[0], picks[1], prefer)
        yield f"beats {seed}", (picks_module.beats(picks[0], picks[1]), picks_module.trade(picks[0], picks[1]))


def lines() -> Iterator[Row]:
    hopper, volta = (find(name).name for name in ("H100", "V100 32GB"))
    priced = {"RTX 4090": 1600.0, "L4": 2500.0, hopper: 25000.0}
    for prices_of, names, everything in product(({}, priced), ((), ("L4", hopper, volta)), (False, True)):
        for least, capability in ((0, (7, 5)), (50 << 30, (7, 5)), (50 << 30, (9, 0)), (50 << 30, (8, 9))):
            rows = cards._candidates(prices_of, names, least, capability, everything)
            label = f"cards {bool(prices_of)} {bool(names)} {everything} {least} {capability}"
            yield label, [(tier, row.name, count) for tier, row, count in rows]
    row = next(row for _, row, _ in cards._candidates({}, (hopper,), 0, (0, 0), False))
    for least in (row.total_bytes, row.total_bytes + 1, 2 * row.total_bytes, 2 * row.total_bytes + 1):
        yield f"least {least}", [count for _, _, count in cards._candidates({}, (hopper,), least, (0, 0), False)]
    draw = random.Random(9)
    some = []
    for number in range(14):
        rate = draw.choice((0.0, 10.0, 11.0, 11.1, 22.0))
        speed = Speed(rate, rate, 1, 0.1, 100, 1.2, 0) if rate else None
        planned = served(draw.choice(NAMES[:2]), draw.choice(("RTX 4090", "H100")))
        some.append(
            cards.Card(
                f"c{number}", draw.choice((1, 2)), 1, draw.choice((24, 48)), draw.choice((None, 10.0, 20.0)), "a/b",
                "", "", planned, 0, draw.choice((1, 2, 4)), draw.choice((4096, 8192)), speed=speed,
            )
        )  # fmt: skip
    for sort in cards.SORTS:
        ordered = sorted(some, key=lambda card: cards._order(card, sort))
        steps = cards._with_steps(ordered)
        yield f"lines {sort}", [(one.name, one.step) for one in steps]


def costs() -> Iterator[Row]:
    speed = Speed(30.0, 200.0, 8, 0.5, 2048, 1.2, 0)
    for rate, rented, hours in product(((0.15, 0.6), (0.0, 0.0), (3.0, 0.0)), (False, True), (0.5, 24.0)):
        load_of = prices.Load(hours=hours) if hours < 24 else prices.Load(500, 1000, hours)
        answer = prices.against(prices.Api(*rate), load_of, speed, 2.5, rented=rented)
        figures: tuple[float | None, ...] = ()
        if answer is not None:
            cost = (answer.api_cost, answer.machine_cost, answer.break_even)
            figures = (answer.prompt_tokens, answer.output_tokens, *cost)
        row = [f"{figure or 0:.9g}" for figure in figures]
        yield f"against {rate} {rented} {hours}", row
    yield "load", prices.Load()


TABLES = {
    table.__name__: table
    for table in (grids, settings, speeds, outcomes, choices, qualities_of, catalogue, orders, lines, costs)
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_as_stored(name: str) -> None:
    check_table("search_tables", name, TABLES[name]())


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        ("RTX 4090, 0", False), ("RTX 4090, 0.01", True), ("RTX 4090, 1", True), ("RTX 4090, 999999999", True),
        ("RTX 4090, 1e9", False), ("# unit: card\nL4; 5", True), ("# unit: day\nL4: 5", False),
    ],
)  # fmt: skip
def test_which_prices_are_prices(text: str, is_read: bool, tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(text)
    if is_read:
        assert len(prices.read_prices(str(file)).prices) == 1
    else:
        with pytest.raises(OomphError):
            prices.read_prices(str(file))


@pytest.mark.parametrize(
    ("text", "is_date"),
    [("", True), ("2026", True), ("2026-03", True), ("2026-03-31", True), ("26", False), ("2026-3", False)],
)
def test_which_dates_are_dates(text: str, is_date: bool) -> None:
    if is_date:
        assert check_date(text) == text
    else:
        with pytest.raises(OomphError):
            check_date(text)
