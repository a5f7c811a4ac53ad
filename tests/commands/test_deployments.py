"""Several deployments in one file: all of them are read, one that cannot be does not hide the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oomph.commands import Entry, distinct, parse_command, read_deployments
from oomph.errors import CommandError

COMPOSE = """
services:
  chat:
    image: vllm/vllm-openai:v0.21.0
    command: --model Qwen/Qwen3-8B --max-model-len 8192
  broken:
    image: vllm/vllm-openai:v0.21.0
    command: --model ${NOT_SET_ANYWHERE}
  proxy:
    image: nginx
  embed:
    image: vllm/vllm-openai:v0.21.0
    command: --model BAAI/bge-m3 --port 8001
"""

MANIFESTS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  template:
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.21.0
        args: [--model, Qwen/Qwen3-8B]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: coder}
spec:
  template:
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.21.0
        args: [--model, Qwen/Qwen3-32B, -tp, "2"]
"""

SWAP = """
macros:
  "server-bin": llama-server --port ${PORT}
  ctx: -c 8192
models:
  small:
    cmd: ${server-bin} -m /models/small.gguf ${ctx}
  large:
    cmd: |
      ${server-bin}
      # the long one
      -m /models/large.gguf
      -c 32768
    env: ["CUDA_VISIBLE_DEVICES=1"]
"""


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def models(entries: list[Entry]) -> dict[str, str]:
    return {e.name: e.deployment.model if e.deployment else "refused" for e in entries}


def test_a_service_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    entries = read_deployments([write(tmp_path, "compose.yaml", COMPOSE)])
    assert models(entries) == {"chat": "Qwen/Qwen3-8B", "broken": "refused", "embed": "BAAI/bge-m3"}
    broken = entries[1].error
    assert broken is not None and "$NOT_SET_ANYWHERE" in broken.message


def test_every_document_of_a_manifest_is_a_deployment(tmp_path: Path) -> None:
    path = write(tmp_path, "all.yaml", MANIFESTS)
    assert models(read_deployments([path])) == {
        "Deployment chat/vllm": "Qwen/Qwen3-8B",
        "Deployment coder/vllm": "Qwen/Qwen3-32B",
    }
    assert [entry.line for entry in read_deployments([path])] == [11, 22]


@pytest.mark.parametrize("name", ["Deployment coder/vllm", "coder", "coder/vllm", "Qwen/Qwen3-32B"])
def test_a_name_picks_one(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, "all.yaml", MANIFESTS)
    assert [e.name for e in read_deployments([f"{path}:{name}"])] == ["Deployment coder/vllm"]
    assert parse_command([f"{path}:{name}"]).flags == {"tensor_parallel_size": 2}


def test_a_name_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path) -> None:
    path = write(tmp_path, "compose.yaml", COMPOSE)
    with pytest.raises(CommandError, match="has no 'nobody', only chat, broken, embed"):
        read_deployments([f"{path}:nobody"])


def test_llama_swap_names_its_models_and_fills_in_macros(tmp_path: Path) -> None:
    entries = read_deployments([write(tmp_path, "config.yaml", SWAP)])
    assert models(entries) == {"small": "/models/small.gguf", "large": "/models/large.gguf"}
    assert [e.deployment.flags["ctx_size"] for e in entries if e.deployment] == [8192, 32768]
    assert entries[1].deployment is not None and entries[1].deployment.gpu_count == 1


def test_a_target_that_starts_two_servers_has_two_names(tmp_path: Path) -> None:
    text = "up:\n\tvllm serve Qwen/Qwen3-8B &\n\tvllm serve Qwen/Qwen3-4B --port 8001\n"
    assert models(read_deployments([write(tmp_path, "Makefile", text)])) == {
        "up 1": "Qwen/Qwen3-8B",
        "up 2": "Qwen/Qwen3-4B",
    }


def test_several_names_that_are_offered_are_accepted(tmp_path: Path) -> None:
    text = "from vllm import LLM\na = LLM(model='Qwen/Qwen3-8B')\nb = LLM(model='Qwen/Qwen3-4B')\n"
    path = write(tmp_path, "two.py", text)
    entries = read_deployments([path])
    assert len(entries) == 2
    for entry in entries:
        assert read_deployments([f"{path}:{entry.name}"])[0].deployment == entry.deployment


def test_replicas_count_once() -> None:
    text = "vllm serve Qwen/Qwen3-8B --port 1 &\nvllm serve Qwen/Qwen3-8B --port 2 &\nvllm serve Qwen/Qwen3-4B\n"
    entries = read_deployments([text])
    assert len(entries) == 3
    assert [e.name for e in distinct(entries)] == ["1", "3"]


def test_a_command_alone_has_no_name() -> None:
    assert models(read_deployments(["vllm", "serve", "Qwen/Qwen3-8B"])) == {"": "Qwen/Qwen3-8B"}


