"""`oomph report`: one file for an issue, complete and without secrets."""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from oomph.answers.report import without_places
from oomph.cli.main import main

LOG = Path(__file__).parents[1] / "doctor" / "fixtures" / "P05.log"
SERVE = ["--", "vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "8192"]


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[object, str]:
    with pytest.raises(SystemExit) as done:
        main(["report", *words])
    return done.value.code, capsys.readouterr().out


def test_it_holds_everything(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    assert call(capsys, "--gpu", "RTX 4090", "--log", str(LOG), "--output", str(path), *SERVE)[0] == 0
    text = path.read_text()
    for part in ("| oomph |", "| Python |", "RTX 4090", "## The command", "## The plan", "## What the log says", "P05"):
        assert part in text
    assert LOG.read_text().splitlines()[-1][:80] in text


def test_it_holds_no_secret(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    home = str(Path.home())
    log.write_text(f"HF_TOKEN=hf_abcdefABCDEF0123456789\nINFO loading {home}/models/x\n" + LOG.read_text())
    secret = ["--api-key", "sk-verysecret12345678"]
    code, text = call(capsys, "--gpu", "RTX 4090", "--log", str(log), *SERVE, *secret)
    assert code == 0 and "hf_abcdef" not in text and "sk-verysecret" not in text
    assert f"{home}/models" not in text and "~/models" in text


def test_names_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "somebody")
    assert "somebody" not in without_places("/data/somebody/x")


def test_what_cannot_be_told_is_a_problem_and_no_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = call(capsys, "--gpu", "no such card", "--log", "/no/such.log", "--", "vllm", "serve", "nobody/knows")
    assert code == 0 and "the GPUs are not known" in text and "not planned" in text and "cannot be read" in text
    assert call(capsys, "--gpu", "H100", "--output", "/no/such/folder/x.md")[0] == 2
