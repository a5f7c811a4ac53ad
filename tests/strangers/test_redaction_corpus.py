"""150 lines with a secret and 500 ordinary ones, by themselves and through every stream and file that oomph writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import redaction_corpus as corpus

from calling import call
from oomph.answers.report import without_places
from oomph.text.redaction import Secrets

PARTS = tuple(path.stem.removeprefix("secrets_") for path in sorted(corpus.FOLDER.glob("secrets_*.txt")))
LINES = [pair for part in PARTS for pair in corpus.filled(part)]
ORDINARY = [line for part in PARTS for line in corpus.ordinary(part)]
OOM = (
    "INFO 11-15 10:00:00 [core.py:109] Initializing a V1 LLM engine (v0.21.0) with config: model='Qwen/Qwen3-8B'\n"
    "ERROR 11-15 10:00:06 [core.py:1108] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU "
    "0 has a total capacity of 11.63 GiB of which 115.56 MiB is free.\n"
)
OWN = "Zq9PlainValue77"  # the user's own token, which has no shape and no name in the log
CONTROLS = "\x07\x1b[2J\x9b\u202e\x08"


def test_there_are_enough() -> None:
    assert len(LINES) >= 150 and len(ORDINARY) >= 500
    assert len(set(ORDINARY)) > 490 and len({line for line, _ in LINES}) == len(LINES)


@pytest.mark.parametrize("part", PARTS)
def test_secrets_are_hidden(part: str) -> None:
    """Alone, quoted in an error, and as a text of JSON."""
    for shape in (str, lambda line: f"oomph: error: {line!r} is wrong", lambda line: json.dumps({"x": line})):
        seen = [line for line, value in corpus.filled(part) if corpus.is_seen(value, Secrets().hide(shape(line)), line)]
        assert len(seen) <= 0.03 * len(corpus.filled(part)), seen


@pytest.mark.parametrize("word", ("walnut", "Harvest", "correcthorse", "low-tide"))
def test_any_word_is_a_password(word: str) -> None:
    """Where nothing but a secret stands, its looks decide nothing."""
    places = [line.replace(value, word) for line, value in corpus.filled("sixth") if value.isalpha()]
    assert len(places) > 60
    seen = [line for line in places if corpus.is_seen(word, Secrets().hide(line), line)]
    assert len(seen) <= 0.03 * len(places), seen


@pytest.mark.parametrize(
    "line",
    [
        r"net use Z: \\nas\models /user:corp\svc walnut-tree",
        r"C:\new\models>net use \\nas-2\x /user:svc walnut-tree",
        r'{"x": "stringData:\n  anything: walnut-tree\nmetadata: x"}',
    ],
)
def test_a_folder_is_no_end_of_a_line(line: str) -> None:
    for shape in (str, repr, json.dumps):
        hidden = Secrets().hide(shape(line))
        assert hidden == shape(line).replace("walnut-tree", "***")


def test_ordinary_lines_stay() -> None:
    assert [line for line in ORDINARY if Secrets().hide(line) != line] == []
    together = "\n".join(ORDINARY)
    assert Secrets().hide(together) == together


def test_our_own_pages_stay() -> None:
    docs = Path(__file__).parents[2] / "docs"
    for path in [*docs.glob("reference/*.md"), *docs.glob("man/*")]:
        text = path.read_text()
        assert Secrets().hide(text) == text, path
        assert "***" not in text, path


def test_nothing_that_is_written_holds_one(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("".join(f"{line}\n" for line, _ in LINES) + f"requesting with {OWN} {CONTROLS}\n" + OOM)
    own = {
        "HF_TOKEN": OWN,
        "HOME": str(tmp_path),
        "HF_HUB_OFFLINE": "1",
        "PATH": "",
        "OOMPH_CACHE": str(tmp_path / "c"),
    }
    script = tmp_path / "serve.sh"
    script.write_text(f"export VLLM_API_KEY={LINES[0][1]}\n# {OWN}\nvllm serve Qwen/Qwen3-8B --api-key {LINES[1][1]}\n")
    outputs = [
        call("report", "--gpu", "RTX 3060", "--log", str(log), *more, variables=own).stdout
        for more in (
            [],
            ["--json"],
            ["--output", str(tmp_path / "r.md")],
            ["--json", "--output", str(tmp_path / "r.json")],
        )
    ]
    outputs += [
        call("explain", "--gpu", "RTX 3060", str(log), *more, variables=own).stdout
        for more in ([], ["--all"], ["--json"], ["--html", str(tmp_path / "e.html")])
    ]
    for form in ("text", "json", "junit", "sarif", "github"):
        words = ["check", "--gpu", "H100", "--format", form, str(script)]
        outputs += [call(*words, variables=own).stdout]
        outputs += [call(*words, "--output", str(tmp_path / f"c.{form}"), variables=own).stdout]
    outputs += [call("plan", "--gpu", "H100", "--html", str(tmp_path / "p.html"), str(script), variables=own).stdout]
    written = [tmp_path / name for name in ("r.md", "r.json", "e.html", "p.html")]
    written += [tmp_path / f"c.{form}" for form in ("text", "json", "junit", "sarif", "github")]
    for text in [*outputs, *(path.read_text() for path in written)]:
        assert OWN not in text
        seen = [value for _, value in LINES if len(value) > 11 and corpus.is_seen(value, text)]
        assert len(seen) <= 0.03 * len(LINES), seen
        assert not set(text) & set(CONTROLS.replace("[2J", "")), [hex(ord(c)) for c in text if c in CONTROLS]
    assert json.loads((tmp_path / "r.json").read_text())["log_lines"] == log.read_bytes().count(b"\n")


def test_a_secret_below_its_name_is_hidden_in_json_too(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("- name: REDIS_PASSWORD\n  value: 'kitten-mitten'\nstringData:\n  any: walnut-tree\n" + OOM)
    text = call("report", "--json", "--gpu", "RTX 3060", "--log", str(log), variables={"HOME": str(tmp_path)}).stdout
    assert "REDIS_PASSWORD" in text and "mitten" not in text and "walnut" not in text


def test_agents_and_the_page_know_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from oomph.agents.answers import InspectAnswer, without_secrets
    from oomph.text import redaction

    monkeypatch.setenv("VLLM_API_KEY", OWN)
    monkeypatch.setattr(redaction, "_session", None)
    fields = dict.fromkeys(InspectAnswer.__dataclass_fields__, "") | {"verdict": f"asked with {OWN}"}
    assert without_secrets(InspectAnswer(**fields))["verdict"] == "asked with ***"  # type: ignore[arg-type]


def test_a_fence_is_longer_than_any_run_inside() -> None:
    from oomph.report.screens.bundle import _fenced

    for run in range(12):
        first, *_, last = _fenced(f"a\n{'`' * run}\n@everyone").split("\n")
        assert first.removesuffix("text") == last and len(last) > run and len(last) >= 3


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/alice/models/x", "/home/USER/models/x"),
        ("C:\\Users\\alice\\x", "C:\\Users\\USER\\x"),
        ("'C:\\\\Users\\\\alice\\\\x'", "'C:\\\\Users\\\\USER\\\\x'"),
        ("/mnt/c/Users/alice", "/mnt/c/Users/USER"),
        ("/Users/alice/y", "/Users/USER/y"),
        ("ssh alice@10.2.3.4", "ssh USER@HOST"),
        ("alice@gpu-server:~/models$ vllm serve m/m", "USER@HOST:~/models$ vllm serve m/m"),
        ("/home/ubuntu/models", "/home/ubuntu/models"),
        ("git@github.com:vllm-project/vllm.git", "git@github.com:vllm-project/vllm.git"),
        ("vllm/vllm-openai@sha256:9f1c", "vllm/vllm-openai@sha256:9f1c"),
        ("pm2@5.3.0", "pm2@5.3.0"),
    ],
)
def test_places_of_other_machines(text: str, shown: str) -> None:
    assert without_places(text) == shown
