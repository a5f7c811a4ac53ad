"""llama-server, llama-cli and ollama commands as people write them."""

from __future__ import annotations

import pytest

from oomph.commands import parse_command, to_command
from oomph.errors import CannotPlan, CommandError
from oomph.ir.deployment import Deployment


def parse(text: str) -> Deployment:
    return parse_command([text])


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("-ngl 99 -c 8192", {"n_gpu_layers": 99, "ctx_size": 8192}),
        ("--n-gpu-layers all --ctx-size=4096", {"n_gpu_layers": -2, "ctx_size": 4096}),
        ("-ngl auto", {"n_gpu_layers": -1}),
        ("-fa -c 1024", {"flash_attn": "on", "ctx_size": 1024}),
        ("-fa on", {"flash_attn": "on"}),
        ("-fa 0", {"flash_attn": "off"}),
        ("-ts 3,1 -sm row -mg 1", {"tensor_split": [3.0, 1.0], "split_mode": "row", "main_gpu": 1}),
        ("-ctk q8_0 -ctv q4_0", {"cache_type_k": "q8_0", "cache_type_v": "q4_0"}),
        ("-np 4 -kvu", {"parallel": 4, "kv_unified": True}),
        ("-nkvo --swa-full --no-mmap", {"kv_offload": False, "swa_full": True, "mmap": False}),
        ("-b 4096 -ub 1024", {"batch_size": 4096, "ubatch_size": 1024}),
        ("-fit off", {"fit": False}),
        ("-fitt 512,2048", {"fit_target": [512, 2048]}),
        ("-ot exps=CPU", {"override_tensor": [("exps", "CPU")]}),
        (r"-ot 'blk\.1.*=CUDA1,exps=CPU'", {"override_tensor": [(r"blk\.1.*", "CUDA1"), ("exps", "CPU")]}),
        ("--port 8080 --host 0.0.0.0 --jinja -t 8 --temp 0.7 --cache-reuse 256 -a name", {}),
        ("-s -1 -c 512", {"ctx_size": 512}),
    ],
)  # fmt: skip
def test_flags(text: str, flags: dict[str, object]) -> None:
    d = parse(f"./build/bin/llama-server -m model.gguf {text}")
    assert d.engine.name == "llamacpp" and d.model == "model.gguf"
    assert d.flags == {"model": "model.gguf", **flags, "program": "server"}
    again = parse_command(to_command(d))
    assert again.flags == d.flags and again.model == d.model


def test_n_cpu_moe_is_a_pattern_for_each_of_the_first_layers() -> None:
    rules = parse("llama-server -m m.gguf --n-cpu-moe 2").flags["override_tensor"]
    assert [p[:8] for p, _ in rules] == [r"blk\.0\.", r"blk\.1\."] and all(t == "CPU" for _, t in rules)


def test_models() -> None:
    assert parse("llama-server -hf org/name-GGUF:Q8_0").model == "org/name-GGUF:Q8_0"
    assert parse("llama-server -hf org/name-GGUF").model == "org/name-GGUF:Q4_K_M"
    assert parse("llama-server -hf org/name -hff file-Q6_K.gguf").model == "org/name/file-Q6_K.gguf"
    assert parse("LLAMA_ARG_CTX_SIZE=2048 llama-server -m x.gguf").flags["ctx_size"] == 2048


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("llama-server", "no model is named"),
        ("llama-server -m", "expected value"),
        ("llama-server -m x.gguf -ngl many", "not a whole number"),
        ("llama-server -m x.gguf -c -5", "negative"),
        ("llama-server -m x.gguf -sm rows", "none, layer, row, tensor"),
        ("llama-server -m x.gguf -ts a,b", "list of numbers"),
        ("llama-server -m x.gguf -ot exps", "REGEX=BUFFER"),
        ("llama-server -m x.gguf -ot '(=CPU'", "not a regular expression"),
        ("llama-server -m x.gguf -ot '(a+)+b=CPU'", "not read"),
        ("llama-server -m x.gguf -fa maybe", "nor the value of one"),
        ("ollama run", "names no model"),
        ("ollama ps", "loads no model"),
        ("OLLAMA_NUM_PARALLEL=many ollama run qwen3", "whole number"),
    ],
)
def test_refusals(text: str, sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence):
        parse(text)


def test_llama_bench_is_not_read() -> None:
    with pytest.raises(CannotPlan, match="llama-bench"):
        parse("llama-bench -m x.gguf")


def test_ollama() -> None:
    d = parse(
        "OLLAMA_NUM_PARALLEL=4 OLLAMA_KV_CACHE_TYPE=q8_0 OLLAMA_FLASH_ATTENTION=1 ollama run --verbose qwen3:8b 'why?'"
    )
    assert d.engine.name == "ollama" and d.model == "qwen3:8b"
    assert d.flags == {"num_parallel": 4, "kv_cache_type": "q8_0", "flash_attn": "on"}
    assert parse_command(to_command(d)).flags == d.flags
    assert parse("ollama run qwen3:8b --num-ctx 8192").flags == {"num_ctx": 8192}
