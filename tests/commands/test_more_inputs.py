"""Classes of inputs that fresh public files showed: each fixture is our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomph.commands import parse_text
from oomph.commands.named_gpus import mentioned
from oomph.errors import CommandError

DSTACK = """
type: service
name: chat
image: lmsysorg/sglang:latest
env:
  - NAME=Qwen/Qwen3-8B
commands:
  - python3 -m sglang.launch_server
     --model-path $NAME
     --port 8000
resources:
  gpu: H100:2
"""
CHOICE = """
case "$1" in
  small)
    PY=/opt/env/bin/python
    "$PY" -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-1.7B ;;
  large)
    vllm serve Qwen/Qwen3-8B ;;
esac
"""
DOCSTRING = '"""Client. Start the server first:\n\n    llama-server -m Qwen3-8B-Q4_K_M.gguf -c 4096\n"""\nimport json\n'
HELPER = 'process = launch_server_cmd("python -m sglang.launch_server --model-path Qwen/Qwen3-0.6B")\n'
PROSE = (
    "You can run it at once: llama-server -hf unsloth/Qwen3-8B-GGUF:Q4_K_M. One command and no more.\nThat is all.\n"
)
GUARD = 'DIR=/opt\nif [ ! -f "$DIR/llama-server" ]; then\n  exit 1\nfi\n./llama-server -m Qwen3-8B-Q4_K_M.gguf\n'


@pytest.mark.parametrize(
    ("text", "name", "models"),
    [
        (DSTACK, "serve.yml", ["Qwen/Qwen3-8B"]),
        (CHOICE, "run.sh", ["Qwen/Qwen3-1.7B", "Qwen/Qwen3-8B"]),
        (DOCSTRING, "client.py", ["Qwen3-8B-Q4_K_M.gguf"]),
        (HELPER, "cell.py", ["Qwen/Qwen3-0.6B"]),
        (PROSE, "post.md", ["unsloth/Qwen3-8B-GGUF:Q4_K_M"]),
        (GUARD, "start.sh", ["Qwen3-8B-Q4_K_M.gguf"]),
    ],
    ids=["dstack", "case of an argument", "docstring", "helper", "full stop", "test of a file"],
)
def test_what_is_started(text: str, name: str, models: list[str]) -> None:
    deployments = parse_text(text, name=name)
    assert [deployment.model for deployment in deployments.values()] == models


def test_the_gpus_of_a_dstack_service() -> None:
    (deployment,) = parse_text(DSTACK, name="serve.yml").values()
    assert "H100" in deployment.gpu_name


@pytest.mark.parametrize("model", ["<model>", "{model}", "[MODEL]"])
@pytest.mark.parametrize("start", ["vllm serve", "sglang serve --model-path", "trtllm-serve"])
def test_an_examples_own_word_is_a_question(start: str, model: str) -> None:
    with pytest.raises(CommandError):
        parse_text(f"{start} '{model}' --port 8000\n", name="x.sh")


@pytest.mark.parametrize(("text", "card"), [("3. GPU: H20 4. started so", "H20"), ("这张 4090 就够了", "RTX 4090")])
def test_cards_that_posts_name(text: str, card: str) -> None:
    assert mentioned(text) == card


@pytest.mark.parametrize("kind", ["docker", "compose", "pod"])
def test_a_mounted_folder_is_read_where_it_is(kind: str, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    texts = {
        "docker": f"docker run --gpus all -v {tmp_path}:/models:ro vllm/vllm-openai:v0.21.0 --model /models/mine\n",
        "compose": "services:\n  llm:\n    image: vllm/vllm-openai:v0.21.0\n    command: --model=/models/mine\n"
        f"    volumes: ['{tmp_path}:/models']\n",
        "pod": "kind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: llm\n"
        "    image: vllm/vllm-openai:v0.21.0\n"
        "    args: ['--model', '/models/mine']\n    volumeMounts: [{name: m, mountPath: /models}, {name: none}, 3]\n"
        f"  volumes: [{{name: m, hostPath: {{path: {tmp_path}}}}}, {{name: claim, persistentVolumeClaim: {{}}}}]\n",
    }
    names = {"docker": "run.sh", "compose": "docker-compose.yml", "pod": "pod.yaml"}
    (deployment,) = parse_text(texts[kind], name=names[kind]).values()
    assert deployment.model == f"{tmp_path}/mine"
    (elsewhere,) = parse_text(texts["docker"].replace("/models/mine", "/models/other"), name="run.sh").values()
    assert elsewhere.model == "/models/other"
