"""A name that exists on this machine is never sent to the hub, and one that looks like a path is no hub id."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from oomph.errors import OomphError
from oomph.sources.load import load_model


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[socket.socket]:
    """Where the hub would be: whoever connects has sent a name away."""
    from huggingface_hub import constants

    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(0.1)
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.chdir(tmp_path)
    yield server
    server.close()


def refusal(name: str, listener: socket.socket, **options: bool) -> str:
    with pytest.raises(OomphError) as refused:
        load_model(name, **options)
    with pytest.raises(TimeoutError):
        listener.accept()
    return refused.value.message


@pytest.mark.parametrize(
    "name", ["models/mine", "mine/secret-project", "mine/secret-project@main", "mine/secret-project:Q4_K_M"]
)
def test_a_folder_without_a_config(listener: socket.socket, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name.partition("@")[0].partition(":")[0]
    folder.mkdir(parents=True)
    (folder / "model.safetensors").touch()
    assert "folder on this machine" in refusal(name, listener)
    assert "folder on this machine" in refusal(name, listener, fresh=True)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "device"])
def test_a_config_that_cannot_be_read(listener: socket.socket, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "mine" / "model"
    folder.mkdir(parents=True)
    config = folder / "config.json"
    if kind == "link":
        config.symlink_to(tmp_path / "nowhere")
    elif kind == "pipe":
        os.mkfifo(config)
    elif kind == "folder":
        config.mkdir()
    else:
        config.symlink_to("/dev/zero")
    assert "config.json" in refusal("mine/model", listener)


@pytest.mark.parametrize(
    "name",
    ["./mine", "../mine", "/srv/mine", "~/mine", "mine/", "a\\b", "mine/config.json", "models/mine",
     "checkpoints/run-7", "output/merged", "models/x.gguf"],
)  # fmt: skip
def test_what_looks_like_a_path(listener: socket.socket, name: str) -> None:
    assert "no file" in refusal(name, listener)


def test_a_file_of_a_folder_that_is_here(listener: socket.socket, tmp_path: Path) -> None:
    (tmp_path / "mine" / "gguf").mkdir(parents=True)
    assert "folder on this machine" in refusal("mine/gguf/secret.gguf", listener)


def test_a_lone_name(listener: socket.socket, tmp_path: Path) -> None:
    (tmp_path / "secret-project").mkdir()
    refusal("secret-project", listener)
    refusal("secret-project", listener, fresh=True)


def test_the_catalogue_needs_no_hub(listener: socket.socket, tmp_path: Path) -> None:
    (tmp_path / "Qwen" / "Qwen3-8B").mkdir(parents=True)
    assert load_model("Qwen/Qwen3-8B").source == "catalogue"
