"""What the documents show is true: their programs and commands run, and what they print is what is printed today."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import pages  # noqa: E402

DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "skills" / "oomph" / "SKILL.md"]
PROGRAMS = [
    (path, number, text)
    for path in DOCS
    for number, text in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL))
]
PLACEHOLDERS = {"MODEL", "GPUS", "FLAGS", "LOG", "FILE", "DIR", "...", "COMMAND", "SHELL", "ID", "PATH..."}
# `oomph mcp` and `oomph ui` serve until they are stopped; tests of their own start them
SERVERS = {"mcp", "ui"}


def commands(text: str) -> list[str]:
    """The lines of fenced and of indented blocks that call oomph, without remarks behind them."""
    text = re.sub(r"\\\n\s*", "", text)
    fenced = [line for block in re.findall(r"```(?:sh|bash)\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    outside = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    indented = [line for line in outside.splitlines() if line.startswith("    oomph ")]
    lines = [re.split(r"\s{2,}#|\s{3,}", line.strip())[0] for line in (*fenced, *indented)]
    return [line for line in lines if line.startswith("oomph ") and not line.endswith("|")]


def runnable(line: str) -> bool:
    try:
        words = shlex.split(line)
    except ValueError:
        return False  # it goes on in the next line
    return PLACEHOLDERS.isdisjoint(words) and words[1] not in SERVERS and not {"|", ">", "<"} & set(words)


LINES = sorted({line for path in DOCS for line in commands(path.read_text()) if runnable(line)})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    pages.furnish(folder)
    return folder


def surroundings(folder: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return pages.environment() | {"PATH": path, "XDG_CACHE_HOME": str(folder / "cache")}


def test_there_is_something_to_run() -> None:
    assert len(LINES) >= 25 and len(PROGRAMS) >= 9
    assert {path.name for path, _, _ in PROGRAMS} >= {"python.md", "json.md", "agents.md", "check.md", "README.md"}


@pytest.mark.parametrize(("path", "number", "text"), PROGRAMS, ids=lambda x: x.name if isinstance(x, Path) else "")
def test_a_program_runs(path: Path, number: int, text: str, place: Path) -> None:
    if "from mcp import" in text:
        pytest.importorskip("mcp")
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, cwd=place, env=surroundings(place), timeout=120
    )
    assert done.returncode in ((0, 1, 4) if path.name == "check.md" else (0,)), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("line", LINES)
def test_a_command_runs(line: str, place: Path) -> None:
    printed, code = pages.screen(line, place)
    assert code in (0, 1, 4), printed
    assert printed and "a bug in oomph" not in printed


@pytest.mark.parametrize("name", pages.names())
def test_a_page_shows_what_is_printed(name: str, tmp_path: Path) -> None:
    pages.furnish(tmp_path)  # a place of its own: what other commands have written there would be found
    shown = (ROOT / "docs" / "reference" / f"{name}.md").read_text()
    assert shown == pages.page(name, tmp_path), "run: make pages"


def test_the_list_of_commands() -> None:
    assert (ROOT / "docs" / "reference" / "index.md").read_text() == pages.index(), "run: make pages"
    tour = (ROOT / "docs" / "start.md").read_text()
    assert [name for name in pages.names() if f"oomph {name}" not in tour] == []


def test_the_manual_pages() -> None:
    import manpages

    assert {path.name: path.read_text() for path in manpages.FOLDER.glob("*.1")} == manpages.texts(), "run: make pages"


HOUSES = (ROOT, ROOT / "src" / "oomph")
FOLDERS = "|".join({one.name for house in HOUSES for one in house.iterdir() if one.is_dir() and one.name != "build"})
LLAMA_CPP = ("tools/server/", "src/models/")  # of llama.cpp's source
WRITTEN = [
    *(path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"),
    *ROOT.glob("docs/*.md"),
    *ROOT.glob("plugins/*/*.md"),
    *ROOT.glob(".github/**/*.yml"),
]


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_targets_that_it_names_are_there(path: Path) -> None:
    """A word in capitals stands for any name."""
    text = path.read_text()
    named = {name.rstrip("./") for name in re.findall(rf"(?<![\w/.:-])((?:{FOLDERS})/[\w./*-]+)", text)}
    patterns = {re.sub(r"\b[A-Z_]{2,}\b", "*", name) for name in named if not name.startswith(LLAMA_CPP)}
    assert {p for p in patterns if not any(list(house.glob(p)) for house in (*HOUSES, path.parent))} == set()
    makefile = (ROOT / "Makefile").read_text()
    called = {word for line in re.findall(r"(?:`| )make ([a-z][a-z ]*)`", text) for word in line.split()}
    assert {word for word in called if not re.search(rf"^{word}:", makefile, re.MULTILINE)} == set()


def test_llms_txt_names_files_that_are_there() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", (ROOT / "llms.txt").read_text()):
        assert (ROOT / target).exists(), target


def test_the_site_builds_without_network(tmp_path: Path) -> None:
    pytest.importorskip("material")
    nowhere = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        capture_output=True, text=True, cwd=ROOT, env=os.environ | nowhere, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for page in ("index.html", "reference/plan.html", "rules/K02.html", "engines.html", "python-reference.html"):
        assert (tmp_path / "site" / page).stat().st_size > 1000
