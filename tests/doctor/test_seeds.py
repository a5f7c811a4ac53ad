"""The documents this project began with: our own short texts with their figures, and the screens in docs/seeds.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from oomph.cli.main import main
from oomph.doctor.explain import explain

ROOT = Path(__file__).parents[2]
SCREENS = re.findall(r"```console\n\$ oomph (explain [^\n]*)\n(.*?)```", (ROOT / "docs" / "seeds.md").read_text(), re.S)


@pytest.mark.parametrize(("command", "shown"), SCREENS, ids=[command for command, _ in SCREENS])
def test_the_screens_are_what_is_printed(
    command: str, shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "96")
    with pytest.raises(SystemExit):
        main(command.split())
    assert " ".join(capsys.readouterr().out.split()).startswith(" ".join(shown.split()))


@pytest.mark.parametrize(
    ("name", "cause", "stage", "helps", "useless"),
    [
        ("gemma-two-cards", "L02", "weights_load", "gemma-4-31B-it", "gpu-memory-utilization"),
        ("guide-lower-utilisation", "L01", "weights_load", "on B300 --max-model-len", "gpu-memory-utilization"),
        ("qwen-graph-profiling", "P05", "cudagraph_profile", "kv-cache-memory-bytes", "max-model-len"),
        ("gemma-token-count", "K05", None, "nothing to fix", "gpu-memory-utilization"),
        ("guide-old-kv-check", "K03", "kv_check", "max-model-len 2048", "gpu-memory-utilization"),
    ],
)
def test_each_has_the_answer_that_was_expected(
    name: str, cause: str, stage: str | None, helps: str, useless: str
) -> None:
    answer = explain(ROOT / "tests" / "seeds" / f"{name}.txt")
    assert (answer.cause.id, answer.failed) == (cause, None if cause == "K05" else True)
    assert stage is None or answer.stage == stage
    assert any(helps in remedy.change.label for remedy in answer.remedies)
    assert any(useless in rejected.change.label for rejected in answer.rejected)
    assert not any(
        useless in one.change.label for one in answer.remedies if one.verified and len(one.change.flags) == 1
    )
