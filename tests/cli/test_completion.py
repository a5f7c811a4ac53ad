"""What a shell offers after a line, and the three scripts that ask for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from oomph.cli.commands.completion import SCRIPTS, plain_words, quoted
from oomph.cli.main import main
from oomph.cli.table import COMMANDS

BASH = """
source <(oomph completion bash)
COMP_LINE="$1"; COMP_POINT=${#COMP_LINE}; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_oomph
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("oomph pl", ["plan"]),
        ("oomph plan --compile-cache ", ["cold", "warm"]),
        ("oomph plan --gpu 'RTX 4090 L", ["RTX 4090 Laptop"]),
        ("oomph inspect Qwen/Qwen3-8B-F", ["Qwen/Qwen3-8B-FP8"]),
        ("oomph vllm serve qwen/qwen3-8b-f", ["Qwen/Qwen3-8B-FP8"]),
        ("oomph plan -- vllm serve X --max-model", ["--max-model-len"]),
        ("oomph --gpu H100 vllm ", ["serve"]),
        ("oomph diff --from vllm==0.31", ["vllm==0.31.0"]),
        ("oomph rule k0", [f"K0{n}" for n in range(1, 10)]),
        ("oomph completion f", ["fish"]),
        ("oomph fit x --emit c", ["command", "compose"]),
        ("oomph no-such-thing ", []),
        ("oomph plan --html ", []),
        ("oomph plan 'unfinished", []),
    ],
)
def test_what_comes_next(line: str, expected: list[str]) -> None:
    words = plain_words(line)
    assert words[: len(expected)] == expected and (words == expected or len(words) > len(expected) > 0)


def test_all_commands_and_options_are_offered() -> None:
    assert set(COMMANDS) <= set(plain_words("oomph "))
    options = plain_words("oomph plan --")
    assert {"--gpu", "--margin", "--json", "--width", "--help"} <= set(options)


def test_bash_gets_words_that_it_can_insert() -> None:
    assert quoted("oomph plan --gpu RTX\\ 4090\\ L", "RTX\\ 4090\\ L") == ["RTX\\ 4090\\ Laptop"]
    assert quoted("oomph diff --from vllm==0.31", "0.31") == ["0.31.0"]


def test_bash_itself() -> None:
    bash = shutil.which("bash")
    program = Path(sys.executable).parent / "oomph"
    if bash is None or not program.exists():
        pytest.skip("no bash, or oomph is not installed")
    for words, expected in (
        (["oomph", "plan", "--gpu", "RTX\\ 4090\\ L"], ["RTX\\ 4090\\ Laptop"]),
        (["oomph", "expl"], ["explain"]),
    ):
        done = subprocess.run(
            [bash, "-c", BASH, "bash", " ".join(words), *words],
            capture_output=True, text=True, env={"PATH": f"{program.parent}:/usr/bin:/bin"}, timeout=60,
        )  # fmt: skip
        assert done.stdout.split("\n")[:-1] == expected, done.stderr


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_scripts(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["completion", shell])
    script = capsys.readouterr().out
    assert done.value.code == 0 and "oomph completion" in script
    if program := shutil.which(shell):
        assert subprocess.run([program, "-n"], input=script, text=True, capture_output=True).returncode == 0


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["completion", "cmd"])
    assert done.value.code == 2 and "bash, zsh, fish" in capsys.readouterr().err
