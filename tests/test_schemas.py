"""docs/schema is what the types say, and everything that is printed as JSON is what docs/schema says."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from oomph.cli.main import main

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "tests" / "doctor" / "fixtures"
jsonschema = pytest.importorskip("jsonschema")
sys.path.insert(0, str(ROOT / "tools"))
import schemas  # noqa: E402

QWEN = ["vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "8192"]
GEMMA = ["vllm", "serve", "nvidia/Gemma-4-31B-IT-NVFP4", "-tp", "2"]
COMPOSE = """services:
  small: {image: "vllm/vllm-openai:v0.21.0", command: "--model Qwen/Qwen3-8B --max-model-len 8192"}
  other: {image: "vllm/vllm-openai:v0.21.0", command: "--model nobody/knows-this --max-model-len 8192"}
"""
# schema -> commands whose output it describes
EXAMPLES: dict[str, list[list[str]]] = {
    "plan": [
        ["plan", "--json", "--gpu", "RTX 4090", "--", *QWEN],
        ["plan", "--json", "--gpu", "2x RTX 5070 Ti", "--", *GEMMA],
        ["plan", "--json", "--no-advice", "--gpu", "H100", "--", "vllm", "serve", "Qwen/Qwen3-8B", "-tp", "3"],
        ["plan", "--json", "--gpu", "RTX 4090", "--", "llama-server", "-m", "Qwen3-8B-Q4_K_M.gguf", "-c", "8192"],
        ["plan", "--json", "--gpu", "RTX 4090", "--", "ollama", "run", "qwen3:8b"],
        ["plan", "--json", "--gpu", "H100", "--", "python", "-m", "sglang.launch_server", "--model", "Qwen/Qwen3-8B"],
    ],
    "check": [["plan", "--json", "--gpu", "RTX 4090", "COMPOSE"]],
    "explain": [["explain", "--json", str(path)] for path in sorted(FIXTURES.glob("*.log"))[::4]],
    "thread": [["explain", "--json", str(FIXTURES.parent / "threads" / "thread.txt")]],
    "inspect": [["inspect", "--json", name] for name in ("gemma-4-31b nvfp4", "openai/gpt-oss-20b", "Qwen/Qwen3-8B")],
    "fit": [
        ["fit", "--json", "Qwen/Qwen3-8B", "--only", "--gpu", "T4", "--context", "8k", "--explain"],
        ["fit", "--json", "Qwen/Qwen3-32B", "--only", "--gpu", "T4"],
    ],
    "models": [["models", "--json", "qwen3", "--gpu", "T4", "--limit", "3"]],
    "gpus": [["gpus", "--json", "Qwen/Qwen3-8B", "--only", "--card", "RTX 4090", "--card", "T4"]],
    "gpu-list": [["gpus", "--json"], ["gpus", "--json", "2x RTX 3090 used 1GiB"]],
    "what-if": [["what-if", "--json", "--gpu", "T4", "--", *QWEN]],
    "diff": [["diff", "--json", "--gpu", "H100", "--from", "vllm==0.21.0", "--to", "vllm==0.32.0", "--", *QWEN]],
    "compare": [["compare", "--json", "Qwen/Qwen3-8B", "--gpu", "T4"]],
    "pack": [
        ["pack", "--json", "--gpu", "H100", " ".join(QWEN), "vllm serve Qwen/Qwen3-0.6B --max-model-len 4096"],
        ["pack", "--json", "--gpu", "RTX 3060", " ".join(QWEN)],
    ],
    "learn": [["learn", "--json", "--list"]],
    "report": [
        ["report", "--json", "--gpu", "RTX 4090", "--log", str(FIXTURES / "P05.log"), "--", *QWEN],
        ["report", "--json", "--gpu", "RTX 4090"],
    ],
    "rule": [["rule", "--json"], ["rule", "--json", "K02"]],
    "simulate": [
        ["simulate", "--json", "--gpu", "H100", "--users", "4", "--requests", "8", "--", *QWEN],
        ["simulate", "--json", "--gpu", "H100", "--rate", "500", "--requests", "400", "--", *QWEN],
        ["simulate", "--json", "--gpu", "RTX 4090", "--steps", "--", *QWEN],
        ["simulate", "--json", "--gpu", "H100", "--sweep", "users=1..4", "--requests", "8", "--", *QWEN],
    ],
    "simulate-to": [
        ["simulate", "--json", "--gpu", "H100", "--engine", "vllm==0.21.0", "--to", "vllm==0.32.0", "--users", "2",
         "--requests", "4", "--", *QWEN],
    ],
    "error": [
        ["plan", "--json", "--gpu", "no such card", "--", *QWEN],
        ["inspect", "--json", "nobody knows this"],
        ["explain", "--json", "no/such/file.log"],
        ["fit", "--json", "Qwen/Qwen3-8B", "--gpu", "H100", "--context", "many"],
        ["simulate", "--json", "--gpu", "H100", "--", "ollama", "run", "nobody-knows-this"],
        ["compare", "--json", "Qwen/Qwen3-8B", "--gpu", "H100", "--engines", "none"],
        ["what-if", "--json", "--gpu", "H100"],
        ["diff", "--json", "--gpu", "H100", "--no-such-option"],
        ["gpus", "--json", "Qwen/Qwen3-8B", "--card", "none"],
    ],
}  # fmt: skip


def stored(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((ROOT / "docs" / "schema" / f"{name}.json").read_text())
    return schema


def complete(value: Any) -> Any:
    """The schema with nothing allowed but what it names: a field that is printed must be in it."""
    if isinstance(value, dict):
        closed = {"additionalProperties": False} if "properties" in value else {}
        return {**{key: complete(inner) for key, inner in value.items()}, **closed}
    return [complete(inner) for inner in value] if isinstance(value, list) else value


def validate(name: str, answer: Any) -> None:
    jsonschema.Draft202012Validator(complete(stored(name))).validate(answer)


def test_the_files_are_what_the_types_say() -> None:
    for path, text in schemas.texts().items():
        assert path.read_text() == text, "run: make schema"
    assert {path.stem for path in schemas.FOLDER.glob("*.json")} == set(schemas.OUTPUTS)
    assert set(EXAMPLES) | {"batch-case", "batch-line"} == set(schemas.OUTPUTS)


@pytest.mark.parametrize("name", schemas.OUTPUTS)
def test_they_are_schemas(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(stored(name))


@pytest.mark.parametrize(
    ("name", "words"), [(name, words) for name, many in EXAMPLES.items() for words in many], ids=lambda x: str(x)[:60]
)
def test_what_is_printed_is_described(
    name: str, words: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if words[-1] == "COMPOSE":
        (tmp_path / "compose.yaml").write_text(COMPOSE)
        words = [*words[:-1], str(tmp_path / "compose.yaml")]
    with pytest.raises(SystemExit) as done:
        main(words)
    printed = capsys.readouterr()
    assert done.value.code in ((2, 3) if name in ("error", "check") else (0, 1, 4)), printed.err
    assert bool(printed.err) == (name == "error")
    validate(name, json.loads(printed.out))


def test_a_batch(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    cases: list[Any] = [
        {"id": 1, "gpu": "RTX 4090", "args": QWEN},
        {"id": "two", "gpu": {"name": "H100", "count": 2}, "engine": "vllm==0.21.0", "args": [*QWEN, "-tp", "2"]},
        {"gpu": "RTX 4090", "args": QWEN, "given": {"available_kv": "3GiB"}, "compile_cache": "warm", "margin": "5%"},
        {"id": [3], "gpu": "RTX 4090", "args": ["vllm", "serve", "Qwen/Qwen3-32B"]},
    ]
    broken = [{"id": 4, "gpu": "none", "args": QWEN}, {"id": 5, "gpu": "H100", "args": ["vllm", "serve", "no/such"]}]
    for case in cases + broken:
        validate("batch-case", case)
    file = tmp_path / "cases.jsonl"
    for several, code in ((cases[:1], 0), (cases, 1), (broken, 2), (broken[1:], 3)):
        file.write_text("".join(json.dumps(case) + "\n" for case in several))
        with pytest.raises(SystemExit) as done:
            main(["plan", "--batch", str(file)])
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert done.value.code == code
        assert [line["id"] for line in lines] == [case.get("id") for case in several]
        for line in lines:
            validate("batch-line", line)


def test_the_check_finds_a_field_that_is_missing_or_unknown() -> None:
    good = {"schema": 1, "error": {"kind": "bug", "message": "x", "hint": ""}}
    validate("error", good)
    for wrong in ({"schema": 1}, {**good, "more": 1}, {**good, "schema": 2}):
        with pytest.raises(jsonschema.ValidationError):
            validate("error", wrong)
