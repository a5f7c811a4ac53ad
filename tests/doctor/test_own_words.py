"""Nobody gets another engine's flags: every flag, variable and setting that explain prints is one of the log's engine.

Over all fixtures, all short pastes and all posted logs of tests/truth, planned as a user sees them, and with wrappers
around the lines that name no engine, or name the one that runs another.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from oomph.doctor.explain import Explanation, explain
from oomph.engines.registry import all_engines, engine_named
from oomph.errors import OomphError
from oomph.facts.loglines import SETTINGS

sys.path.insert(0, str(Path(__file__).parents[1] / "logs"))
from printed import text_of

HERE = Path(__file__).parent
EVERY = os.environ.get("OWN_WORDS") == "all"  # every posted log, planned: some minutes

# programs around an engine, whose flags are nobody's
_AROUND = re.compile(
    r"docker|nvidia-smi|py-spy|hf |\bss -|lsof|journalctl|kubectl|\bray |df -|pip|--shm-size|--ipc|--help|sysctl|"
    r"swapon|kill -|--device /dev|git |apt |conda |ulimit|mount -"
)
_FLAG = re.compile(r"(?<![\w-])--?[a-z][a-z0-9_-]+")
_VARIABLE = re.compile(r"\b(VLLM|SGLANG|SGL|OLLAMA|TLLM|TRTLLM|LLAMA|GGML)_[A-Z0-9_]{3,}")
_WHOSE = {"VLLM": {"vllm"}, "SGLANG": {"sglang"}, "SGL": {"sglang"}, "OLLAMA": {"ollama"}, "TLLM": {"trtllm"},
          "TRTLLM": {"trtllm"}, "LLAMA": {"llamacpp"}, "GGML": {"llamacpp", "ollama"}}  # fmt: skip


def foreign_words(result: Explanation) -> list[str]:
    """What is printed and is not the engine's own."""
    named = not result.speaker and not any("no line names the engine" in note for note in result.notes)
    own = engine_named(result.engine.name or "vllm")
    others = [engine for engine in all_engines() if engine.name != own.name]
    texts = [one.change.label for one in (*result.remedies, *result.rejected)]
    wrong: list[str] = []
    for text in (text for text in texts if not _AROUND.search(text)):
        flags = _FLAG.findall(text)
        wrong += [flag for flag in flags if not named]
        wrong += [flag for flag in flags if own.name == "ollama"]  # it has options, settings and variables
        wrong += [flag for flag in flags if not own.knows_flag(flag) and any(o.knows_flag(flag) for o in others)]
        wrong += [setting for setting, engine in SETTINGS.items() if engine != own.name and setting in text]
    for text in [*texts, *(one.command for one in result.remedies)]:
        wrong += [match[0] for match in _VARIABLE.finditer(text) if own.name not in _WHOSE[match[1]]]
    for command in (one.command for one in result.remedies if one.command and not _AROUND.search(one.command)):
        wrong += [flag for flag in _FLAG.findall(command) if not own.knows_flag(flag)]
    return wrong


ROWS = [json.loads(line) for line in (HERE / "excerpts.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("number", range(len(ROWS)), ids=lambda n: f"{n}-{ROWS[n]['engine']}-{ROWS[n]['stage']}")
def test_a_short_paste(number: int) -> None:
    result = explain(ROWS[number]["text"] + "\n")
    named = not any("no line names the engine" in note for note in result.notes)
    assert not named or result.engine.name == ROWS[number]["engine"]
    assert not foreign_words(result)


@pytest.mark.parametrize("log", sorted((HERE / "fixtures").glob("*.log")), ids=lambda log: log.stem)
def test_a_fixture(log: Path) -> None:
    assert not foreign_words(explain(log, plan=EVERY))


def posted() -> list[tuple[str, str]]:
    records = (HERE.parent / "truth" / "field-logs.jsonl").read_text(encoding="utf-8").splitlines()
    return [(row["id"], text_of(row)) for row in map(json.loads, records)]


@pytest.mark.parametrize("part", range(8))
def test_the_posted_logs(part: int) -> None:
    wrong: dict[str, list[str]] = {}
    for name, text in posted()[part::8]:
        try:
            words = foreign_words(explain(text + "\n", plan=EVERY))
        except OomphError:
            continue  # lines of no engine
        if words:
            wrong[name] = words
    assert not wrong


# llama.cpp's lines as Ollama's server, its container, its client or its API hand them on; and LM Studio's
_MALLOC = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9000.00 MiB on device 0: cudaMalloc failed: out of memory"
)
_FAILED = "llama_model_load: error loading model: unable to allocate CUDA0 buffer"
INSIDE = {
    "runner": f"{_MALLOC}\n{_FAILED}\nError: llama runner process has terminated: error loading model",
    "api": '{"error":"llama runner process has terminated: cudaMalloc failed: out of memory"}\n' + _MALLOC,
    "variables": f"OLLAMA_NUM_PARALLEL=4 OLLAMA_FLASH_ATTENTION=1\n{_MALLOC}\n{_FAILED}",
    "compose": f"image: ollama/ollama:latest\nollama-1  | {_MALLOC}\nollama-1  | {_FAILED}",
    "kubectl": f"kubectl logs deploy/ollama\n{_MALLOC}\n{_FAILED}",
    "systemd": f"May 01 10:00:00 host ollama[812]: {_MALLOC}\nMay 01 10:00:00 host ollama[812]: {_FAILED}",
    "prose": f"I run gemma3:27b in Ollama 0.9 and get\n{_MALLOC}\n{_FAILED}",
    "client": f"$ ollama run qwen3:32b\nError: 500 Internal Server Error: unable to load model\n{_MALLOC}\n{_FAILED}",
    "blobs": f"/usr/bin/ollama runner --model /root/.ollama/models/blobs/sha256-0123456789abcdef\n{_MALLOC}\n{_FAILED}",
    "windows": f"C:\\Users\\me\\AppData\\Local\\Programs\\Ollama\\ollama.exe serve\n{_MALLOC}\n{_FAILED}",
    "open webui": f"open-webui: Ollama: 500, message='Internal Server Error'\n{_MALLOC}\n{_FAILED}",
}


@pytest.mark.parametrize("wrapper", INSIDE)
def test_llama_cpp_s_lines_inside_of_ollama_are_ollama_s(wrapper: str) -> None:
    result = explain(INSIDE[wrapper] + "\n", plan=False)
    assert (result.failed, result.stage, result.engine.name) == (True, "weights_load", "ollama")
    assert not foreign_words(result)
    assert any("num_gpu" in remedy.change.label for remedy in result.remedies)


@pytest.mark.parametrize(
    "line", ["[LM Studio] Failed to load model", "lms load qwen3-32b", "LM Studio 0.3.27 (llama.cpp CUDA v2.3)"]
)
def test_lm_studio_has_sliders(line: str) -> None:
    result = explain(f"{line}\n{_MALLOC}\n{_FAILED}\n", plan=False)
    changes = " ".join(remedy.change.label for remedy in result.remedies)
    assert "slider" in changes and not _FLAG.search(changes)
