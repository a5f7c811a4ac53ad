import pytest

from oomph.commands import parse_command
from oomph.commands.conditions import evaluate
from oomph.commands.shell import commands


def words(text, **environment):
    return [list(command.words) for command in commands(text, environment)]


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("[ -n x ]", True), ("[ -n ]", False), ("[[ -z $X ]]", True), ("[ ! -z x ]", True), ("! [ -n x ]", False),
        ("[ a = a ]", True), ("[[ a == b ]]", False), ("[[ abc == a* ]]", True), ("[ $X = y ]", False),
        ("[ 2 -gt 1 ]", True), ("test 3 -le 2", False), ("[ -f file ]", None), ("[ a -a b ]", None),
        ("command -v x", None), ("[[ -n x", None), ("[ $(nproc) -gt 2 ]", None), ("[ x ]", True),
    ],
)  # fmt: skip
def test_tests(text, result):
    assert evaluate(text.split()) is result


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if [ -n \"$X\" ]; then run a; else run b; fi", ["run b"]),
        ("X=1\nif [ -n \"$X\" ]; then\n run a\nelif [ 1 ]; then\n run c\nelse\n run b\nfi\nrun d", ["run a", "run d"]),
        ("if make ready; then run a; else run b; fi", ["make ready", "run a", "run b"]),
        ("[ -n \"$X\" ] && run a\nrun b", ["run b"]),
        ("[[ -z $X ]] && run a || run b", ["run a", "run b"]),
        ("[[ -n $X ]] && A=1 || A=2\nrun $A", ["run 2"]),
        ("A=(x)\n[[ -n $X ]] && A+=(y)\nif [ -z \"$X\" ]; then A+=(z); fi\nrun ${A[@]}", ["run x z"]),
        ("case $M in small) run a ;; big|huge) run b ;; *) run c ;; esac; run d", ["run b", "run d"]),
        ("case \"$1\" in --port) PORT=\"$2\"; shift 2 ;; *) run usage ;; esac\nrun p", ["run p"]),
        ("case $(uname) in Linux) run a ;; esac", ["run a"]),
        ("fi\nesac\nrun a", ["run a"]),
    ],
)  # fmt: skip
def test_which_lines_run(text, expected):
    found = [word for word in words(text, M="big") if word[0] in ("run", "make")]
    assert found == [line.split() for line in expected]


SCRIPT = """#!/bin/bash
MODEL=org/m
TP=2
MAX=""
while [[ $# -gt 0 ]]; do
  case "$1" in
    --model) MODEL="$2"; shift 2 ;;
    --tp) TP="$2"; shift 2 ;;
    *) echo "unknown: $1"; exit 1 ;;
  esac
done
ARGS=(--model "$MODEL" --tensor-parallel-size "$TP")
if [[ -n "$MAX" ]]; then
  ARGS+=(--max-model-len "$MAX")
fi
[ -n "$EAGER" ] && ARGS+=(--enforce-eager)
exec python -m vllm.entrypoints.openai.api_server "${ARGS[@]}"
"""


def test_a_script_with_options_of_its_own(tmp_path):
    path = tmp_path / "serve.sh"
    path.write_text(SCRIPT)
    d = parse_command([str(path)])
    assert (d.model, d.flags) == ("org/m", {"tensor_parallel_size": 2})
    assert parse_command([str(path)], outside={"EAGER": "1"}).flags["enforce_eager"] is True