@pytest.mark.parametrize(
    ("image", "source"),
    [
        ("vllm/vllm-openai:v0.21.0", "image tag"),
        ("ghcr.io/llm-d/llm-d-cuda:v0.9.0", "newest known"),
        ("lmcache/vllm-openai:v0.3.1", "newest known"),
        ("nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.4.0", "newest known"),
        ("docker.io/me/vllm-patched:v0.19.0", "image tag"),
    ],
)
def test_a_tag_of_another_project_is_no_release(image: str, source: str) -> None:
    text = f"services:\n  a:\n    image: {image}\n    entrypoint: vllm\n    command: [serve, Qwen/Qwen3-8B]\n"
    (entry,) = read_deployments([text])
    assert entry.deployment is not None and entry.deployment.engine.version_from == source


def test_the_words_of_an_entrypoint_get_the_commands_list() -> None:
    text = (
        "services:\n  a:\n    image: vllm/vllm-openai:v0.21.0\n"
        "    entrypoint: [bash, -c, 'exec vllm serve \"$$@\"', --]\n"
        "    command: [Qwen/Qwen3-8B, --max-model-len, '4096']\n"
    )
    (entry,) = read_deployments([text])
    assert entry.deployment is not None
    assert (entry.deployment.model, entry.deployment.flags) == ("Qwen/Qwen3-8B", {"max_model_len": 4096})


def test_prose_about_arguments_is_no_model() -> None:
    text = "Here's how we start it.\n\nvllm serve arguments\n\n/models/org/name\n  -tp 2\n  --max-num-seqs 1\n"
    (entry,) = read_deployments([text])
    assert entry.deployment is not None and entry.deployment.model == "/models/org/name"
    assert entry.deployment.flags["max_num_seqs"] == 1


def test_models_that_are_pulled_beside_a_server() -> None:
    text = "OLLAMA_CONTEXT_LENGTH=8192 ollama serve &\nollama pull qwen3:8b\nollama pull mistral\n"
    entries = read_deployments([text])
    assert models(entries) == {"1": "qwen3:8b", "2": "mistral"}
    assert entries[0].deployment is not None and entries[0].deployment.flags == {"num_ctx": 8192}


def test_a_flag_that_went_means_an_older_release_where_none_is_named() -> None:
    (entry,) = read_deployments(["vllm", "serve", "Qwen/Qwen3-8B", "--swap-space", "4"])
    assert entry.deployment is not None and entry.deployment.engine.version == "0.17.1"
    with pytest.raises(CommandError, match="gone since"):
        read_deployments(["vllm", "serve", "Qwen/Qwen3-8B", "--swap-space", "4"], engine="vllm==0.32.0")


def test_a_cell_in_another_language_does_not_stop_a_notebook(tmp_path: Path) -> None:
    cells = ["SELECT * FROM t WHERE", "!vllm serve Qwen/Qwen3-8B --max-model-len 4096"]
    body = {"cells": [{"cell_type": "code", "source": cell} for cell in cells]}
    (entry,) = read_deployments([write(tmp_path, "a.ipynb", json.dumps(body))])
    assert entry.deployment is not None and entry.deployment.flags == {"max_model_len": 4096}


def test_devices_in_one_text_are_counted() -> None:
    devices = "deploy: {resources: {reservations: {devices: [{device_ids: ['0,1,2,3'], capabilities: [gpu]}]}}}"
    text = f"services:\n  a:\n    image: vllm/vllm-openai\n    command: --model a/b -tp 4\n    {devices}\n"
    (entry,) = read_deployments([text])
    assert entry.deployment is not None and entry.deployment.gpu_count == 4


def test_a_flag_of_older_sglang_means_an_older_release() -> None:
    words = ["python", "-m", "sglang.launch_server", "--model", "a/b", "--cuda-graph-max-bs=8"]
    (entry,) = read_deployments(words)
    assert entry.deployment is not None and entry.deployment.engine.version_from == "the last with all flags"
    assert any("nobody names a release" in note for note in entry.deployment.notes)


def test_arguments_that_nothing_sets_are_left_out_of_the_api_server_too() -> None:
    (entry,) = read_deployments(["python3 -m vllm.entrypoints.openai.api_server --model a/b $VLLM_ARGS "])
    assert entry.deployment is not None and entry.deployment.model == "a/b"


def test_inline_code_may_be_continued() -> None:
    text = "It's started with\n`vllm serve a/b \\\n  --max-model-len 4096 \\\n  -tp 8`\nand dies."
    (entry,) = read_deployments([text])
    assert entry.deployment is not None
    assert entry.deployment.flags == {"max_model_len": 4096, "tensor_parallel_size": 8}


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve a/b --device cuda --swap-space 4\n",
        "from vllm import LLM\nllm = LLM(model='a/b', swap_space=16)\n",
    ],
)
def test_several_flags_that_went_and_keywords_mean_an_older_release_too(text: str) -> None:
    (entry,) = read_deployments([text])
    assert entry.deployment is not None and entry.deployment.engine.version_from == "the last with all flags"
