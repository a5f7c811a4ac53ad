"""Every reader has a budget: what a stranger sends ends soon, in one sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from oomph.answers.plan import plan
from oomph.commands import parse_command
from oomph.doctor.explain import explain
from oomph.errors import CommandError, OomphError


def test_variables_of_a_makefile_do_not_grow_without_end(tmp_path: Path) -> None:
    doubled = "\n".join(f"A{n + 1}={f'$(A{n})' * 8}" for n in range(11))
    (tmp_path / "Makefile").write_text(f"A0=x\n{doubled}\nserve:\n\tvllm serve Qwen/Qwen3-8B --seed $(A11)\n")
    begin = time.process_time()
    with pytest.raises(CommandError, match="grow without end"):
        parse_command([str(tmp_path / "Makefile")])
    assert time.process_time() - begin < 6


def test_comments_of_a_makefile_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("M = Qwen/Qwen3-8B  # the model\nserve : dep\n\tvllm serve $(M)\n")
    assert parse_command([str(tmp_path / "Makefile")]).model == "Qwen/Qwen3-8B"


def test_a_line_of_digits_is_read_in_time() -> None:
    line = "Free memory on device (1.0/2.0 GiB) on startup. " + "1." * 120_000
    begin = time.process_time()
    try:
        explain(line + "\n")
    except OomphError as refused:
        assert "\n" not in refused.message
    assert time.process_time() - begin < 12


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve Qwen/Qwen3-8B -tp 1000000000",
        "vllm serve Qwen/Qwen3-8B -dp 1000000000",
        "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 1000000000",
        "trtllm-serve Qwen/Qwen3-8B --tp_size 1000000000",
    ],
)
def test_a_billion_gpus_are_not_laid_out(command: str) -> None:
    begin = time.process_time()
    try:
        plan(command, gpu="H100")
    except OomphError as refused:
        assert "\n" not in refused.message
    args = (
        "INFO 11-15 10:00:00 [api_server.py:10] non-default args: {'model': 'a/b', 'tensor_parallel_size': 1000000000}"
    )
    explain(f"{args}\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    assert time.process_time() - begin < 6


BASE = {
    "architectures": ["Qwen3ForCausalLM"], "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 512, "dtype": "bfloat16",
    "max_position_embeddings": 2048,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"num_hidden_layers": 10_000}, "10,000 layers"),
        ({"num_hidden_layers": 2_000}, ""),
        ({"num_hidden_layers": 1 << 40}, "num_hidden_layers"),
        ({"architectures": ["A" * 1_000_000]}, "not known"),
        ({"architectures": ["A"] * 100_000}, "not known"),
        ({"dtype": "x" * 1_000_000}, "dtype"),
        ({"layer_types": ["full_attention"] * 500_000}, ""),
        ({"quantization_config": {"quant_method": "x" * 1_000_000}}, "quant_method"),
    ],
)
def test_a_config_has_a_budget(tmp_path: Path, change: dict[str, object], says: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**BASE, **change}))
    begin = time.process_time()
    try:
        plan(["vllm", "serve", str(tmp_path)], gpu="H100")
        assert not says
    except OomphError as refused:
        assert says in refused.message and len(refused.message) < 1000
    assert time.process_time() - begin < 12


def test_a_full_disk_is_a_sentence() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    for more in ([], ["--json"]):
        words = [sys.executable, "-m", "oomph", "plan", *more, "--gpu", "H100", "--", "vllm", "serve", "Qwen/Qwen3-8B"]
        with open("/dev/full", "wb") as full:
            done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr == "oomph: error: the output cannot be written: no space left on device\n"
