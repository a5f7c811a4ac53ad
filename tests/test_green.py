"""No false green: what must hold of every plan, over random deployments of all engines on all kinds of GPUs.

200 here; `make long` draws 2,000 (OOMPH_GREEN).
"""

from __future__ import annotations

import math
import os
import random
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from oomph import catalog, plan
from oomph.commands import parse_command, to_command
from oomph.engines.registry import engine_of
from oomph.errors import OomphError
from oomph.facts.gpus import rows
from oomph.ir.plan import Plan
from oomph.ir.world import shortage
from oomph.sources.gpu import parse_gpus
from oomph.sources.place import looking, unknown_to_the_hub

CASES = int(os.environ.get("OOMPH_GREEN", "200"))
PARTS = 5
NAMES = ("qwen3-8b", "gpt-oss-20b", "llama 3.1 8b", "x", "QwQ-32B")
GGUF = ("Qwen/Qwen3-8B-GGUF:Q4_K_M", "unsloth/Qwen3-30B-A3B-GGUF:Q4_K_M", "bartowski/Llama-3.3-70B-Instruct-GGUF:Q8_0")
LIBRARY = ("qwen3:8b", "qwen3:30b-a3b", "llama3.1:8b", "gpt-oss:20b", "gemma3:27b")
# option -> values; two spellings of one option stand apart, so that either is drawn
VLLM: dict[str, tuple[str, ...]] = {
    "-tp": ("1", "2", "3", "4", "8", "16"), "--tensor-parallel-size": ("2", "4"), "-pp": ("1", "2", "4"),
    "-dp": ("1", "2", "4", "8"), "--data-parallel-size-local": ("1", "2"), "--nnodes": ("1", "2"),
    "--distributed-executor-backend": ("ray", "mp"), "--data-parallel-backend": ("ray",),
    "--enable-expert-parallel": (), "--max-model-len": ("2048", "32768", "131072", "1000000"),
    "--max-num-seqs": ("1", "64", "1024"), "--gpu-memory-utilization": ("0.5", "0.95"), "--enforce-eager": (),
    "--kv-cache-dtype": ("fp8",), "-q": ("fp8", "awq"), "--dtype": ("float16", "bfloat16"),
    "--cpu-offload-gb": ("4",), "--no-enable-prefix-caching": (), "-dcp": ("2",), "--enable-lora": (),
}  # fmt: skip
SGLANG: dict[str, tuple[str, ...]] = {
    "--tp": ("1", "2", "4", "8"), "--tp-size": ("2", "16"), "--pp-size": ("2",), "--dp-size": ("2", "4"),
    "--ep-size": ("2",), "--enable-dp-attention": (), "--nnodes": ("2",), "--context-length": ("8192", "1000000"),
    "--mem-fraction-static": ("0.6", "0.9"), "--max-running-requests": ("16",), "--kv-cache-dtype": ("fp8_e4m3",),
    "--disable-cuda-graph": (),
}  # fmt: skip
TRTLLM: dict[str, tuple[str, ...]] = {
    "--tp_size": ("1", "2", "4", "8"), "--tensor_parallel_size": ("2",), "--pp_size": ("2", "4"), "--cp_size": ("2",),
    "--ep_size": ("2",), "--gpus_per_node": ("4", "8"), "--max_seq_len": ("4096", "1000000"),
    "--max_batch_size": ("16", "2048"), "--kv_cache_free_gpu_memory_fraction": ("0.5", "0.95"),
    "--max_num_tokens": ("512", "32768"),
}  # fmt: skip
LLAMACPP: dict[str, tuple[str, ...]] = {
    "-c": ("4096", "131072"), "--ctx-size": ("32768",), "-ngl": ("0", "20", "99"), "--n-cpu-moe": ("0", "12", "48"),
    "-ncmoe": ("3",), "-cmoe": (), "-ot": ("token_embd=CPU",), "-fa": ("on", "off"), "-ctk": ("q8_0",), "-np": ("4",),
    "-sm": ("row", "none"), "-kvu": (), "--no-mmap": (), "--jinja": (), "--port": ("8080",), "-t": ("8",),
}  # fmt: skip
ENGINES = {
    "vllm": (["vllm", "serve"], VLLM), "sglang": (["python", "-m", "sglang.launch_server", "--model-path"], SGLANG),
    "trtllm": (["trtllm-serve"], TRTLLM), "llamacpp": (["llama-server", "-hf"], LLAMACPP),
    "ollama": (["ollama", "run"], {"--num-ctx": ("4096", "131072")}),
}  # fmt: skip


