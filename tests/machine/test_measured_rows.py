"""A measured start as one row: what it holds, what it never holds, and rows that are in the truth sets."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from oomph.cli.main import main

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import add_measurement

STORED = [line for line in add_measurement.STORE.read_text().splitlines() if line]
RECORD: dict[str, Any] = {
    "oomph_record": 1, "kind": "start", "engine": {"name": "vllm", "version": "0.32.0"}, "card": "NVIDIA H200",
    "command": ["vllm", "serve", "/home/alice/hub/models--Qwen--Qwen3-8B/snapshots/1", "--max-model-len", "16384",
                "--served-model-name", "alices-model", "--api-key", "sk-abcdefgh12345678", "--port", "8001"],
    "measured": {"weights": 16394145792, "available_kv": 118000000000, "total": 150109880320},
}  # fmt: skip


def row(capsys: pytest.CaptureFixture[str], tmp_path: Path, record: dict[str, Any], *words: str) -> tuple[Any, str]:
    file = tmp_path / "start.json"
    file.write_text(json.dumps(record, indent=1))
    with pytest.raises(SystemExit) as done:
        main(["report", "--measurement", str(file), *words])
    printed = capsys.readouterr()
    return done.value.code, printed.out or printed.err


def test_a_record_becomes_one_line_that_passes_the_check(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, text = row(capsys, tmp_path, RECORD)
    assert code == 0 and text.count("\n") == 1
    checked = add_measurement.check(text.strip())
    assert checked.command == "vllm serve Qwen/Qwen3-8B --max-model-len 16384"
    assert checked.measured["weights"] == 16394145792 and checked.planned["weights"][1] == 16394145792
    for word in ("alice", "sk-", "8001", "snapshots"):
        assert word not in text


def test_a_folder_is_not_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    own = {**RECORD, "command": ["vllm", "serve", "/data/alices-finetune"]}
    code, text = row(capsys, tmp_path, own)
    assert code == 2 and "its name is not shared" in text and "alice" not in text
    assert row(capsys, tmp_path, own, "--", "vllm", "serve", "Qwen/Qwen3-8B")[0] == 0


def test_figures_of_another_model_and_deaths_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = {**RECORD, "measured": {"weights": 2**30, "available_kv": 2**30}}
    assert row(capsys, tmp_path, other)[0] == 3
    assert row(capsys, tmp_path, {**RECORD, "kind": "death"})[0] == 2


SPOILT = {
    "path": lambda row: {**row, "command": "vllm serve Qwen/Qwen3-8B --chat-template /home/x/t.jinja"},
    "secret": lambda row: {**row, "command": row["command"] + " --api-key sk-abcdefgh12345678"},
    "field": lambda row: {**row, "user": "someone"},
    "model": lambda row: {**row, "command": "vllm serve nobody/has-this-model"},
    "card": lambda row: {**row, "total_bytes": row["total_bytes"] // 2},
    "figures": lambda row: {**row, "measured": {**row["measured"], "weights": 1}},
    "release": lambda row: {**row, "version": "99.0"},
}


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_row_that_is_spoilt_is_refused(spoil: str) -> None:
    with pytest.raises(ValueError):
        add_measurement.check(json.dumps(SPOILT[spoil](json.loads(STORED[0])), separators=(",", ":")))


@pytest.mark.parametrize("line", STORED)
def test_stored_rows_are_planned_again(line: str) -> None:
    checked = add_measurement.check(line)
    assert any(" weights: " in line and ", inside" in line for line in add_measurement.compared(checked))
