"""What people call a model: which source answers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from loopback_hub import LoopbackHub

import making
from oomph.errors import HubError, InputError
from oomph.sources.hub import transport
from oomph.sources.load import load_model


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LoopbackHub]:
    monkeypatch.setattr(transport, "BACKOFF", (0.01, 0.01, 0.01))
    for name in list(os.environ):
        if name.startswith("HF_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    with LoopbackHub() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
        yield server


def published(hub: LoopbackHub, repo: str, tmp_path: Path) -> None:
    folder = making.folder(tmp_path / "published", making.LLAMA, making.tensors_of(making.LLAMA))
    hub.add(repo, {p.name: p.read_bytes() for p in folder.iterdir()})


def test_hub(hub: LoopbackHub, tmp_path: Path) -> None:
    published(hub, "org/small", tmp_path)
    model = load_model("org/small")
    assert (model.name, model.basis, len(model.layers)) == ("org/small", "headers", 4)
    assert model.source.startswith("hub, commit ")
    assert load_model("org/small@main").nbytes == model.nbytes


def test_the_catalogue_beats_the_hub_unless_fresh(hub: LoopbackHub, tmp_path: Path) -> None:
    published(hub, "Qwen/Qwen3-8B", tmp_path)
    assert load_model("Qwen/Qwen3-8B").source == "catalogue"
    assert not hub.seen
    assert len(load_model("Qwen/Qwen3-8B", fresh=True).layers) == 4
    assert len(load_model("Qwen/Qwen3-8B@main").layers) == 4


def test_local_beats_all(hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    making.folder(tmp_path / "Qwen" / "Qwen3-8B", making.LLAMA)
    assert load_model("Qwen/Qwen3-8B").source == "Qwen/Qwen3-8B"
    (tmp_path / "openai" / "gpt-oss-20b").mkdir(parents=True)  # a folder of the name, but no model in it
    assert load_model("openai/gpt-oss-20b").source == "catalogue"
    assert not hub.seen


def test_a_missing_repository_suggests(hub: LoopbackHub) -> None:
    with pytest.raises(HubError, match="no repository Qwen/Qwen3-9B") as refused:
        load_model("Qwen/Qwen3-9B")
    assert "did you mean" in refused.value.hint and "Qwen/Qwen3-8B" in refused.value.hint


def test_gguf_of_a_repository(hub: LoopbackHub, tmp_path: Path) -> None:
    keys = {"general.architecture": "llama", "llama.block_count": 2, "llama.embedding_length": 256,
            "llama.context_length": 4096, "llama.attention.head_count": 8}  # fmt: skip
    files = {}
    for tag in ("Q4_K_M", "Q8_0"):
        path = making.gguf(tmp_path / f"Small-{tag}.gguf", keys, {"token_embd.weight": ((256, 100), "Q8_0")})
        files[path.name] = path.read_bytes()
    hub.add("org/Small-GGUF", files)
    assert load_model("org/Small-GGUF:q4_k_m").name == "org/Small-GGUF/Small-Q4_K_M.gguf"
    assert load_model("org/Small-GGUF/Small-Q8_0.gguf").nbytes == 800 * 34
    assert load_model(f"{hub.url}/org/Small-GGUF/resolve/main/Small-Q8_0.gguf").nbytes == 800 * 34
    with pytest.raises(InputError, match="holds 2 GGUF models: Q4_K_M, Q8_0"):
        load_model("org/Small-GGUF")
    with pytest.raises(InputError, match="no GGUF file with 'Q2_K'"):
        load_model("org/Small-GGUF:Q2_K")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "a model is a folder"),
        ("x" * 5000, "too long"),
        ("a\0b", "a model is a folder"),
        ("./nothing", "there is no file or folder './nothing'"),
        ("/no/such/model", "there is no file or folder"),
        ("missing.json", "there is no file or folder"),
        ("missing.gguf", "there is no file"),
        ("s3://bucket/model", "this machine, the hub and https"),
        ("https://example.invalid/model", "neither a GGUF file nor a model's page"),
        ("bad name/with space", "not a hub model"),
    ],
)
def test_names_that_cannot_be_meant(hub: LoopbackHub, name: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        load_model(name)
    assert not hub.seen


def test_a_page_of_the_hub_is_its_model() -> None:
    assert load_model("https://huggingface.co/Qwen/Qwen3-8B").source == "catalogue"
    assert load_model("hf.co/qwen/qwen3-8b/").name == "Qwen/Qwen3-8B"


def test_names_as_ollama_writes_them() -> None:
    assert load_model("qwen3:8b").name == "Qwen/Qwen3-8B"


def test_the_modelopt_file_is_read(hub: LoopbackHub) -> None:
    quant = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    files = {"config.json": json.dumps(making.LLAMA).encode(), "hf_quant_config.json": json.dumps(quant).encode()}
    hub.add("org/fp8", files)
    made = load_model("org/fp8")
    assert made.quantization is not None
    assert made.quantization.kv_cache == "fp8"
