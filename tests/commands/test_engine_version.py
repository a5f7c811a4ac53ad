from pathlib import Path

import pytest

from oomph.commands import call, parse_command
from oomph.commands.running import running_version
from oomph.errors import CommandError
from oomph.facts.vllm.versions import NEWEST, RELEASES
from oomph.ir.deployment import Engine


@pytest.fixture
def nothing_installed(monkeypatch):
    monkeypatch.setattr(call, "installed_version", lambda package, program="": "")


@pytest.mark.parametrize(
    ("engine", "version"),
    [
        ("vllm==0.21.0", "0.21.0"),
        ("vllm 0.21.0", "0.21.0"),
        ("vllm:v0.21.0", "0.21.0"),
        ("vLLM@0.21.0", "0.21.0"),
        ("0.21.0", "0.21.0"),
        ("v0.21.0", "0.21.0"),
        ("0.21", "0.21.0"),
    ],
)
def test_asked_for(engine, version):
    d = parse_command(["vllm", "serve", "m"], engine=engine)
    assert d.engine == Engine("vllm", version, "--engine") and d.notes == ()


def test_nearest_release_with_a_note():
    d = parse_command(["vllm", "serve", "m"], engine="vllm==0.20.2rc1.dev9+g01d4d1ad3")
    assert d.engine.version == "0.20.2" and "no release" in d.notes[0]
    d = parse_command(["vllm", "serve", "m"], engine="0.40.0rc1")
    assert d.engine.version == NEWEST and "newer than any known" in d.notes[0]
    d = parse_command(["vllm", "serve", "m"], engine="0.5.4")
    assert d.engine.version == RELEASES[0] and "older than any known" in d.notes[0]


@pytest.mark.parametrize("engine", ["vllm==0.40.0", "vllm==0.21.7", "sglang==0.5.99"])
def test_a_release_that_does_not_exist_is_refused(engine):
    with pytest.raises(CommandError, match="is not a release that is known") as refused:
        parse_command([engine.split("=")[0], "serve", "m"], engine=engine)
    assert "the nearest is" in refused.value.hint


def test_the_newest_known(nothing_installed):
    assert parse_command(["vllm", "serve", "m"]).engine == Engine("vllm", NEWEST, "newest known")
    assert parse_command(["vllm", "serve", "m"], engine="vllm").engine.version_from == "newest known"


def test_the_installed_package(monkeypatch):
    monkeypatch.setattr(call, "installed_version", lambda package, program="": "0.21.0+cu129")
    d = parse_command(["vllm", "serve", "m"])
    assert d.engine == Engine("vllm", "0.21.0", "installed package") and d.notes == ()


def test_the_package_beside_the_program(tmp_path):
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "vllm"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "lib" / "python3.12" / "site-packages" / "vllm-0.19.1+cu129.dist-info").mkdir(parents=True)
    assert call.installed_version("vllm", str(program)) == "0.19.1+cu129"
    assert parse_command([str(program), "serve", "m"]).engine == Engine("vllm", "0.19.1", "installed package")


@pytest.mark.parametrize("engine", ["vllm==x.y", "ollama", "nonsense==1", "vllm==", "==1 2 3"])
def test_what_is_no_engine(engine, nothing_installed):
    try:
        parse_command(["vllm", "serve", "m"], engine=engine)
    except CommandError as error:
        assert "--engine" in str(error) or "version" in str(error)
    else:
        assert engine == "vllm=="


def test_an_engine_that_was_chosen_before_stays():
    engine = Engine("vllm", "0.21.0", "log line 3")
    assert parse_command(["vllm", "serve", "m"], engine=engine).engine == engine


def test_a_release_that_nobody_has_looked_at_says_what_is_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "installed_version", lambda package, program="": "0.99.0")
    deployment = parse_command(["vllm", "serve", "Qwen/Qwen3-8B"])
    assert any("newer than any known release" in note and "may differ" in note for note in deployment.notes)


def test_the_release_of_a_running_server(tmp_path: Path) -> None:
    root = tmp_path / "proc" / "17" / "root"
    (root / "opt" / "venv" / "lib" / "python3.12" / "site-packages" / "vllm-0.28.0+cu130.dist-info").mkdir(parents=True)
    (tmp_path / "proc" / "17" / "cmdline").write_bytes(b"/opt/venv/bin/python3\0/opt/venv/bin/vllm\0serve\0model\0")
    (tmp_path / "proc" / "18").mkdir()
    assert running_version("vllm", ("vllm",), str(tmp_path / "proc")) == "0.28.0+cu130"
    assert running_version("sglang", ("sglang",), str(tmp_path / "proc")) == ""
    assert running_version("vllm", ("vllm",), str(tmp_path / "nowhere")) == ""
