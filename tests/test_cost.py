"""What a plan costs, counted instead of timed: the modules that it imports, the plans that its advice and `what-if`
make, the loads that they play through PyTorch's allocator, and the blocks that are asked for in them.

tools/cpu.py measures the time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import oomph
from oomph.advice.judge import Judge
from oomph.answers.plan import try_changes, with_advice
from oomph.engines.common.allocator import Allocator
from oomph.engines.sglang.weights import created as weights
from oomph.engines.vllm import planner
from oomph.engines.vllm.scheduler.loop import Loop
from oomph.engines.vllm.scheduler.scheduler import Entry
from oomph.engines.vllm.weights import loaded
from oomph.engines.vllm.weights.load import peak as load_peak
from oomph.search.fit import pick_for
from oomph.search.request import Want
from oomph.search.solve import Solver
from oomph.simulate.config import Config, Group
from oomph.simulate.result import Collector
from oomph.simulate.timing import unit
from oomph.simulate.workloads import Arrivals, Drawn, Shape
from oomph.sources.gpu import parse_gpus

PLAN = [
    "plan",
    "--no-advice",
    "--gpu",
    "2x RTX 5070 Ti",
    "--",
    "vllm",
    "serve",
    "nvidia/Gemma-4-31B-IT-NVFP4",
    "-tp",
    "2",
]
PROGRAM = """
import sys
from oomph.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
sys.stderr.write(" ".join(sys.modules))
"""
# Each took milliseconds of every plan, or belongs to other commands.
NOT_FOR_A_PLAN = {
    "click", "json", "pathlib", "shutil", "locale", "urllib.parse", "ipaddress", "argparse", "dataclasses", "logging",
    "subprocess", "socket", "yaml", "rich", "regex", "numpy", "psutil", "huggingface_hub", "sqlite3", "statistics",
    "inspect", "typing_extensions",
    "oomph.advice.judge", "oomph.cli.commands.plan", "oomph.doctor", "oomph.ir.log_kinds", "oomph.logs", "oomph.search",
    "oomph.simulate", "oomph.sources.folder", "oomph.sources.hub.repository", "oomph.web",
    "oomph.engines.sglang.command.serve",
    "oomph.engines.llamacpp.planner", "oomph.engines.trtllm.planner", "oomph.facts.vllm.logs",
}  # fmt: skip
MOST_MODULES = 188  # of oomph's own, without the folders that they stand in; files that grew too long were divided


def _imported(words: list[str], cache: Path) -> set[str]:
    environment = os.environ | {"OOMPH_CACHE": str(cache), "NO_COLOR": "1"}
    answer = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, env=environment)
    assert answer.stdout, answer.stderr
    return set(answer.stderr.split())


def test_a_plan_imports_what_it_needs(tmp_path: Path) -> None:
    modules = _imported(PLAN, tmp_path)
    assert not modules & NOT_FOR_A_PLAN
    own = {name for name in modules if name.split(".")[0] == "oomph"}
    assert len(own - {name.rpartition(".")[0] for name in own}) <= MOST_MODULES


def test_help_imports_next_to_nothing(tmp_path: Path) -> None:
    modules = _imported(["--help"], tmp_path)
    assert not modules & {"click", "msgspec", "oomph.answers.plan", "oomph.ir.plan"}


class Counts:
    """Of one question: the plans beside the first, the loads played for them, the blocks that these ask for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loads = self.blocks = 0
        self._judges: list[Judge] = []
        play, carve, take, begin = load_peak.play, Allocator.carve, Allocator.take_whole, Judge.__init__

        def counted_play(*arguments: Any) -> Any:
            self.loads += 1
            return play(*arguments)

        def counted_carve(memory: Allocator, size: int, most: int) -> Any:
            self.blocks += 1
            return carve(memory, size, most)

        def counted_take(memory: Allocator, size: int, nbytes: int) -> Any:
            self.blocks += 1
            return take(memory, size, nbytes)

        def remember(judge: Judge, *arguments: Any) -> None:
            begin(judge, *arguments)
            self._judges.append(judge)

        monkeypatch.setattr(loaded, "play", counted_play)
        monkeypatch.setattr(Allocator, "carve", counted_carve)
        monkeypatch.setattr(Allocator, "take_whole", counted_take)
        monkeypatch.setattr(Judge, "__init__", remember)
        for known in (loaded._played, loaded._played_alike, loaded._weights, planner._shared_input):
            known.cache_clear()

    @property
    def plans(self) -> int:
        return sum(len(judge._plans) for judge in self._judges)


GEMMA = ("vllm serve nvidia/Gemma-4-31B-IT-NVFP4 -tp 2", "2x RTX 5070 Ti")
AWQ = ("vllm serve Qwen/Qwen3-32B-AWQ", "RTX 4090")
DEEPSEEK = ("vllm serve deepseek-ai/DeepSeek-V3.1 -tp 8", "8x H100")
GPT_OSS = ("vllm serve openai/gpt-oss-120b", "H100")


