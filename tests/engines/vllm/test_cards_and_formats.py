"""Cards for which a release has no code, formats that it does not take there, dtypes that a card forces on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import oomph
from calling import call
from oomph.errors import CannotPlan
from oomph.facts.vllm.facts import at


def planned(gpu: str, command: str, **more: object) -> oomph.Plan:
    return oomph.plan(command, gpu=gpu, advise=False, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gpu", "release", "runs"),
    [
        ("V100 32GB", "0.32.0", False), ("V100 32GB", "0.20.0", False), ("V100 32GB", "0.19.0", True),
        ("P40", "0.32.0", False), ("P40", "0.11.0", False), ("P100", "0.21.0", False), ("GTX 1080 Ti", "0.32.0", False),
        ("T4", "0.32.0", True),
    ],
)  # fmt: skip
def test_a_published_release_has_no_code_for_the_card(gpu: str, release: str, runs: bool) -> None:
    plan = planned(gpu, "vllm serve Qwen/Qwen3-0.6B --max-model-len 2048", engine=f"vllm=={release}")
    assert plan.fits is runs
    if not runs:
        assert plan.verdict.refusal == "card" and "no kernel image is available" in plan.verdict.message
        own = planned(gpu, "vllm serve Qwen/Qwen3-0.6B --max-model-len 2048", engine=f"vllm=={release}", own_build=True)
        assert own.fits and any("--own-build" in note for note in own.warnings)


@pytest.mark.parametrize("gpu", ["MI60", "MI100", "RX 6800 XT", "RX 7600 XT"])
def test_the_images_for_rocm_have_no_code_for_older_cards(gpu: str) -> None:
    command = "vllm serve Qwen/Qwen3-0.6B --max-model-len 2048"
    plan = planned(gpu, command)
    assert not plan.fits and plan.verdict.refusal == "card"
    assert "HIP error" in plan.verdict.message and "CUDA" not in plan.verdict.message
    assert planned(gpu, command, own_build=True).verdict.refusal == ""
    assert planned(gpu.replace("MI60", "MI210").replace("MI100", "MI300X"), command).fits is gpu.startswith("MI")


def test_the_gate_is_red_for_such_a_card(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text(
        "services:\n  a:\n    image: vllm/vllm-openai:v0.32.0\n"
        "    command: --model Qwen/Qwen3-0.6B --max-model-len 2048\n"
    )
    words = ["check", "--gpu", "V100 32GB", str(tmp_path)]
    assert call(*words).returncode == 1
    assert call(words[0], "--own-build", *words[1:]).returncode == 0
    told = call("plan", "--json", "--gpu", "V100 32GB", str(tmp_path / "compose.yaml"))
    assert told.returncode == 1 and json.loads(told.stdout)["verdict"]["refusal"] == "card"


@pytest.mark.parametrize(
    ("gpu", "model", "release", "words"),
    [
        ("Arc B580", "nvidia/Qwen3-8B-NVFP4", "0.32.0", "modelopt_fp4 quantization is currently not supported in xpu."),
        ("Arc A770 16GB", "RedHatAI/Llama-3.1-8B-Instruct-NVFP4", "0.32.0", "no kernel for NVFP4"),
        ("Arc B580", "Qwen/Qwen3-8B-AWQ", "0.32.0", ""),
        ("MI300X", "nvidia/Qwen3-8B-NVFP4", "0.19.0", "modelopt_fp4 quantization is currently not supported in rocm."),
        ("MI300X", "nvidia/Qwen3-8B-NVFP4", "0.32.0", ""),  # emulated there: EmulationNvFp4LinearKernel
        ("MI300X", "Qwen/Qwen3-8B-FP8", "0.32.0", ""),
        ("MI300X", "Qwen/Qwen3-8B-AWQ", "0.11.0", ""),
        ("Gaudi 3", "nvidia/Qwen3-8B-NVFP4", "0.32.0", "no kernel for NVFP4"),
        ("RX 7900 XTX", "RedHatAI/Qwen3-8B-FP8-dynamic", "0.32.0", "no FP8 kernel for the"),
        ("MI250X", "Qwen/Qwen3-4B --quantization fp8", "0.21.0", "no FP8 kernel for the"),
        ("MI300X", "RedHatAI/Qwen3-8B-FP8-dynamic", "0.32.0", ""),
        ("RX 7900 XTX", "Qwen/Qwen3-8B-FP8", "0.32.0", ""),  # in blocks: Triton's kernel
    ],
)
def test_formats_of_other_makers_cards(gpu: str, model: str, release: str, words: str) -> None:
    plan = planned(gpu, f"vllm serve {model} --max-model-len 2048", engine=f"vllm=={release}")
    message = plan.verdict.message if plan.verdict.refusal else ""
    assert words in message if words else not message
    assert "compute capability" not in plan.verdict.message


def test_sglang_has_a_list_of_its_own() -> None:
    serve = "python -m sglang.launch_server --model-path nvidia/Qwen3-8B-NVFP4"
    plan = planned("MI300X", serve)
    assert "modelopt_fp4 quantization is currently not supported in ROCm." in plan.verdict.message
    assert not planned("MI300X", serve.replace("nvidia/Qwen3-8B-NVFP4", "Qwen/Qwen3-8B-FP8")).verdict.refusal


def test_no_message_of_nvidias_on_another_makers_card() -> None:
    for gpu in ("Arc B580", "Gaudi 3", "MI300X", "RX 7900 XTX"):
        for flags in ("--kv-cache-dtype fp8", "--quantization fp8", "--dtype bfloat16"):
            plan = planned(gpu, f"vllm serve Qwen/Qwen3-0.6B --max-model-len 2048 {flags}")
            texts = (plan.verdict.message, *plan.warnings)
            assert not any("compute capability" in text or "SM89" in text for text in texts), (gpu, flags, texts)


@pytest.mark.parametrize(
    ("gpu", "runs"),
    [("MI300X", True), ("MI355X", True), ("MI250X", False), ("RX 7900 XTX", False), ("Radeon AI PRO R9700", False)],
)
def test_sglangs_images_for_rocm_have_code_for_two_cards(gpu: str, runs: bool) -> None:
    command = "python -m sglang.launch_server --model-path Qwen/Qwen3-0.6B --context-length 2048"
    answer = planned(gpu, command)
    assert answer.fits is runs
    assert runs or (answer.verdict.refusal == "card" and "HIP error" in answer.verdict.message)
    assert planned(gpu, command, own_build=True).fits


def test_makers_plugins_are_named() -> None:
    notes = planned("Gaudi 3", "vllm serve Qwen/Qwen3-0.6B --max-model-len 2048").warnings
    assert any("vllm-gaudi" in note for note in notes)
    with pytest.raises(CannotPlan, match="vllm-metal"):
        planned("Mac Studio M2 Ultra 192GB", "vllm serve Qwen/Qwen3-0.6B")


def test_a_dtype_that_the_card_forces_is_said() -> None:
    screen = call("plan", "--gpu", "RTX 2080 Ti", "--", "vllm", "serve", "google/gemma-3-4b-it").stdout
    assert "as float32, in twice the bytes" in " ".join(screen.split())
    for gpu, command in (("RTX 3090", "google/gemma-3-4b-it"), ("RTX 2080 Ti", "Qwen/Qwen3-0.6B")):
        assert not any("float32" in note for note in planned(gpu, f"vllm serve {command}").warnings)


def test_rows_are_as_the_wheels_say() -> None:
    """Some of what platforms/rocm.py and xpu.py list, and what they do not."""
    old, new = at("0.8.5").card_formats, at("0.32.0").card_formats
    assert {"gguf", "ptpc_fp8"} <= old.rocm and not {"gguf", "ptpc_fp8"} & new.rocm
    assert "inc" in new.rocm and "bitsandbytes" not in new.rocm | new.rocm_for_a_while
    assert "bitsandbytes" in at("0.27.0").card_formats.rocm_for_a_while
    assert not at("0.26.0").card_formats.xpu_checks and "moe_wna16" not in at("0.29.0").card_formats.xpu
