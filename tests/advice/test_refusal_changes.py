"""What is tried against a refusal, over random commands, kinds of refusals and numbers of GPUs, as stored: an answer
shows only the change that won.

`python tools/replay.py renew refusal_changes` stores it again, and a commit that does says why.

Releases that are tried are left out (a new one would move every row), but for what one of them would cost.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import pytest
from msgspec.structs import replace
from stored_answers import Row, check_table

from oomph import plan
from oomph.advice import refused
from oomph.answers.plan import load, parse, with_gpus
from oomph.engines.registry import engine_of
from oomph.ir.advice import Change, Judged
from oomph.ir.model import Model
from oomph.ir.plan import Plan

COUNT = 150  # commands of one engine
MODELS = ("Qwen/Qwen3-8B", "Qwen/Qwen3-235B-A22B-FP8", "Qwen/Qwen3-32B-AWQ")
KINDS = ("gpus", "gpus", "layout", "context", "flag")
DEGREES = (0, 0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 48, 1000)  # 0 = not typed
CARDS = ("H100", "2x H100", "3x RTX 4090", "4x H100", "8x H100", "16x H100")
# Program and release, the flags of its degrees, and others, some of which a refusal names.
ENGINES: dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...], str]] = {
    "vllm": (
        "vllm serve {model}", "vllm==0.21.0",
        ("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size"),
        ("--quantization awq_marlin", "--dtype half", "--attention-backend FLASHMLA", "--max-model-len 65536",
         "--enable-expert-parallel", "--distributed-executor-backend ray", "--max-num-seqs 8"),
        "0.19.0",
    ),
    "sglang": (
        "python -m sglang.launch_server --model-path {model}", "sglang==0.5.12",
        ("--tp-size", "--pp-size", "--dp-size", "--ep-size"),
        ("--quantization awq", "--attention-backend fa3", "--context-length 65536", "--kv-cache-dtype fp8_e5m2"),
        "0.5.14",
    ),
    "trtllm": (
        "trtllm-serve {model}", "trtllm==1.2.0", ("--tp_size", "--pp_size", "--ep_size"),
        ("--max_batch_size 8", "--max_seq_len 65536"), "1.1.0",
    ),
    "llamacpp": (
        "llama-server -m {model}.gguf", "", (), ("-c 65536", "-ctk q8_0", "-fa off", "-ngl 99"), "",
    ),
}  # fmt: skip
MESSAGES = (
    "awq is refused",
    "--attention-backend is wrong",
    "max_model_len (65536) is too long",
    "half",
    "fp8_e5m2",
    "no",
)


@cache
def base() -> Plan:
    return plan(["vllm", "serve", MODELS[0]], engine="vllm==0.21.0", gpu="H100")


@cache
def model_of(name: str) -> Model:
    return load(name)


def questions(engine: str) -> Iterator[tuple[str, Plan, Model]]:
    """Plans whose deployment is read from a command and whose refusal is drawn: nothing is planned."""
    program, release, degrees, others, _ = ENGINES[engine]
    chance = random.Random(engine)
    for _ in range(COUNT):
        name, card, kind = chance.choice(MODELS), chance.choice(CARDS), chance.choice(KINDS)
        sizes = [f"{flag} {size}" for flag in degrees if (size := chance.choice(DEGREES))]
        flags = chance.sample(others, chance.randrange(len(others)))
        message = chance.choice(MESSAGES)
        nodes = chance.choice((1, 1, 1, 2))
        command = " ".join((program.format(model=name), *sizes, *flags))
        deployment = with_gpus(parse(command.split(), release), card)
        here = len(deployment.gpus)
        gpus = tuple(replace(device, node=at * nodes // here) for at, device in enumerate(deployment.gpus))
        verdict = replace(base().verdict, refusal=kind, message=message)
        question = f"{kind} {card} on {nodes}: {command} ({message})"
        yield question, replace(base(), deployment=replace(deployment, gpus=gpus), verdict=verdict), model_of(name)


def row(change: Change) -> list[Any]:
    nodes = len({device.node for device in change.gpus})
    return [change.label, change.kind, change.flags, change.cost, change.rank, change.model, len(change.gpus), nodes]


def rows(name: str) -> Iterator[Row]:
    for question, refusal, model in questions(name):
        engine = engine_of(refusal.deployment)
        groups = [[row(one) for one in group if not one.version] for group in refused._groups(refusal, engine, model)]
        layouts = [row(one) for one in refused._layouts(refusal, engine, model)]
        places = (*refused._wider(refusal, engine), *refused._spread_anew(refusal, engine))
        spread = [refused._on_cards(refusal, "H200", count, flags) for flags, count in places]
        cards = [[one.label, one.flags, one.cost, len(one.gpus)] for one in spread]
        release = ENGINES[name][-1]
        older = row(refused._at_release(refusal, engine, release, 3)) if release else []
        yield question, [refused._why(refusal, engine), groups, layouts, cards, older]


TABLES: dict[str, Callable[[], Iterator[Row]]] = {name: partial(rows, name) for name in ENGINES}


@pytest.mark.parametrize("name", TABLES)
def test_what_is_tried_is_as_stored(name: str) -> None:
    check_table("refusal_changes", name, TABLES[name]())


def fix(label: str, flags: dict[str, Any], **other: Any) -> Judged:
    return Judged(Change(label, label, flags=flags, **other), "fixes")


def test_a_fix_that_needs_more_than_another_is_left_out() -> None:
    """Equal flags are two ways to say one thing, and a fix with another model, release or card is no part of it."""
    short, both, same = fix("a", {"a": 1}), fix("ab", {"a": 1, "b": 2}), fix("same", {"a": 1})
    other = [fix("model", {"a": 1}, model="m"), fix("release", {"a": 1}, version="1"), fix("nothing", {})]
    assert refused._without_surplus([short, both]) == [short]
    assert refused._without_surplus([short, same]) == [short, same]
    assert refused._without_surplus([*other, both]) == [*other, both]


def test_two_changes_of_one_flag_are_typed_as_one() -> None:
    refusal = replace(base(), deployment=parse(["vllm", "serve", MODELS[0], "--dtype", "half"], "vllm==0.21.0"))
    change = Change("dtype", "x", flags={"dtype": None, "quantization": None, "max_num_seqs": 4})
    assert refused._as_typed(refusal, change).label == "--max-num-seqs 4 without --dtype half"
    assert refused._as_typed(refusal, replace(change, version="0.20.0")).label == "x"
