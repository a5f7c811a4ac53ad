"""What the hub may say, through the command: each its own sentence and exit code 3."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from loopback_hub import Fault, LoopbackHub

import making


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LoopbackHub]:
    with LoopbackHub() as server:
        folder = making.folder(tmp_path / "published", making.LLAMA, making.tensors_of(making.LLAMA))
        server.add("org/small", {p.name: p.read_bytes() for p in folder.iterdir()})
        yield server


def run(hub: LoopbackHub, home: Path, *args: str, **more: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and not k.lower().endswith("_proxy")}
    env |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(home), **more}
    command = [sys.executable, "-m", "oomph", *args]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


def test_a_model_of_the_hub(hub: LoopbackHub, tmp_path: Path) -> None:
    done = run(hub, tmp_path, "inspect", "org/small")
    assert done.returncode == 0, done.stderr
    assert "read from its headers; source: hub, commit" in done.stdout


def test_gated(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.repos["org/small"].gated = True
    hub.repos["org/small"].token = "hf_good"
    done = run(hub, tmp_path, "inspect", "org/small")
    assert done.returncode == 3
    assert "org/small is gated, and no token is set" in done.stderr
    assert "HF_TOKEN" in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_missing_renamed_offline_and_failing(hub: LoopbackHub, tmp_path: Path) -> None:
    missing = run(hub, tmp_path, "inspect", "org/nothing")
    assert missing.returncode == 3
    assert "the hub has no repository org/nothing" in missing.stderr
    offline = run(hub, tmp_path, "inspect", "org/small", HF_HUB_OFFLINE="1")
    assert offline.returncode == 3
    assert "HF_HUB_OFFLINE forbids asking" in offline.stderr
    revision = run(hub, tmp_path, "inspect", "org/small@v9")
    assert revision.returncode == 3
    assert "no revision 'v9'" in revision.stderr
    hub.moved["org/old"] = "org/small"
    moved = run(hub, tmp_path, "inspect", "org/old")
    assert moved.returncode == 0, moved.stderr
    assert "org/old is now called org/small" in moved.stdout


def test_a_body_that_is_cut_off(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.fail("config.json", Fault(cut=10), times=99)
    done = run(hub, tmp_path, "inspect", "org/small")
    assert done.returncode in (2, 3)
    assert done.stderr.startswith("oomph: error: ")
    assert "Traceback" not in done.stderr


def test_a_plan_of_a_model_that_is_nowhere(hub: LoopbackHub, tmp_path: Path) -> None:
    done = run(hub, tmp_path, "--gpu", "H100", "vllm", "serve", "org/nothing")
    assert done.returncode == 3
    assert "the hub has no repository org/nothing" in done.stderr
