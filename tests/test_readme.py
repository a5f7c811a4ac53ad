"""Every command and every line of Python in the README runs, and says what the README says."""

from __future__ import annotations

import html
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import making
from calling import Answer, call

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import architecture
import peers_chart
import picture

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
SCREENS = re.findall(r"```console\n\$ (oomph [^\n]*)\n(.*?)```", README, re.DOTALL)
COMMANDS = [line.split("  #")[0].strip() for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) for line in
            block.splitlines() if line.startswith("oomph")]  # fmt: skip
START = ROOT / "docs" / "start.md"
LOG = ROOT / "tests" / "doctor" / "fixtures" / "P05.log"


def run(command: str, cwd: Path) -> Answer:
    words = shlex.split(command)
    assert words[0] == "oomph"
    return call(*words[1:], folder=cwd, variables={**os.environ, "COLUMNS": "80"})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """What the README's commands find where they are run."""
    making.folder(tmp_path / "my-model", making.LLAMA, making.tensors_of(making.LLAMA))
    shutil.copy(LOG, tmp_path / "server.log")
    return tmp_path


def test_there_are_commands() -> None:
    assert len(SCREENS) == 1
    assert len(COMMANDS) >= 4


def test_it_is_short() -> None:
    assert len(README.split()) <= 600


def test_its_chart_is_that_of_the_table_of_peers() -> None:
    assert peers_chart.PICTURE.read_text() == peers_chart.chart(peers_chart.figures(peers_chart.PAGE.read_text()))


@pytest.fixture
def on_an_index(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """The README as the build writes it, for an address of the repository."""
    hatchling = ModuleType("hatchling.metadata.plugin.interface")
    hatchling.MetadataHookInterface = object  # type: ignore[attr-defined]
    for name in ("hatchling", "hatchling.metadata", "hatchling.metadata.plugin"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, hatchling.__name__, hatchling)
    hook = runpy.run_path(str(ROOT / "hatch_build.py"))
    return lambda repository: str(hook["elsewhere"](README, repository, "1.2.3"))


def test_on_an_index_no_link_leads_nowhere(on_an_index: Callable[[str], str]) -> None:
    here, bare, linked = (
        re.findall(r"\]\(([^)]+)\)", text) for text in (README, on_an_index(""), on_an_index("https://g/o"))
    )
    assert here and all((ROOT / target).exists() for target in here)
    assert bare == []
    assert linked == [f"https://g/o/{'raw' if t.endswith('.svg') else 'blob'}/v1.2.3/{t}" for t in here]


def test_on_an_index_it_is_installed_from_there(on_an_index: Callable[[str], str]) -> None:
    text = on_an_index("")
    assert "pip install oomph " in text and "uvx oomph" in text and 'pip install "oomph[all]"' in text
    assert "in a clone;" not in text and 'install ".' not in text


# that every command runs is checked by tests/test_docs_run.py, for all documents


def test_the_picture_of_a_plan_is_current(place: Path) -> None:
    """What the documentation's first page shows is what the command prints on a terminal of its width."""
    drawn = html.unescape(re.sub("<[^>]*>", " ", (ROOT / "docs" / "screens" / "plan.svg").read_text()))
    words = run(picture.COMMAND, place).stdout.replace("#", " ").split("GPU 0")[0].split()
    assert len(words) > 20 and " ".join(words) in " ".join(drawn.split()), "run: python tools/picture.py"


def test_the_picture_of_the_architecture_is_current() -> None:
    assert architecture.PICTURE.read_text() == architecture.picture(), "run: python tools/architecture.py"


def test_the_screen_is_how_the_answer_begins(place: Path) -> None:
    ((command, shown),) = SCREENS
    printed = [line.rstrip() for line in run(command, place).stdout.strip("\n").splitlines()]
    first = shown.strip("\n").splitlines()
    assert first == printed[: len(first)], "run: make screens"


def test_the_screen_of_inspect_is_what_it_prints(place: Path) -> None:
    screens = re.findall(r"```console\n\$ (oomph [^\n]*)\n(.*?)```", START.read_text(), re.DOTALL)
    ((command, shown),) = [each for each in screens if each[0].startswith("oomph inspect")]
    assert shown.split() == run(command, place).stdout.split(), "run: make screens"


def test_the_python(place: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    checks = []
    for line in code.splitlines():
        expression, _, comment = line.partition("#")
        if re.fullmatch(r"[\w.]+(?:\([^)]*\))?\s*", expression) and re.fullmatch(r" (\d+|True|False)", comment):
            checks.append(f"assert {expression.strip()} == {comment.strip()}, {line!r}")
        else:
            checks.append(line)
    done = subprocess.run([sys.executable, "-c", "\n".join(checks)], capture_output=True, text=True, cwd=place)
    assert done.returncode == 0, done.stderr
    assert sum(c.startswith("assert") for c in checks) >= 2


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target