@pytest.mark.parametrize(
    ("command", "gpu", "plans", "loads", "blocks"),
    [
        # Where no flag leaves a useful context, fit's answer stands first: its search loads every smaller checkpoint
        # in every layout once. DeepSeek: 68 loads of 8 GPUs' layouts, each pipeline stage its own, in 0.2 s.
        (*GEMMA, 26, 26, 11_500),
        (*AWQ, 36, 2, 900),  # the last of them is fit's answer, planned with the command's own flags
        (*DEEPSEEK, 5, 68, 28_000),
        # Flags beside each middle of the utilisation, 0.7 and 0.65, before the cheaper answer of the two is taken.
        ("vllm serve openai/gpt-oss-120b", "DGX Spark", 77, 3, 250),
    ],
)
def test_advice_plans_what_can_matter(
    command: str, gpu: str, plans: int, loads: int, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = oomph.plan(command, gpu=gpu, advise=False)
    counts = Counts(monkeypatch)
    advice = with_advice(plan).advice
    assert advice is not None and advice.fixes
    assert 0 < counts.plans <= plans
    assert counts.loads <= loads
    assert counts.blocks <= blocks


@pytest.mark.parametrize(
    ("command", "gpu", "plans", "loads", "blocks"),
    [
        (*GEMMA, 22, 15, 12_500),
        (*AWQ, 40, 13, 9_500),
        (*DEEPSEEK, 18, 13, 11_500),
        (*GPT_OSS, 48, 15, 6_000),
    ],
)
def test_what_if_plays_few_loads(
    command: str, gpu: str, plans: int, loads: int, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = oomph.plan(command, gpu=gpu, advise=False)
    counts = Counts(monkeypatch)
    assert try_changes(plan).rows
    assert 0 < counts.plans <= plans
    assert 0 < counts.loads <= loads
    assert 0 < counts.blocks <= blocks


def test_the_command_leaves_without_taking_its_modules_apart(tmp_path: Path) -> None:
    """A hook of the interpreter's end is not called; what was printed is there."""
    hook = "import sys; sys.addaudithook(lambda event, _: event == 'cpython._PySys_ClearAuditHooks' and print('END'))"
    program = f"{hook}; from oomph.cli.main import main; sys.argv[1:] = {PLAN!r}; main()"
    environment = os.environ | {"OOMPH_CACHE": str(tmp_path), "NO_COLOR": "1"}
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert answer.returncode == 1
    assert "WILL NOT START" in answer.stdout and "END" not in answer.stdout


# Of Qwen3-8B with 16k on an RTX 4090 the pick takes three plans with vLLM and five with SGLang, whose share is not
# known before one is tried. The others are for the lines beside it: each has its highest share, its most users and its
# longest context, and what is not shown was dominated. So a line more costs its plans, and nothing else may.
@pytest.mark.parametrize(("engine", "pick", "each_line"), [("vllm", 3, 9.5), ("sglang", 5, 13.5)])
def test_a_fit_plans_what_can_matter(engine: str, pick: int, each_line: float, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = oomph.fit("Qwen/Qwen3-8B", gpu="RTX 4090", context=16384, engine=engine)
    assert 0 < answer.plans <= pick + each_line * len(answer.front)
    solvers: list[Solver] = []
    begin = Solver.__init__

    def remember(solver: Solver, *arguments: Any, **named: Any) -> None:
        begin(solver, *arguments, **named)
        solvers.append(solver)

    monkeypatch.setattr(Solver, "__init__", remember)
    assert pick_for("Qwen/Qwen3-8B", parse_gpus("RTX 4090"), Want(16384), engine) is not None
    assert 0 < solvers[0].plans <= pick


def test_a_search_weighs_a_layout_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts, shares and numbers of users leave SGLang's weights as they are."""
    walks, walk = 0, weights.created_weights

    def counted_walk(*arguments: Any) -> Any:
        nonlocal walks
        walks += 1
        return walk(*arguments)

    monkeypatch.setattr(weights, "created_weights", counted_walk)
    weights._rank_weights.cache_clear()
    answer = oomph.fit("Qwen/Qwen3-8B", gpu="2x RTX 4090", context=16384, engine="sglang", only=True)
    assert walks == 4  # TP 2, the two stages of PP 2, one GPU alone
    assert answer.plans > 10 * walks


class Played(Loop):
    """Counts the requests that are looked at in a step."""

    entries = 0

    def duration(self, batch: list[Entry]) -> int:
        self.entries += len(batch)
        return super().duration(batch)


def test_requests_rest_between_their_blocks() -> None:
    config = Config(
        (Group("full", 16),), 1000, 32, 2048, 4096, lag=1, stale_waits=True, prefix_caching=True, uncached_first=True
    )
    workload = Drawn(Shape(prompt=500, output=200, shared=300), Arrivals(users=32), 200)
    loop = Played(config, unit(1), workload, Collector(config), True)
    loop.run()
    written = 200 * 200  # tokens, of which each is a decode in a step of its own
    assert loop.preemptions and 0 < loop.entries * 20 < written
