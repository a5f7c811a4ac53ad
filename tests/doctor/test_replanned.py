"""A remedy that is called verified fits: read from its printed command, on the card as the log shows it.

Every fixture and every posted log is explained with commands of its own engine beside it. What the planner is asked is
recorded; each verified remedy, read again as text, must be one of the deployments that it called `fits`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from oomph.answers.plan import load, run
from oomph.commands import parse_command
from oomph.doctor.explain import read_raw
from oomph.doctor.verify import planned
from oomph.engines.registry import engine_named, engine_of
from oomph.errors import OomphError
from oomph.ir.deployment import Deployment
from oomph.logs.reader import read_text

sys.path.insert(0, str(Path(__file__).parents[1] / "logs"))
from printed import text_of

HERE = Path(__file__).parent
ALL = os.environ.get("REPLANNED") == "all"  # the other posted logs too: some minutes
# (command, GPUs): one that is too large for its card, one that is nearly so
BESIDE: dict[str, tuple[tuple[str, str], ...]] = {
    "vllm": (("vllm serve Qwen/Qwen3-32B-AWQ --max-model-len 40960", "RTX 4090"),
             ("vllm serve Qwen/Qwen3-8B --gpu-memory-utilization 0.7 --max-num-seqs 512", "RTX 3090")),
    "sglang": (("python -m sglang.launch_server --model-path Qwen/Qwen3-8B --mem-fraction-static 0.6", "RTX 4090"),
               ("python -m sglang.launch_server --model-path Qwen/Qwen3-32B --tp 2", "2x RTX 4090"),
               ("python -m sglang.launch_server --model-path Qwen/Qwen3-8B --mem-fraction-static 0.95", "RTX 3090")),
    "trtllm": (("trtllm-serve Qwen/Qwen3-8B --max_batch_size 2048", "RTX 4090"),
               ("trtllm-serve Qwen/Qwen3-32B --tp_size 2", "2x RTX 4090")),
    "llamacpp": (("llama-server -m models/Qwen3-32B-Q4_K_M.gguf -ngl 99 -c 131072", "RTX 3090"),
                 ("llama-server -m models/Qwen3-8B-Q8_0.gguf -ngl 99 -c 40960 -np 8", "RTX 3060")),
    "ollama": (("ollama run --num-gpu=99 --num-ctx=32768 qwen3:14b", "RTX 3060"),
               ("OLLAMA_CONTEXT_LENGTH=131072 OLLAMA_NUM_PARALLEL=4 ollama run qwen3:14b", "RTX 3090")),
}  # fmt: skip
# a lack of memory in each engine's words, of which only the plan can say where it happened
BARE = {
    "vllm": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.",
    "sglang": "[2026-05-14 12:00:00 TP0] CUDA out of memory. Tried to allocate 1.00 GiB.",
    "trtllm": "[TensorRT-LLM][ERROR] CUDA runtime error in cudaMalloc: out of memory",
    "llamacpp": "alloc_buffer: allocating 9000.00 MiB on device 0: cudaMalloc failed: out of memory",
    "ollama": "Error: llama runner process has terminated: cudaMalloc failed: out of memory",
}


def texts() -> list[tuple[str, str]]:
    fixtures = [(path.stem, path.read_text(encoding="utf-8")) for path in sorted((HERE / "fixtures").glob("*.log"))]
    records = (HERE.parent / "truth" / "field-logs.jsonl").read_text(encoding="utf-8").splitlines()
    posted = [(row["id"], text_of(row)) for row in map(json.loads, records)]
    return fixtures + (posted if ALL else posted[::6])


def verified_are_planned(text: str, beside: tuple[str, str] | None, engine: str = "") -> int:
    """The number of verified remedies that were looked at."""
    command = parse_command([beside[0]]) if beside else None
    try:
        case = read_raw(read_text(text), command, beside[1] if beside else "")
    except OomphError:
        return 0
    fitting: list[Deployment] = []

    def record(deployment: Deployment) -> Any:
        plan = run(deployment)
        if plan.verdict.outcome == "fits":
            fitting.append(deployment)
        return plan

    explanation = planned(case, planner=record, loader=load)
    verified = [remedy for remedy in explanation.remedies if remedy.verified and remedy.change.lever != "again"]
    for remedy in verified:
        assert remedy.command, remedy.change
        release = f"{explanation.engine.name}=={fitting[0].engine.version}" if engine_named(engine).releases() else None
        printed = parse_command([remedy.command], engine=release)
        assert any(_same(printed, deployment) for deployment in fitting), (remedy.change, remedy.command)
    return len(verified)


def _same(printed: Deployment, deployment: Deployment) -> bool:
    """What was planned, read again: flags that no plan reads may stand in the command beside it."""
    own = engine_of(deployment).memory_flags(deployment)
    flags = all(printed.flags.get(field) == value for field, value in own.items())
    variables = all(printed.environment.get(name) == value for name, value in deployment.environment.items())
    return printed.model == deployment.model and flags and variables


@pytest.mark.parametrize(("name", "text"), texts(), ids=[name for name, _ in texts()])
def test_every_verified_remedy_is_a_command_that_fits(name: str, text: str) -> None:
    case = read_raw(read_text(text), Deployment(parse_command([BESIDE["vllm"][0][0]]).engine, "", {}, ()), "")
    engine = case.rebuilt.engine or "vllm"
    for beside in (None, *BESIDE[engine][: None if ALL or engine != "vllm" else 1]):
        verified_are_planned(text, beside, engine)


@pytest.mark.parametrize("engine", sorted(BARE))
def test_a_bare_line_is_placed_and_judged_by_the_plan(engine: str) -> None:
    looked_at = sum(verified_are_planned(BARE[engine], beside, engine) for beside in BESIDE[engine])
    assert looked_at, "no remedy of this engine was ever planned"
