"""Folders, bare configs and GGUF files on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import making
from oomph.answers.plan import plan
from oomph.errors import ConfigError, HeaderError, InputError
from oomph.sources.folder import read_path

TENSORS = making.tensors_of(making.LLAMA)
BYTES = sum(making.nbytes(d, making.elements(s)) for s, d in TENSORS.values())


def test_a_folder_with_headers(tmp_path: Path) -> None:
    model = read_path(making.folder(tmp_path / "llama", making.LLAMA, TENSORS))
    assert (model.nbytes, model.basis, model.name, len(model.layers)) == (BYTES, "headers", "llama", 4)


def test_shards_and_their_index(tmp_path: Path) -> None:
    assert read_path(making.folder(tmp_path, making.LLAMA, TENSORS, shards=3)).nbytes == BYTES


def test_config_alone_is_enough(tmp_path: Path) -> None:
    alone = read_path(making.folder(tmp_path, making.LLAMA))
    file = read_path(tmp_path / "config.json")
    assert alone.nbytes == file.nbytes == BYTES
    assert alone.basis == "config"
    (tmp_path / "config.json").rename(tmp_path / "other.json")
    assert read_path(tmp_path / "other.json").name == "other"


def test_an_index_without_its_shards_names_the_tensors(tmp_path: Path) -> None:
    """A tied model whose checkpoint stores the head all the same: only names tell."""
    tied = making.LLAMA | {"tie_word_embeddings": True}
    folder = making.folder(tmp_path, tied, TENSORS, shards=2)
    for shard in folder.glob("*.safetensors"):
        shard.unlink()
    model = read_path(folder)
    assert (model.nbytes, model.tied, model.basis, model.warnings) == (BYTES, True, "config", ())


def test_an_index_that_disagrees_is_said(tmp_path: Path) -> None:
    folder = making.folder(tmp_path, making.LLAMA, TENSORS, shards=2)
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    index["metadata"]["total_size"] += 5
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert read_path(folder).warnings == ()  # the headers are the truth
    for shard in folder.glob("*.safetensors"):
        shard.unlink()
    assert "its index says" in read_path(folder).warnings[0]


def test_headers_say_which_awq_layers_are_quantised(tmp_path: Path) -> None:
    quant = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
    config = making.LLAMA | {"quantization_config": quant, "torch_dtype": "float16"}
    tensors = making.tensors_of(config)
    plain = making.tensors_of(making.LLAMA | {"torch_dtype": "float16"})
    first = "model.layers.0.mlp.down_proj"
    tensors = {n: t for n, t in tensors.items() if not n.startswith(first)} | {
        f"{first}.weight": plain[f"{first}.weight"]
    }
    model = read_path(making.folder(tmp_path, config, tensors))
    schemes = [m.scheme for m in model.layers[0].block.modules if getattr(m, "name", "") == "mlp.down_proj"]
    later = [m.scheme for m in model.layers[1].block.modules if getattr(m, "name", "") == "mlp.down_proj"]
    assert schemes == [None]
    assert later != [None]


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "no config.json and no GGUF file"),
        ({"params.json": "{}"}, "params.json does not name dim"),
        ({"adapter_config.json": '{"base_model_name_or_path": "org/base"}'}, "LoRA adapter"),
        ({"config.json": "[]"}, "holds a list where an object belongs"),
        ({"config.json": ""}, "is empty"),
        ({"config.json": "{"}, "is not JSON"),
        ({"config.json": "{}", "hf_quant_config.json": "7"}, "holds a number where an object belongs"),
        ({"a.gguf": "x", "b.gguf": "y"}, "holds 2 GGUF models"),
    ],
)
def test_folders_that_are_no_model(tmp_path: Path, files: dict[str, str], says: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=says):
        read_path(tmp_path)


def test_half_a_download_is_refused(tmp_path: Path) -> None:
    folder = making.folder(tmp_path, making.LLAMA, TENSORS, shards=3)
    (folder / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(HeaderError, match="2 of the 3 shards"):
        read_path(folder)


def test_an_unknown_architecture_has_its_weights_from_the_headers(tmp_path: Path) -> None:
    config = making.LLAMA | {"architectures": ["NobodyKnowsForCausalLM"]}
    model = read_path(making.folder(tmp_path, config, TENSORS))
    assert (model.opaque, model.nbytes, model.layers) == (True, BYTES, ())


def test_one_weight_file_is_not_a_model(tmp_path: Path) -> None:
    making.folder(tmp_path, making.LLAMA, TENSORS)
    with pytest.raises(InputError, match="give the folder it is in"):
        read_path(tmp_path / "model.safetensors")
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(InputError, match="neither a model folder"):
        read_path(tmp_path / "notes.txt")


def test_a_config_that_lies(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="num_hidden_layers is 0"):
        read_path(making.folder(tmp_path, making.LLAMA | {"num_hidden_layers": 0}))


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"quantization": {"quant_algo": "FP8"}}, "names no method"),
        ({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}, ""),
        (
            {
                "producer": {"name": "modelopt"},
                "quantization": {
                    "quant_algo": "MIXED_PRECISION",
                    "quantized_layers": {"model.layers.0.mlp.down_proj": {"quant_algo": "FP8"}},
                },
            },
            "Unknown ModelOpt",
        ),
        ({"producer": 3, "quantization": {"quant_algo": "FP8"}}, "names no method"),
    ],
)
def test_a_quantisation_file_that_vllm_reads_otherwise(tmp_path: Path, told: object, said: str) -> None:
    folder = making.folder(tmp_path / "told", making.LLAMA)
    (folder / "hf_quant_config.json").write_text(json.dumps(told))
    quantization = read_path(folder).quantization
    assert quantization is not None
    made = plan(["vllm", "serve", str(folder)], gpu="H100", engine="vllm==0.21.0")
    assert quantization.refused in made.verdict.message
    assert any(said in x for x in (quantization.refused, *made.warnings)) or not said
    other = making.folder(tmp_path / "plain", making.LLAMA)
    plain = plan(["vllm", "serve", str(other)], gpu="H100", engine="vllm==0.21.0")
    created = [rank.created_bytes for rank in made.ranks]
    assert (created == [rank.created_bytes for rank in plain.ranks]) == quantization.ignored


def test_a_snapshot_in_the_hubs_cache_has_its_models_name(tmp_path: Path) -> None:
    """Without network vLLM makes this folder of a name; the model's other checkpoints are offered by the name."""
    folder = tmp_path / "models--Qwen--Qwen3-8B" / "snapshots" / "b968826d9c46"
    assert read_path(making.folder(folder, making.LLAMA)).name == "Qwen/Qwen3-8B"
    assert read_path(folder / "config.json").name == "Qwen/Qwen3-8B"
