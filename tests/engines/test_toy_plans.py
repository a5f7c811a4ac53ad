"""What every engine says of plans whose settings and figures are drawn at random, as stored: levers, reasons, the share
of a card that is safe, the host's memory, the commands of several nodes.

`python tools/replay.py renew toy_plans` stores them again, and a commit that does says why. Other checkpoints are left
out, so that one more in the catalogue changes nothing; of a sentence only its figures and flags count.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import pytest
from msgspec.structs import replace
from stored_answers import Row, check_table

from oomph.answers.plan import plan
from oomph.engines.registry import engine_of
from oomph.errors import OomphError
from oomph.ir.ledger import Term
from oomph.ir.plan import Plan
from oomph.ir.timeline import STAGES
from oomph.units import GIB, MIB

FIGURES = re.compile(r"--[a-z][\w-]+|\d+(?:[.,]\d+)*")
SIZES = (0, MIB, MIB + 1, 200 * MIB, GIB, 2 * GIB, 5 * GIB, 9 * GIB, 16 * GIB, 20 * GIB, 23 * GIB)
COUNTS = (0, 1, 2, 4, 16, 64, 128, 256, 257, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
SHARES = (0.1, 0.5, 0.8, 0.85, 0.9, 0.905, 0.92, 0.95, 0.97)
PLANS = {  # command and cards -> how many plans are drawn from it
    ("vllm serve Qwen/Qwen3-8B", "RTX 4090", "vllm==0.21.0"): 60,
    ("vllm serve google/gemma-3-27b-it --max-model-len 8192 -tp 2", "2x RTX 4090", "vllm==0.32.0"): 40,
    ("vllm serve Qwen/Qwen3.6-27B --max-model-len 8192", "DGX Spark", "vllm==0.32.0"): 40,
    ("sglang serve --model-path Qwen/Qwen3-8B", "RTX 4090", "sglang==0.5.23"): 40,
    ("sglang serve --model-path Qwen/Qwen3-Next-80B-A3B-Instruct --tp-size 4", "4x H100", "sglang==0.5.23"): 40,
    ("sglang serve --model-path Qwen/Qwen3-8B", "DGX Spark", "sglang==0.5.23"): 20,
    ("trtllm-serve Qwen/Qwen3-8B", "2x RTX 4090", ""): 60,
    ("llama-server -m Qwen3-30B-A3B-Q4_K_M.gguf -c 8192", "2x RTX 4090", ""): 60,
    ("ollama run qwen3:8b", "RTX 4090", ""): 20,
}
FLAGS: dict[str, tuple[Any, ...]] = {
    "kv_cache_dtype": ("auto", "fp8"), "enforce_eager": (True,), "speculative_config": ({"method": "mtp"},),
    "num_gpu_blocks_override": (100,), "kv_cache_memory_bytes": (GIB,), "language_model_only": (True,),
    "enable_lora": (True,), "cpu_offload_gb": (0, 2, 4.0), "max_num_batched_tokens": (2048, 8192),
    "cudagraph_capture_sizes": ([1, 2],), "gpu_memory_utilization": (0.8, 0.9), "tensor_parallel_size": (1, 2),
    "mem_fraction_static": (0.8, 0.9), "disable_cuda_graph": (True,), "mamba_ssm_dtype": ("float32",),
    "free_gpu_memory_fraction": (0.8, 0.9), "cache_type_k": ("q8_0",), "n_gpu_layers": (0, 20, 99),
}  # fmt: skip


@cache
def planned(command: str, gpu: str, engine: str) -> Plan:
    return plan(command, gpu=gpu, engine=engine, advise=False)


def drawn(base: Plan, draw: random.Random) -> Plan:
    resolved = {name: _setting(draw, value) for name, value in base.resolved.items()}
    flags = dict(base.deployment.flags)
    flags |= {name: draw.choice(values) for name, values in FLAGS.items() if draw.random() < 0.12}
    ranks = []
    for rank in base.ranks:
        terms = {name: _term(draw, term) for name, term in rank.terms.items()}
        stages = tuple(replace(stage, peak_high=draw.choice(SIZES)) for stage in rank.stages)
        ranks.append(replace(rank, terms=terms, stages=stages, requested_bytes=draw.choice(SIZES)))
    stage = draw.choice((None, *STAGES))
    verdict = replace(
        base.verdict, fits=stage is None, stage=stage, first_to_break=draw.choice((stage, "host_ram", "kv_check"))
    )
    kv = base.kv
    if kv is not None:
        kv = replace(
            kv, need_bytes=draw.choice(SIZES), available_bytes=draw.choice(SIZES), num_blocks=draw.choice(COUNTS),
            logged_tokens=draw.choice(COUNTS), max_concurrency=draw.choice((0.0, 0.5, 1.0, 2.5, 40.0)),
        )  # fmt: skip
    gpus = base.deployment.gpus * draw.choice((1, 1, 2))
    return replace(
        base, resolved=resolved, ranks=tuple(ranks), verdict=verdict, kv=kv,
        deployment=replace(base.deployment, flags=flags, gpus=gpus),
    )  # fmt: skip


def _setting(draw: random.Random, value: Any) -> Any:
    if draw.random() < 0.75:
        return value
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return draw.choice(COUNTS)
    return draw.choice(SHARES) if isinstance(value, float) else value


def _term(draw: random.Random, term: Term) -> Term:
    size, low, high = draw.choice(SIZES), draw.choice((0, 0, MIB)), draw.choice((0, 0, MIB))
    parts = {part: draw.choice(SIZES) for part in term.parts}
    return Term(term.name, size, max(0, size - low), size + high, term.basis, parts, term.why)


def answered(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except (ArithmeticError, LookupError, TypeError, ValueError, OomphError) as error:
        return type(error).__name__  # no plan has such figures together


def levers(one: Plan) -> Any:
    return [
        (
            lever.name, [_change(change) for change in lever.changes], lever.frees, sorted(map(str, lever.not_read)),
            bool(lever.refused), bool(lever.idle), lever.two_sided, lever.popular,
        )
        for lever in engine_of(one.deployment).levers(one)
        if lever.name != "checkpoint"
    ]  # fmt: skip


def host(one: Plan) -> Any:
    needs = engine_of(one.deployment).host_plan(one)
    return needs and [(part.name, part.bytes, part.low, part.high) for part in (*needs.parts, *needs.later)]


def answers(one: Plan) -> Iterator[Any]:
    engine = engine_of(one.deployment)
    yield answered(lambda: levers(one))
    yield answered(lambda: [FIGURES.findall(sentence) for sentence in engine.reasons(one)])
    yield answered(lambda: engine.safe_share(one).value)
    yield answered(lambda: engine.uncounted_share(one))
    yield answered(lambda: host(one))
    yield answered(lambda: [engine.host_needs(one, nodes) for nodes in (1, 2)])
    yield answered(lambda: engine.node_commands(one, 2))
    yield answered(lambda: engine.launch_lines(one, 2))


def _change(change: Any) -> Any:
    cards = [gpu.name for gpu in change.gpus]
    return (
        change.label,
        change.kind,
        change.flags,
        change.environment,
        change.version,
        cards,
        change.rank,
        change.moves,
    )


def rows(command: str, gpu: str, engine: str) -> Iterator[Row]:
    draw = random.Random(command)
    base = planned(command, gpu, engine)
    for number in range(PLANS[command, gpu, engine]):
        yield f"{number}", list(answers(drawn(base, draw)))


TABLES: dict[str, Callable[[], Iterator[Row]]] = {
    f"{command.split()[0]}-{number}": partial(rows, command, gpu, engine)
    for number, (command, gpu, engine) in enumerate(PLANS)
}


@pytest.mark.parametrize("name", TABLES)
def test_what_an_engine_says_of_a_plan_is_as_stored(name: str) -> None:
    check_table("toy_plans", name, TABLES[name]())


def test_most_drawn_plans_have_levers() -> None:
    for (command, gpu, engine), count in PLANS.items():
        draw = random.Random(command)
        rows = [answered(lambda: levers(drawn(planned(command, gpu, engine), draw))) for _ in range(count // 4)]  # noqa: B023
        assert sum(isinstance(row, list) and bool(row) for row in rows) > len(rows) // 2, command
