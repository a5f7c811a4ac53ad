"""The deployment, rebuilt from whatever of it the log holds."""

from __future__ import annotations

from typing import Any

import pytest

from oomph.logs.clean import lines
from oomph.logs.deployment import Rebuilt, parse_flags, rebuild, render
from oomph.logs.parse import observe
from oomph.logs.reader import read_text


def built(text: str) -> Rebuilt:
    found = lines(read_text(text).lines)
    return rebuild(found, observe(found))


def test_args_line_with_typographic_quotes() -> None:
    r = built("INFO 05-30 01:45:33 [utils.py:240] non-default args: {‘model_tag’: ‘a/b’, ‘max_model_len’: 1024,"
              " ‘enforce_eager’: True, ‘limit_mm_per_prompt’: {‘image’: 0}}")  # fmt: skip
    assert r.model == "a/b" and r.complete
    assert r.flags == {"max_model_len": 1024, "enforce_eager": True, "limit_mm_per_prompt": {"image": 0}}
    assert r.sources["max_model_len"] == "log line 1"


def test_args_that_are_no_literal_any_more() -> None:
    r = built("non-default args: {'model': 'a/b', 'compilation_config': <Config(level=3)>, 'max_num_seqs': 16,"
              " 'dtype': 'float16', 'x': ")  # fmt: skip
    assert r.model == "a/b" and r.flags["max_num_seqs"] == 16 and r.flags["dtype"] == "float16"


def test_old_namespace() -> None:
    r = built("INFO 12-16 api_server.py:585] args: Namespace(host=None, model='Qwen/Qwen2.5-7B', max_model_len=8192,"
              " gpu_memory_utilization=0.95, quantization=None)\n# GPU blocks: 3, # CPU blocks: 1")  # fmt: skip
    assert r.model == "Qwen/Qwen2.5-7B" and r.flags == {"max_model_len": 8192, "gpu_memory_utilization": 0.95}


def test_config_line() -> None:
    r = built(
        "Initializing a V1 LLM engine (v0.21.0) with config: model='a/b', "
        "speculative_config=SpeculativeConfig(method='mtp', "
        "model='a/b', num_spec_tokens=2), dtype=torch.bfloat16, max_seq_len=16384, tensor_parallel_size=2, "
        "quantization=awq_marlin, enforce_eager=False, kv_cache_dtype=fp8, "
        "compilation_config={'max_cudagraph_capture_size': 48}"
    )
    assert r.model == "a/b" and r.version == "0.21.0"
    assert (
        r.get("max_model_len") == 16384 and r.get("dtype") == "bfloat16" and r.get("max_cudagraph_capture_size") == 48
    )
    assert r.get("speculative_config") == {"method": "mtp", "num_speculative_tokens": 2}
    assert r.flags == {"tensor_parallel_size": 2, "quantization": "awq_marlin", "kv_cache_dtype": "fp8"}


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve a/b --max-model-len 8192 -tp 2",
        "$ vllm serve a/b \\\n  --max-model-len 8192 \\\n  --tensor-parallel-size 2\nINFO x",
        "python3 -m vllm.entrypoints.openai.api_server --model a/b --max_model_len=8192 --tensor-parallel-size 2",
        "a/b\n  --tensor-parallel-size 2\n  --max-model-len 8192\n",
    ],
)
def test_commands(text: str) -> None:
    r = built(text + "\nAvailable KV cache memory: 3.10 GiB")
    assert r.model == "a/b" and r.flags == {"max_model_len": 8192, "tensor_parallel_size": 2}


def test_the_command_nearest_to_the_log_counts() -> None:
    r = built("vllm serve other/model \\\n --max-model-len 1\n\n\n\n\n\na/b\n --max-model-len 2\n --max-num-seqs 3\n"
              "Available KV cache memory: 3.10 GiB")  # fmt: skip
    assert r.model == "a/b" and r.flags == {"max_model_len": 2, "max_num_seqs": 3}


def test_image_tag_tells_the_release() -> None:
    r = built(
        "docker run vllm/vllm-openai:v0.19.1 vllm serve a/b --max-model-len 4096\nAvailable KV cache memory: 1 GiB"
    )
    assert r.version == "0.19.1" and "beside the log" in r.version_from


def test_model_in_the_prose() -> None:
    assert (
        built("  • Model: cyankiwi/Qwen3.6-27B-AWQ-INT4\nAvailable KV cache memory: 1 GiB").model
        == "cyankiwi/Qwen3.6-27B-AWQ-INT4"
    )


@pytest.mark.parametrize(
    "flags",
    [
        {"max_model_len": 8192, "enforce_eager": True, "enable_prefix_caching": False},
        {"speculative_config": {"method": "mtp", "num_speculative_tokens": 2}, "kv_cache_dtype": "fp8"},
        {"gpu_memory_utilization": 0.8},
    ],
)
def test_render_and_back(flags: dict[str, Any]) -> None:
    again, model, _ = parse_flags(render("a/b", flags))
    assert model == "a/b" and again == flags


@pytest.mark.parametrize(
    ("command", "model", "flags"),
    [
        ("lm_eval --model vllm --model_args pretrained=a/b --tasks x --num_fewshot 5 --seed 42", "", {"seed": 42}),
        ("vllm serve a/b --max-model-len 4096 --nosuch", "a/b", {"max_model_len": 4096, "nosuch": True}),
        ("vllm serve a/b --nosuch 3", "a/b", {"nosuch": 3}),
        ("vllm serve a/b --nosuch 3 --seed 1 --other", "a/b", {"seed": 1}),
    ],
)
def test_a_wrappers_own_flags_are_no_part_of_the_engines_command(
    command: str, model: str, flags: dict[str, Any]
) -> None:
    r = built(f"{command}\nINFO 05-30 01:45:33 [core.py:58] Initializing a V1 LLM engine (v0.9.1)")
    assert (r.model, r.flags) == (model, flags)
