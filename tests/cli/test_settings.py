"""Options that every command has, the version with the age of the facts, and the pages of the rules."""

from __future__ import annotations

import json
import os
from datetime import date, timedelta

import pytest

from oomph.cli.main import main
from oomph.cli.settings import take_settings
from oomph.cli.version import STALE_AFTER, version_text
from oomph.engines.registry import all_engines

PLAN = ["--gpu", "RTX 4090", "vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "8192"]


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as done:
        main(words)
    printed = capsys.readouterr()
    return done.value.code, printed.out, printed.err


def test_quiet_leaves_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "-q", *PLAN) == (0, "", "")
    assert call(capsys, "plan", "--quiet", "--gpu", "RTX 3060", "--", "vllm", "serve", "Qwen/Qwen3-32B")[:2] == (1, "")
    code, out, errors = call(capsys, "-q", "--gpu", "none", "vllm", "serve", "x")
    assert code == 2 and out == "" and "error" in errors


def test_the_width(capsys: pytest.CaptureFixture[str]) -> None:
    before = dict(os.environ)
    narrow = call(capsys, "--width", "60", *PLAN)[1]
    wide = call(capsys, "--width=200", *PLAN)[1]
    assert max(map(len, narrow.splitlines())) <= 60 < max(map(len, wide.splitlines())) <= 200
    assert dict(os.environ) == before
    assert call(capsys, "--width", "3", *PLAN)[0] == 2
    assert call(capsys, "--width")[0] == 2


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["--no-color", "plan", "-q", "--", "x", "-q"], ["plan", "--", "x", "-q"]),
        (["fit", "m", "--gpu", "H100", "--quiet"], ["fit", "m", "--gpu", "H100"]),
        (["llama-server", "-q", "--width", "4"], ["llama-server", "-q", "--width", "4"]),
        (["plan", "--gpu", "-q", "--", "x"], ["plan", "--gpu", "-q", "--", "x"]),
    ],
)
def test_what_is_ours_and_what_is_the_engines(words: list[str], left: list[str]) -> None:
    take_settings(words)
    assert words == left


def test_the_version_says_how_old_its_facts_are() -> None:
    newest = max(date.fromisoformat(engine.looked_at()) for engine in all_engines())
    assert "newer releases may differ" not in version_text(newest)
    late = version_text(newest + timedelta(days=STALE_AFTER + 1))
    assert "days ago: newer releases may differ" in late
    assert newest <= date.today() and version_text().startswith("oomph ")


def test_a_rule_has_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "rule", "k02")[1] == call(capsys, "explain", "--rule", "K02")[1]
    assert "K02  " in call(capsys, "rule")[1]
    (page,) = json.loads(call(capsys, "rule", "K02", "--json")[1])["rules"]
    assert page["id"] == "K02" and page["title"] and page["page"].startswith("K02")
    assert call(capsys, "rule", "Z99")[0] == 2


def test_every_help_names_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--help"], ["plan", "--help"], ["explain", "--help"], ["rule", "--help"]):
        assert "4  too close to call" in call(capsys, *words)[1]
