"""The static site of the catalogue: its figures are those of `oomph plan`, and its links lead somewhere."""

import random
import re
import shlex
import sys
from pathlib import Path

import msgspec
import pytest

import oomph
from oomph.cli.main import main
from oomph.site.figures import Figure
from oomph.site.pages import FILE

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import site_links

SAMPLE = 12  # of the figures of two models


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    with pytest.raises(SystemExit) as done:
        main(["site", str(target), "--match", "Qwen/Qwen3-8B", "--match", "gpt-oss-20b", "--workers", "1"])
    assert done.value.code == 0
    return target


def figures(folder: Path) -> list[Figure]:
    return [msgspec.json.decode(line, type=Figure) for line in (folder / FILE).read_bytes().splitlines()]


def test_a_sample_planned_again_is_the_same(folder: Path) -> None:
    for figure in random.Random(44).sample(figures(folder), SAMPLE):
        gpu, engine = f"{figure.count}x {figure.card}", f"{figure.engine}=={figure.release}"
        plan = oomph.plan(shlex.split(figure.command), gpu=gpu, engine=engine, advise=False)
        assert plan.verdict.outcome == "fits"
        assert plan.ranks[0].terms["weights"].bytes == figure.weights_bytes
        assert plan.kv is None or (plan.kv.logged_tokens, plan.kv.max_concurrency) == (figure.tokens, figure.users)


def test_fewer_cards_do_not_fit(folder: Path) -> None:
    several = [figure for figure in figures(folder) if figure.count == 2 and figure.engine == "vllm"]
    assert several
    for figure in several[:3]:
        command = figure.command.replace(" --tensor-parallel-size 2", "")
        assert (
            oomph.plan(command, gpu=figure.card, engine=f"vllm=={figure.release}", advise=False).verdict.outcome
            != "fits"
        )


def test_pages_name_release_date_and_command_and_no_link_is_broken(folder: Path) -> None:
    page = (folder / "models" / "Qwen--Qwen3-8B.html").read_text()
    newest = {figure.engine: figure.release for figure in figures(folder)}
    assert {"vllm", "sglang", "trtllm", "llamacpp"} <= set(newest)
    assert all(release in page for release in newest.values())
    assert "Planned by oomph" in page and "vllm serve Qwen/Qwen3-8B --max-model-len 8192" in page
    assert site_links.broken(folder) == []


def test_a_word_that_no_checkpoint_has_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as done:
        main(["site", str(tmp_path / "x"), "--match", "no-such-checkpoint"])
    assert done.value.code == 2 and "no checkpoint" in capsys.readouterr().err


def test_a_narrow_screen_has_a_label_for_every_figure(folder: Path) -> None:
    """There the table's head is hidden: each column between the subject and the command says what it is."""
    page = next((folder / "models").iterdir()).read_text()
    columns = len(re.findall("<th[ >]", page.partition("</tr>")[0]))
    labelled = set(re.findall(r"td:nth-child\((\d)\)[^{]*::before", (folder / "style.css").read_text()))
    assert labelled == {str(column) for column in range(2, columns)}
