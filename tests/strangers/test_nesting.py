"""Deep nesting is refused before a parser sees it, at every entry point, and the process goes on.

60 KB of brackets ended the process in libyaml's composer (SIGSEGV): here the entry points run in one of their own.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

from oomph.commands.manifests.yaml_text import load
from oomph.errors import CommandError
from oomph.text.nesting import DEEPEST, MOST_VALUES, TooDeep, bounded
from source_trees import SRC, files, tree

MANY = 30_000
FLOW = "image: vllm/vllm-openai\nx: " + "[" * MANY + "]" * MANY + "\n"
DEEP_TEXTS = {
    "flow.yaml": FLOW,
    "open.yaml": "image: vllm/vllm-openai\nx: " + "{a: [" * MANY,
    "block.yaml": "image: vllm/vllm-openai\nx:\n  " + "- " * MANY + "a\n",
    "keys.yaml": "image: vllm/vllm-openai\n" + "? " * MANY + "a\n",
    "indented.yaml": "image: vllm/vllm-openai\n" + "".join(" " * level + "a:\n" for level in range(1000)),
    "aliases.yaml": "a0: &a0 [vllm serve m/m]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 3000)),
    "many.yaml": "a0: &a0 [vllm]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40)),
    "merged.yaml": "a0: &a0 {k: vllm serve m/m}\n"
    + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 12)),
    "book.ipynb": '{"cells": ' + "[" * MANY + "]" * MANY + "}",
    "Dockerfile": "FROM vllm/vllm-openai\nCMD " + "[" * MANY + '"vllm"' + "]" * MANY + "\n",
    "script.py": "import vllm\nllm = vllm.LLM(model=" + "-" * MANY + "1)\n",
    "chain.py": "import vllm\nllm = vllm.LLM(model=" + "+".join(["'a'"] * MANY) + ")\n",
    "serve.sh": "vllm serve m/m " + "${A:-" * MANY + "}" * MANY + " $(" + "$(" * MANY + "\n",
    "Makefile": "serve:\n\tvllm serve m/m " + "$(A" * MANY + ")" * MANY + "\n",
}  # fmt: skip
DRIVER = """
import sys
sys.path[:0] = {paths!r}
import json
from calling import call
for words in json.loads(sys.argv[1]):
    answer = call(*words)
    print(json.dumps([words, answer.returncode, answer.stdout[-200:], answer.stderr[-300:]]), flush=True)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("deep")
    for name, text in DEEP_TEXTS.items():
        (place / name).write_text(text)
    model = place / "model"
    model.mkdir()
    (model / "config.json").write_text('{"architectures": ' + "[" * MANY + "]" * MANY + "}")
    (place / "deep.log").write_text(
        '{"log": ' + "[" * MANY + "]" * MANY + "}\nINFO 01-01 vLLM API server version 0.21.0\n"
    )
    (place / "batch.jsonl").write_text("[" * MANY + "]" * MANY + "\n")
    return place


