"""The verdict as a picture and as Markdown: the words of the screen, to scale, and no stranger's markup."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from oomph.answers.plan import plan
from oomph.cli.main import main
from oomph.report.picture import draw_plan
from oomph.report.reply import reply
from oomph.report.screens.plan import verdict

CASES = [
    ("vllm serve Qwen/Qwen3-32B -tp 2", "2x RTX 3090"),
    ("vllm serve Qwen/Qwen3-8B --max-model-len 16384", "RTX 4090"),
    ("llama-server -hf unsloth/Qwen3-8B-GGUF:Q4_K_M -c 8192", "RTX 4090"),
]


@pytest.mark.parametrize(("command", "gpu"), CASES)
def test_the_picture_says_what_the_screen_says(command: str, gpu: str) -> None:
    answer = plan(command, gpu=gpu)
    texts = [node.text or "" for node in ElementTree.fromstring(draw_plan(answer)).iter() if node.tag.endswith("text")]
    assert answer.model in texts and verdict(answer).word in texts
    assert verdict(answer).says.split()[-1] in " ".join(texts)


@pytest.mark.parametrize(("command", "gpu"), CASES)
def test_nothing_leaves_the_picture(command: str, gpu: str) -> None:
    drawing = draw_plan(plan(command, gpu=gpu))
    for left, width in re.findall(r'<rect x="([\d.]+)" y="\d+" width="([\d.]+)"', drawing):
        assert float(left) + float(width) <= 820 - 27


def test_markdown_has_the_command_and_what_works() -> None:
    answer = plan(CASES[0][0], gpu=CASES[0][1])
    assert answer.advice is not None
    assert answer.advice.fixes[0].command in reply(answer)


def test_plan_writes_the_picture(tmp_path: Path) -> None:
    path = tmp_path / "verdict.svg"
    with pytest.raises(SystemExit) as ended:
        main(["plan", "--picture", str(path), "--gpu", "RTX 4090", "--", "vllm", "serve", "Qwen/Qwen3-8B"])
    assert ended.value.code in (0, 1, 4)
    assert path.read_text().startswith("<svg")


def test_a_picture_of_another_form_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "verdict.png"
    with pytest.raises(SystemExit) as ended:
        main(["plan", "--picture", str(path), "--gpu", "RTX 4090", "--", "vllm", "serve", "Qwen/Qwen3-8B"])
    assert ended.value.code == 2 and not path.exists()
    assert "the picture is an SVG: '.png'" in capsys.readouterr().err


def test_what_is_too_much_is_drawn_and_said() -> None:
    assert re.search(r"of 23\.6 GiB, [\d.]+ GiB too much", draw_plan(plan(CASES[0][0], gpu=CASES[0][1])))
    assert "too much" not in draw_plan(plan(CASES[1][0], gpu=CASES[1][1]))