def drawn(seed: int) -> tuple[list[str], str, int]:
    """A command, GPUs as they are named, and how many these are; 0 = the name has no number."""
    chance = random.Random(seed)
    engine = chance.choice((*ENGINES, "vllm", "sglang", "trtllm"))
    start, options = ENGINES[engine]
    own = {"llamacpp": GGUF, "ollama": LIBRARY}.get(engine)
    model = chance.choice(own or (NAMES if chance.random() < 0.1 else catalog.ids()))
    picked = chance.sample(sorted(options), min(len(options), chance.randint(0, 5)))
    flags = [
        word for option in picked for word in (option, *([chance.choice(options[option])] if options[option] else ()))
    ]
    card = chance.choice([row.name for row in rows()])
    count = chance.choice((1, 2, 2, 4, 8))
    form = chance.choice(("{card}", "{count}x {card}", "{count}x {card}", "2x({count}x {card})"))
    number = {"{card}": 0, "{count}x {card}": count}.get(form, 2 * count)
    command = [*start, *flags, model] if engine == "ollama" else [*start, model, *flags]
    return command, form.format(card=card, count=count), number


def _value(chance: random.Random, values: tuple[str, ...]) -> tuple[str, ...]:
    return (chance.choice(values),) if values else ()


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(item, f"{path}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def may_be_negative(path: str) -> bool:
    """Room that is missing and what a change loses (design: the contract), and a deduction among a term's parts."""
    return any(part in path for part in ("margin_bytes", "gain_bytes", ".parts.", ".margin"))


def is_bytes(path: str) -> bool:
    last = path.rpartition(".")[2]
    return "bytes" in last or last in ("low", "high", "free_before", "free_after", "weights", "kv_cache", "compute")


def problems(answer: Plan, number: int) -> Iterator[str]:
    deployment, engine = answer.deployment, engine_of(answer.deployment)
    for path, value in numbers(answer.to_dict()):
        if not math.isfinite(value):
            yield f"{path} is {value}"
        if is_bytes(path) and value < 0 and not may_be_negative(path):
            yield f"{path} is negative: {value}"
    nodes = engine.world(deployment).nodes
    if number > 1 and len(deployment.gpus) not in (number, number * nodes):
        yield f"{len(deployment.gpus)} GPUs where {number} were named"
    if answer.verdict.outcome != "fails":
        if len(answer.ranks) > len(deployment.gpus):
            yield f"{len(answer.ranks)} ranks on {len(deployment.gpus)} GPUs"
        if shortage(engine.world(deployment), deployment.gpus) is not None:
            yield "more ranks than GPUs"
        with looking(deployment.place):
            if engine.asks_the_hub and unknown_to_the_hub(deployment.model):
                yield f"{deployment.model} is no model of the hub"
    again = parse_command(to_command(deployment), engine=deployment.engine)
    if (again.model, again.flags, again.passed) != (deployment.model, deployment.flags, deployment.passed):
        yield f"written as {shlex.join(to_command(deployment))}"
    if again.spelling != deployment.spelling:
        yield f"spelled {again.spelling} instead of {deployment.spelling}"


@pytest.mark.parametrize("part", range(PARTS))
def test_no_false_green(part: int) -> None:
    wrong, planned = [], 0
    for seed in range(part, CASES, PARTS):
        command, gpu, number = drawn(seed)
        try:
            answer = plan(command, gpu=gpu, advise=seed % 20 == part)
        except OomphError:
            continue
        planned += 1
        wrong += [f"--gpu {gpu!r} {shlex.join(command)}: {text}" for text in problems(answer, number)]
        for fix in answer.advice.fixes if answer.advice is not None else ():
            again = parse_command(shlex.split(fix.command), engine=answer.deployment.engine)
            if again.model != (fix.change.model or answer.deployment.model):
                wrong.append(f"{shlex.join(command)}: {fix.command}")
    assert not wrong, "\n".join(wrong)
    assert planned > 0.7 * CASES / PARTS


def test_a_drawn_case_is_the_same_each_time() -> None:
    assert drawn(7) == drawn(7)
    assert any(number > 1 and len(parse_gpus(gpu)) == number for _, gpu, number in map(drawn, range(20)))
