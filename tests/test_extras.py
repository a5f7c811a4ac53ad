"""The base install needs what a plan needs; what an extra brings is missed in one sentence, with the way to get it."""

import subprocess
import sys

import pytest

EXTRAS = ("starlette", "uvicorn", "mcp", "huggingface_hub", "ortools")
_WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
from oomph.cli.main import main
sys.argv = ["oomph", *{arguments!r}]
sys.exit(main())
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = _WITHOUT.format(names=EXTRAS, arguments=arguments)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "--gpu", "RTX 4090", "--", "vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "16384"),
        ("fit", "Qwen/Qwen3-8B", "--gpu", "RTX 4090"),
        ("inspect", "Qwen/Qwen3-8B"),
        ("pack", "--gpu", "H100", "vllm serve Qwen/Qwen3-8B", "vllm serve Qwen/Qwen3-0.6B"),
    ],
)
def test_answers_need_no_extra(arguments: tuple[str, ...]) -> None:
    answer = run(*arguments)
    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize(("command", "extra"), [("ui", "ui"), ("mcp", "mcp")])
def test_what_an_extra_brings_is_named(command: str, extra: str) -> None:
    answer = run(command)
    assert answer.returncode == 3
    assert "is not installed" in answer.stderr and f"pip install 'oomph[{extra}]'" in answer.stderr


def test_a_model_that_is_not_here_is_asked_of_the_hub_without_its_library() -> None:
    answer = run("inspect", "somebody/not-a-model-of-anybody")
    assert answer.returncode in (2, 3) and "HF_HUB_OFFLINE" in answer.stderr
