import shlex

import pytest

from oomph.commands import parse_command
from oomph.commands.manifests.docker import gpus_option
from oomph.errors import CannotPlan, CommandError
from oomph.facts.vllm.versions import NEWEST


def parse(text, **kwargs):
    return parse_command(shlex.split(text), **kwargs)


def test_the_documented_command():
    d = parse(
        "docker run --runtime nvidia --gpus all -v ~/.cache/huggingface:/root/.cache/huggingface "
        "--env HF_TOKEN=secret -p 8000:8000 --ipc=host vllm/vllm-openai:v0.21.0 --model Qwen/Qwen3-0.6B -tp 2"
    )
    assert (d.engine.version, d.engine.version_from) == ("0.21.0", "image tag")
    assert (d.model, d.flags, d.environment) == ("Qwen/Qwen3-0.6B", {"tensor_parallel_size": 2}, {})
    assert d.gpu_count == 0


def test_devices_and_variables():
    d = parse(
        """docker run -itd --rm --name v --gpus '"device=2,3"' --shm-size 16g -e VLLM_KV_CACHE_LAYOUT=HND -eCUDA_X=1 """
        """-p8000:8000 vllm/vllm-openai:v0.11.2-x86_64 Qwen/Qwen3-8B --max-model-len 8k"""
    )
    assert d.gpu_count == 2 and d.engine.version == "0.11.2"
    assert d.environment == {"VLLM_KV_CACHE_LAYOUT": "HND", "CUDA_X": "1"}
    assert d.flags == {"max_model_len": 8000}


@pytest.mark.parametrize(
    ("image", "version", "source"),
    [
        ("vllm/vllm-openai:v0.21.0", "0.21.0", "image tag"),
        ("vllm/vllm-openai:v0.21.0-cu129", "0.21.0", "image tag"),
        ("docker.io/vllm/vllm-openai:v0.8.5.post1", "0.8.5.post1", "image tag"),
        ("localhost:5000/vllm/vllm-openai:v0.12.0@sha256:abcd", "0.12.0", "image tag"),
        ("vllm/vllm-openai:latest", NEWEST, "newest known"),
        ("vllm/vllm-openai:nightly-abc123", NEWEST, "newest known"),
        ("vllm/vllm-openai", NEWEST, "newest known"),
        ("nvcr.io/nvidia/vllm:25.09-py3", NEWEST, "newest known"),
        ("rocm/vllm:v0.6.3", "0.8.5", "image tag"),
    ],
)
def test_version_from_the_tag(image, version, source):
    d = parse(f"docker run --gpus all --entrypoint vllm {image} serve org/m")
    assert (d.engine.version, d.engine.version_from) == (version, source)
    assert bool(d.notes) == (source != "image tag" or version.startswith("0.8"))


def test_engine_beats_the_tag():
    d = parse("docker run vllm/vllm-openai:v0.21.0 org/m", engine="vllm==0.30.0")
    assert (d.engine.version, d.engine.version_from) == ("0.30.0", "--engine")


@pytest.mark.parametrize(
    "text",
    [
        "docker run --entrypoint bash vllm/vllm-openai:v0.21.0 -c 'pip install x && vllm serve org/m -tp 2'",
        "docker run --entrypoint python3 a/vllm:v0.21.0 -m vllm.entrypoints.openai.api_server --model org/m -tp 2",
        "docker run my/vllm:v0.21.0 sh -c 'vllm serve org/m -tp 2'",
        "sudo podman run --device nvidia.com/gpu=all --security-opt=label=disable a/vllm:v0.21.0 --model org/m -tp 2",
        "docker container run vllm/vllm-openai:v0.21.0 org/m -tp 2",
        "docker exec -it box vllm serve org/m -tp 2",
    ],
)
def test_entry_points(text):
    d = parse(text)
    assert d.model == "org/m" and d.flags == {"tensor_parallel_size": 2}


def test_other_engines_images_are_recognised():
    d = parse("docker run ghcr.io/ggml-org/llama.cpp:server-cuda -m model.gguf -ngl 20")
    assert (d.engine.name, d.model, d.flags["n_gpu_layers"]) == ("llamacpp", "model.gguf", 20)
    d = parse("docker run lmsysorg/sglang:latest python3 -m sglang.launch_server --model-path m")
    assert (d.engine.name, d.model) == ("sglang", "m")
    d = parse("docker run nvcr.io/nvidia/tensorrt-llm/release:1.2.0 trtllm-serve m")
    assert (d.engine.name, d.engine.version, d.model) == ("trtllm", "1.2.0", "m")


def test_images_that_say_nothing():
    with pytest.raises(CannotPlan, match="does not say which engine"):
        parse("docker run ubuntu:24.04 --model org/m")
    with pytest.raises(CommandError, match="without an image"):
        parse("docker run --gpus all")
    with pytest.raises(CommandError, match="flag needs an argument"):
        parse("docker run --gpus")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("all", (0, "")),
        ("2", (2, "")),
        ("device=0", (1, "0")),
        ('"device=0,1"', (2, "0,1")),
        ("'\"device=0,1\"'", (2, "0,1")),
        ("count=2,capabilities=gpu", (2, "")),
        ("", (0, "")),
        ("device=GPU-3a23c669-1f69-c64e-cf85-44e9b07e7a2a", (1, "GPU-3a23c669-1f69-c64e-cf85-44e9b07e7a2a")),
    ],
)
def test_gpus_option(text, expected):
    assert gpus_option(text) == expected
