"""What a plan costs, counted instead of timed: the modules that it imports, and the plans that its advice makes.

tools/cpu.py measures the time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import oomph
from oomph.advice import Judge

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
    "oomph.advice.judge", "oomph.cli.plan", "oomph.doctor", "oomph.ir.log_kinds", "oomph.logs", "oomph.search",
    "oomph.simulate", "oomph.sources.folder", "oomph.sources.hub", "oomph.web", "oomph.engines.sglang.command",
    "oomph.engines.llamacpp.planner", "oomph.engines.trtllm.planner", "oomph.facts.vllm.logs",
}  # fmt: skip
MOST_MODULES = 192  # of oomph's own; 188 when this was written


def _imported(words: list[str], cache: Path) -> set[str]:
    environment = os.environ | {"OOMPH_CACHE": str(cache), "NO_COLOR": "1"}
    answer = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, env=environment)
    assert answer.stdout, answer.stderr
    return set(answer.stderr.split())


def test_a_plan_imports_what_it_needs(tmp_path: Path) -> None:
    modules = _imported(PLAN, tmp_path)
    assert not modules & NOT_FOR_A_PLAN
    assert sum(name.split(".")[0] == "oomph" for name in modules) <= MOST_MODULES


def test_help_imports_next_to_nothing(tmp_path: Path) -> None:
    modules = _imported(["--help"], tmp_path)
    assert not modules & {"click", "msgspec", "oomph.plan", "oomph.ir.plan"}


@pytest.mark.parametrize(
    ("command", "gpu", "most"),
    [
        ("vllm serve nvidia/Gemma-4-31B-IT-NVFP4 -tp 2", "2x RTX 5070 Ti", 60),
        ("vllm serve Qwen/Qwen3-32B-AWQ", "RTX 4090", 40),
        ("vllm serve deepseek-ai/DeepSeek-V3.1 -tp 8", "8x H100", 12),
    ],
)
def test_advice_makes_few_plans(command: str, gpu: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    judges: list[Judge] = []
    begin = Judge.__init__

    def remember(judge: Judge, *arguments: object) -> None:
        begin(judge, *arguments)  # type: ignore[arg-type]
        judges.append(judge)

    monkeypatch.setattr(Judge, "__init__", remember)
    advice = oomph.plan(command, gpu=gpu).advice
    assert advice is not None and advice.fixes
    assert 0 < sum(len(judge._plans) for judge in judges) <= most