def test_no_entry_point_dies(folder: Path) -> None:
    deep = [["plan", "--gpu", "H100", name] for name in DEEP_TEXTS]
    flag = ["plan", "--gpu", "H100", "--", "vllm", "serve", "Qwen/Qwen3-0.6B"]
    calls = [
        *deep,
        ["check", "--gpu", "H100", "."],
        ["report", "--gpu", "H100", "flow.yaml"],
        ["report", "--gpu", "H100", "--", *flag[4:], "--config", "flow.yaml"],
        [*flag, "--config", "flow.yaml"],
        [*flag, "--hf-overrides", '{"a":' * 5000 + "1" + "}" * 5000],
        ["plan", "--gpu", "H100", "--", "trtllm-serve", "Qwen/Qwen3-0.6B", "--extra_llm_api_options", "flow.yaml"],
        ["plan", "--gpu", "H100", "--", "vllm", "serve", "./model"],
        ["inspect", "./model"],
        ["explain", "deep.log"],
        ["plan", "--batch", "batch.jsonl"],
        ["pack", "--gpu", "H100", "flow.yaml"],
        ["gpus", "Qwen/Qwen3-0.6B", "--prices", "batch.jsonl"],
    ]
    paths = [str(Path(__file__).parents[1])]
    run = subprocess.run(
        [sys.executable, "-c", DRIVER.format(paths=paths), json.dumps(calls)],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.returncode == 0, (run.returncode, answers[-1:], run.stderr[-500:])
    assert len(answers) == len(calls)
    for words, code, stdout, stderr in answers:
        assert code in (0, 1, 2, 3, 4), (words, code, stderr)
        assert "a bug in oomph" not in stdout + stderr and "Traceback" not in stderr, (words, stderr)
    plans = {words[-1]: (code, stderr) for words, code, _, stderr in answers if words[-1] in DEEP_TEXTS}
    for name in ("flow.yaml", "open.yaml", "block.yaml", "indented.yaml", "aliases.yaml"):
        assert plans[name][0] == 2 and "nested more than 64 levels deep" in plans[name][1], (name, plans[name])
    for name in ("many.yaml", "merged.yaml"):
        assert plans[name][0] == 2 and f"more than {MOST_VALUES} values" in plans[name][1], (name, plans[name])


def test_the_page_and_the_agents_answer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from oomph.sources import boundary
    from oomph.web.answers import answer_read

    monkeypatch.chdir(folder)
    with pytest.raises(CommandError, match="nested more than 64"):
        answer_read({"path": str(folder / "flow.yaml"), "name": "flow.yaml", "gpu": "", "engine": ""})
    boundary._root = ""
    pytest.importorskip("mcp")
    from oomph.agents.server import _deployment

    with pytest.raises(CommandError, match="nested more than 64"):
        _deployment("", "flow.yaml", "")


@pytest.mark.parametrize("levels", (1, DEEPEST - 1, DEEPEST))
def test_what_a_person_writes_passes(levels: int) -> None:
    text = "[" * levels + '"[[[]]]\\"[["' + "]" * levels
    assert json.loads(bounded(text)) and bounded(text.encode()) == text.encode()
    assert load("- " * (levels - 1) + "a", "a.yaml")


def test_brackets_in_strings_hide_nothing() -> None:
    closing = '["]",' * 200
    with pytest.raises(TooDeep):
        bounded(closing)
    assert bounded('{"a": "' + "[" * 10_000 + '"}') is not None
    with pytest.raises(TooDeep):
        bounded(b'"' + b"\\" * 2 + b'" ' + b"[" * 100)  # a quote behind an even number of backslashes closes


def test_a_value_inside_itself_is_refused() -> None:
    with pytest.raises(CommandError, match="contains itself"):
        load("a: &a [1, *a]\n", "a.yaml")


# Files whose JSON is oomph's own, or was bounded where it came in; the decoder of logs reads UTF-8.
_OWN = {
    "catalog/__init__.py", "catalog/facts.py", "doctor/reading/raised.py", "report/views.py", "web/progress.py",
    "report/many.py", "sources/load.py", "engines/vllm/start.py", "logs/reader.py",
    "doctor/reading/prose.py",
}  # fmt: skip


def test_every_reader_of_json_is_bounded() -> None:
    """`json.loads(bounded(text))`: a new reader that forgets it fails here."""
    for path in files():
        name = str(path.relative_to(SRC))
        if name in _OWN:
            continue
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            is_reader = called in ("json.loads", "json.load", "msgspec.json.decode", "tomllib.loads") or (
                called.endswith(("decoder.decode", "_header.decode"))
            )
            if is_reader:
                inside = chain.from_iterable(ast.walk(argument) for argument in node.args)
                assert any(isinstance(part, ast.Name) and part.id == "bounded" for part in inside) or (
                    name in ("sources/json_input.py", "sources/safetensors.py")  # the second look at what was bounded
                ), f"{name}:{node.lineno}: {called} of a text that was not bounded"
            assert "yaml.load" not in called or name == "commands/manifests/yaml_text.py", f"{name}:{node.lineno}"
