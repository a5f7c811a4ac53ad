"""Ollama's defaults, its store, and the plans that follow."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "llamacpp"))
import toys

from oomph.answers.plan import plan
from oomph.engines.ollama.store import find, parse_name
from oomph.errors import CannotPlan, InputError, UnknownModel
from oomph.facts.ollama.defaults import default_batch, default_context
from oomph.facts.ollama.library import LATEST, MODELS
from oomph.units import GIB


@pytest.mark.parametrize(("gpu", "context"), [("RTX 3060 12GB", 4096), ("RTX 4090", 32768), ("2x RTX 4090", 40960)])
def test_the_context_follows_the_memory(gpu: str, context: int) -> None:
    """Qwen3-8B was trained for 40,960 tokens, fewer than the highest tier's 262,144."""
    assert plan("ollama run qwen3:8b", gpu=gpu).resolved["num_ctx"] == context


def test_tiers() -> None:
    assert [default_context(n * GIB) for n in (8, 22, 23, 46, 47, 640)] == [4096, 4096, 32768, 32768, 262144, 262144]
    assert [default_batch(n) for n in (2048, 4096, 4097, 32768, 32769)] == [512, 512, 1024, 1024, 2048]


def test_parallel_multiplies_the_context() -> None:
    p = plan("OLLAMA_NUM_PARALLEL=4 OLLAMA_CONTEXT_LENGTH=8192 ollama run qwen3:8b", gpu="RTX 4090")
    assert (p.resolved["n_ctx"], p.resolved["n_ctx_seq"], p.resolved["n_seq_max"]) == (32768, 8192, 4)
    assert not p.resolved["kv_unified"]


def test_it_offloads_to_the_cpu_and_never_shrinks_the_context() -> None:
    p = plan("OLLAMA_CONTEXT_LENGTH=32768 ollama run qwen3:32b", gpu="RTX 4060 Ti 16GB")
    assert p.fits and p.resolved["n_ctx"] == 32768 and p.resolved["offloaded"] < p.resolved["layers"]


def test_one_gpu_is_used_where_the_prediction_fits_it() -> None:
    text = "OLLAMA_CONTEXT_LENGTH=4096 ollama run qwen3:8b"
    assert plan(text, gpu="2x RTX 4090").resolved["gpus_used"] == [0]
    assert plan("OLLAMA_SCHED_SPREAD=1 " + text, gpu="2x RTX 4090").resolved["gpus_used"] == [0, 1]


def test_an_old_release_is_not_planned() -> None:
    with pytest.raises(CannotPlan, match=r"0\.29"):
        plan("ollama run qwen3:8b", gpu="RTX 4090", engine="ollama==0.29.0")


def store(folder: Path, *, digest: str = "") -> Path:
    blobs = folder / "blobs"
    blobs.mkdir(parents=True)
    name = "a" * 64
    toys.make(blobs / f"sha256-{name}", "dense", layers=3)
    (blobs / f"sha256-{'b' * 64}").write_text(json.dumps({"num_ctx": 2048, "stop": ["x"]}))
    manifest = folder / "manifests" / "registry.ollama.ai" / "library" / "toy" / "latest"
    manifest.parent.mkdir(parents=True)
    layers = [
        {"mediaType": "application/vnd.ollama.image.model", "digest": digest or f"sha256:{name}"},
        {"mediaType": "application/vnd.ollama.image.params", "digest": f"sha256:{'b' * 64}"},
        {"mediaType": "application/vnd.ollama.image.license", "digest": f"sha256:{'c' * 64}"},
    ]
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": layers}))
    return folder


def test_a_name_in_the_local_store(tmp_path: Path) -> None:
    folder = store(tmp_path / "models")
    p = plan(f"OLLAMA_MODELS={folder} ollama run toy", gpu="RTX 4090")
    assert p.fits and p.resolved["num_ctx"] == 2048 and p.resolved["layers"] == 4


@pytest.mark.parametrize("digest", ["sha256:../../etc/passwd", "sha256:" + "d" * 64])
def test_a_store_that_lies(tmp_path: Path, digest: str) -> None:
    folder = store(tmp_path / "models", digest=digest)
    with pytest.raises(InputError, match="blob"):
        find(parse_name("toy"), {"OLLAMA_MODELS": str(folder)})


@pytest.mark.parametrize("name", ["", "../../x", "a/b/c/d", "a b", "x:../y", "-"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(InputError):
        parse_name(name)


def test_unknown_names() -> None:
    with pytest.raises(UnknownModel, match="neither in Ollama's store"):
        plan("OLLAMA_MODELS=/nowhere ollama run surely-not-a-model:7b", gpu="RTX 4090")


def test_the_switch_for_large_allocations_is_a_planned_remedy() -> None:
    switch = "UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1"
    tight = plan("ollama run llama3.1:8b", gpu="Arc A770 16GB")
    assert tight.verdict.outcome == "close" and tight.advice is not None
    assert tight.advice.fixes[0].change.label == switch
    assert plan(f"{switch} ollama run llama3.1:8b", gpu="Arc A770 16GB").verdict.outcome == "fits"
    assert all(
        judged.change.label != switch
        for judged in plan("ollama run llama3.1:8b", gpu="RTX 4090").advice.fixes  # type: ignore[union-attr]
    )


@pytest.mark.parametrize("name", [*LATEST, *MODELS])
def test_every_name_of_the_library_is_planned(name: str) -> None:
    assert plan(f"ollama run {name}", gpu="H200", advise=False).ranks
