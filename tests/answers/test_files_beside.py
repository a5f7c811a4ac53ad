"""The files beside a command are read: adapters, tokenizers, defaults of requests, and which GPUs a container has."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from oomph import check, plan
from oomph.answers.plan import parse, with_gpus

BASE = "vllm serve Qwen/Qwen3-8B --enable-lora --lora-modules"
SMALL = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072,
    "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
    "vocab_size": 151936, "max_position_embeddings": 40960, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip


def adapter(folder: Path, modules: tuple[str, ...] = ("q_proj", "v_proj"), **config: Any) -> Path:
    folder.mkdir()
    own = {"peft_type": "LORA", "r": 16, "lora_alpha": 32, "target_modules": list(modules), **config}
    (folder / "adapter_config.json").write_text(json.dumps(own))
    tensors: dict[str, Any] = {}
    for at, module in enumerate(modules):
        name = f"base_model.model.model.layers.0.self_attn.{module}.lora_A.weight"
        tensors[name] = {"dtype": "F16", "shape": [1, 1], "data_offsets": [2 * at, 2 * at + 2]}
    header = json.dumps(tensors).encode()
    data = struct.pack("<Q", len(header)) + header + b"\0" * (2 * len(modules))
    (folder / "adapter_model.safetensors").write_bytes(data)
    return folder


def test_a_rank_above_the_slots_does_not_start(tmp_path: Path) -> None:
    folder = adapter(tmp_path / "lora", r=64)
    answer = plan(f"{BASE} my={folder}", gpu="H100")
    assert answer.verdict.message == "ValueError: LoRA rank 64 is greater than max_lora_rank 16."
    assert (answer.verdict.outcome, answer.verdict.refusal) == ("fails", "adapter")
    assert answer.advice is not None
    assert [fix.change.label for fix in answer.advice.fixes] == ["--max-lora-rank 64"]
    slots = plan(answer.advice.fixes[0].command, gpu="H100", advise=False)
    assert slots.fits and slots.ranks[0].terms["weights"].bytes > 0
    as_json = json.dumps({"name": "my", "path": str(folder)})
    assert not plan(["vllm", "serve", "Qwen/Qwen3-8B", "--enable-lora", "--lora-modules", as_json], gpu="H100").fits


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"rank_pattern": {"q_proj": 32}}, "LoRA rank 32 is greater than max_lora_rank 16."),
        ({"use_dora": True}, "vLLM does not yet support DoRA."),
        ({"bias": "all"}, "Adapter bias is not supported."),
        ({"modules": ("q_proj", "c_attn")}, "but received ['c_attn']"),
    ],
)
def test_what_vllm_says_of_an_adapter(tmp_path: Path, config: dict[str, Any], words: str) -> None:
    answer = plan(f"{BASE} my={adapter(tmp_path / 'lora', **config)}", gpu="H100", advise=False)
    assert words in answer.verdict.message and answer.verdict.refusal == "adapter"


def test_adapters_that_are_right(tmp_path: Path) -> None:
    folder = adapter(tmp_path / "lora", base_model_name_or_path="Qwen/Qwen3-4B")
    answer = plan(f"{BASE} my={folder} other={folder} hub=org/adapter", gpu="H100", advise=False)
    assert answer.fits
    assert any("3 adapters share 1 slot" in note for note in answer.warnings)
    assert any("was trained for Qwen/Qwen3-4B" in note for note in answer.warnings)
    without = plan(f"vllm serve Qwen/Qwen3-8B --lora-modules my={folder}", gpu="H100")
    assert "LoRA is not enabled" in without.verdict.message and without.advice is not None
    assert without.advice.fixes[0].change.label == "--enable-lora"
    large = adapter(tmp_path / "large", rank_pattern={"q_proj": 64})
    without = plan(f"vllm serve Qwen/Qwen3-8B --lora-modules my={large}", gpu="H100")
    assert without.advice is not None
    assert [fix.change.label for fix in without.advice.fixes] == ["--enable-lora --max-lora-rank 64"]
    short = plan(f"{BASE} my={folder}", gpu="RTX 3060 12GB", advise=False)
    assert not short.fits and not short.verdict.refusal  # it dies before the adapters are loaded


def checkpoint(folder: Path, *files: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(SMALL))
    for name in files:
        (folder / name).write_text('{"max_new_tokens": 2048}' if name.startswith("generation") else "{}")
    return folder


def test_a_folder_without_a_tokenizer_does_not_start(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "merged", "pytorch_model.bin")
    for command in (f"vllm serve {folder}", f"trtllm-serve {folder}"):
        answer = plan(command, gpu="H100", advise=False)
        assert "Can't load tokenizer" in answer.verdict.message and answer.verdict.refusal == "model"
    assert plan(f"vllm serve {folder} --tokenizer Qwen/Qwen3-0.6B", gpu="H100", advise=False).fits
    (folder / "tokenizer.json").write_text("{}")
    assert plan(f"vllm serve {folder}", gpu="H100", advise=False).fits
    assert plan(f"vllm serve {checkpoint(tmp_path / 'config_only')}", gpu="H100", advise=False).fits


def test_the_defaults_of_requests_are_said(tmp_path: Path) -> None:
    answer = plan(f"vllm serve {checkpoint(tmp_path / 'm', 'generation_config.json')}", gpu="H100", advise=False)
    assert any("at most 2,048 tokens" in note for note in answer.warnings)


def test_a_container_has_the_gpus_that_it_is_given(tmp_path: Path) -> None:
    service = (
        "services:\n  llm:\n    image: vllm/vllm-openai:v0.32.0\n    command: --model Qwen/Qwen3-8B {flags}\n"
        "    environment: {env}\n    deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, "
        "device_ids: {ids}, capabilities: [gpu]}}]}}}}}}\n"
    )
    path = tmp_path / "compose.yaml"
    path.write_text(service.format(flags="-tp 2", env="{}", ids='["0"]'))
    item = check([str(path)], gpu="2x H100").items[0]
    assert item.plan is not None and item.plan.verdict.refusal == "gpus"
    path.write_text(service.format(flags="", env="{CUDA_VISIBLE_DEVICES: '0'}", ids='["1", "2"]'))
    item = check([str(path)], gpu="L4 + H100 + RTX 4090").items[0]
    assert item.plan is not None and [gpu.name for gpu in item.plan.deployment.gpus] == ["H100 SXM"]


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("docker run --gpus '\"device=1\"' vllm/vllm-openai Qwen/Qwen3-8B", ["H100 SXM"]),
        (
            "docker run --gpus all -e NVIDIA_VISIBLE_DEVICES=2,1 vllm/vllm-openai Qwen/Qwen3-8B",
            ["RTX 4090", "H100 SXM"],
        ),
        ("docker run --gpus all -e CUDA_VISIBLE_DEVICES=2 vllm/vllm-openai Qwen/Qwen3-8B", ["RTX 4090"]),
    ],
)
def test_gpus_by_number(command: str, names: list[str]) -> None:
    assert [gpu.name for gpu in with_gpus(parse(command), "L4 + H100 + RTX 4090").gpus] == names


def test_a_file_that_is_not_here_is_said(tmp_path: Path) -> None:
    template = tmp_path / "own.jinja"
    template.write_text("{{ messages }}")
    words = ["vllm", "serve", "Qwen/Qwen3-8B", "--enable-lora", "--lora-modules", "a=/nowhere/adapter"]
    absent = [
        note for note in plan([*words, "--chat-template", "/nowhere/x.jinja"], gpu="H100").warnings if "nowhere" in note
    ]
    assert [note.partition(" is not on this machine")[0] for note in absent] == [
        "'/nowhere/adapter' (--lora-modules)",
        "'/nowhere/x.jinja' (--chat-template)",
    ]
    here = plan(["vllm", "serve", "Qwen/Qwen3-8B", "--chat-template", str(template)], gpu="H100")
    assert not any("not on this machine" in note for note in here.warnings)


def test_an_adapter_without_tensors_is_doubted(tmp_path: Path) -> None:
    folder = adapter(tmp_path / "lora", modules=("q_proj", "c_attn"))
    (folder / "adapter_model.safetensors").unlink()
    answer = plan(f"{BASE} my={folder}", gpu="H100", advise=False)
    assert answer.fits
    assert any("has an adapter_config.json and no tensors" in note for note in answer.warnings)
    assert any("'c_attn' are none of Qwen3ForCausalLM" in note for note in answer.warnings)


def test_every_file_that_is_named_and_not_here_is_said() -> None:
    for flag in ("--chat-template", "--generation-config", "--tokenizer"):
        notes = plan(f"vllm serve Qwen/Qwen3-0.6B {flag} ./none-here", gpu="H100", advise=False).warnings
        assert any(f"'./none-here' ({flag}) is not on this machine" in note for note in notes)


def test_a_config_alone_stands_for_a_model_and_is_none(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    note = "has no weights: planned from its config.json"
    for command in (f"vllm serve {tmp_path}", f"python -m sglang.launch_server --model-path {tmp_path}"):
        assert any(note in one for one in plan(command, gpu="H100", advise=False).warnings)
    assert not any(note in one for one in plan(f"vllm serve {tmp_path} --load-format dummy", gpu="H100").warnings)
