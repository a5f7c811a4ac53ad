import pytest

from oomph.commands import parse_command, parse_text
from oomph.errors import CommandError

COMPOSE = """
x-common: &common
  ipc: host
  environment:
    - VLLM_KV_CACHE_LAYOUT=HND
    - HF_TOKEN=${HF_TOKEN}
services:
  vllm:
    <<: *common
    image: vllm/vllm-openai:${VLLM_TAG:-v0.21.0}
    ports: ["8000:8000"]
    command: >
      --model ${MODEL:-Qwen/Qwen3-8B}
      --max-model-len 32k
      --limit-mm-per-prompt '{"image": 0}'
    deploy:
      resources:
        reservations:
          devices:
            - {driver: nvidia, device_ids: ["0", "1"], capabilities: [gpu]}
  web:
    image: ghcr.io/open-webui/open-webui:main
"""


def test_a_compose_file():
    (item,) = parse_text(COMPOSE).items()
    name, d = item
    assert name == "vllm"
    assert (d.engine.version, d.engine.version_from) == ("0.21.0", "image tag")
    assert d.model == "Qwen/Qwen3-8B"
    assert d.flags == {"max_model_len": 32000, "limit_mm_per_prompt": {"image": 0}}
    assert d.environment == {"VLLM_KV_CACHE_LAYOUT": "HND"} and d.gpu_count == 2


def test_variables_come_from_outside():
    (d,) = parse_text(COMPOSE, environment={"MODEL": "org/m", "VLLM_TAG": "v0.32.0"}).values()
    assert d.model == "org/m" and d.engine.version == "0.32.0"


def test_a_list_an_entrypoint_and_counts():
    text = """
services:
  a:
    image: vllm/vllm-openai:v0.24.0
    entrypoint: ["python3", "-m", "vllm.entrypoints.openai.api_server"]
    command: ["--model", "org/a", "--enforce-eager", "-tp", 2]
    gpus: 2
  b:
    build: .
    command: bash -c "vllm serve org/b -tp 4"
    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 4}]}}}
"""
    a, b = parse_text(text).values()
    assert (a.model, a.flags, a.gpu_count) == ("org/a", {"enforce_eager": True, "tensor_parallel_size": 2}, 2)
    assert (b.model, b.flags, b.gpu_count) == ("org/b", {"tensor_parallel_size": 4}, 4)
    assert b.engine.version_from == "newest known"


def test_one_service_of_several(tmp_path):
    path = tmp_path / "compose.yaml"
    path.write_text(
        "services:\n  a: {image: vllm/vllm-openai:v0.21.0, command: org/a}\n"
        "  b: {image: vllm/vllm-openai:v0.21.0, command: org/b}\n"
    )
    assert parse_command([f"{path}:b"]).model == "org/b"
    with pytest.raises(CommandError, match=r"holds 2 serve commands: a \(org/a\), b \(org/b\)"):
        parse_command([str(path)])
    with pytest.raises(CommandError, match="has no 'c', only a, b"):
        parse_command([f"{path}:c"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("services:\n  - x\n", "has no services"),
        ("services:\n  a:\n    image: nginx\n", "no serve command"),
        ("services:\n a:\n  image: vllm/vllm-openai\n  command: --model ${MODEL}\n", r"\$MODEL"),
        ("services:\n\ta: 1\n", "is not YAML at line 2"),
    ],
)
def test_refusals(text, sentence):
    with pytest.raises(CommandError, match=sentence):
        parse_text(text)


def test_an_open_key_is_of_no_account_and_an_open_length_is_a_question() -> None:
    text = "services:\n a:\n  image: vllm/vllm-openai\n  command: --model Qwen/Qwen3-8B {}\n"
    (only,) = parse_text(text.format("--api-key ${KEY} --max-model-len 8192")).values()
    assert only.model == "Qwen/Qwen3-8B" and only.flags["max_model_len"] == 8192
    with pytest.raises(CommandError, match=r"--max-model-len is .*which nothing sets"):
        parse_text(text.format("--max-model-len ${LENGTH}"))
