"""trtllm-serve commands as people have them, to a deployment and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomph.commands import parse_command, parse_text, to_command, to_shell
from oomph.errors import CannotPlan, CommandError
from oomph.facts.trtllm.versions import RELEASES, nearest, parse
from oomph.ir.deployment import Deployment

SERVE = "trtllm-serve Qwen/Qwen3-8B"
FRACTION = "kv_cache_config.free_gpu_memory_fraction"


def read(text: str, engine: str | None = None) -> dict[str, object]:
    return parse_command(text.split(), engine=engine).flags


def test_a_server_command() -> None:
    deployment = parse_command(
        f"{SERVE} --tp_size 2 --kv_cache_free_gpu_memory_fraction 0.8 --max_seq_len=8192".split()
    )
    assert (deployment.engine.name, deployment.model) == ("trtllm", "Qwen/Qwen3-8B")
    assert deployment.flags == {"tensor_parallel_size": 2, FRACTION: 0.8, "max_seq_len": 8192}


def test_serve_may_stand_before_the_model_and_long_names_are_the_same() -> None:
    long = read("trtllm-serve serve Qwen/Qwen3-8B --tensor_parallel_size 2 --free_gpu_memory_fraction 0.8")
    assert long == read(f"{SERVE} --tp_size 2 --kv_cache_free_gpu_memory_fraction 0.8")


def test_the_options_file_wins_over_the_command_line(tmp_path: Path) -> None:
    options = tmp_path / "options.yml"
    options.write_text(
        "max_batch_size: 64\nkv_cache_config:\n  dtype: fp8\n  enable_block_reuse: false\n"
        "cuda_graph_config:\n  enable_padding: true\n  max_batch_size: 16\nenable_attention_dp: true\n"
    )
    for name in ("--extra_llm_api_options", "--config"):
        assert read(f"{SERVE} --max_batch_size 8 --max_num_tokens 4096 {name} {options}") == {
            "max_batch_size": 64, "max_num_tokens": 4096, "kv_cache_config.dtype": "fp8",
            "kv_cache_config.enable_block_reuse": False, "cuda_graph_config.enable_padding": True,
            "cuda_graph_config.max_batch_size": 16, "enable_attention_dp": True,
        }  # fmt: skip


def test_graphs_are_switched_off_by_null(tmp_path: Path) -> None:
    options = tmp_path / "options.yml"
    options.write_text("cuda_graph_config: null\n")
    assert read(f"{SERVE} --config {options}") == {"cuda_graph_config": "null"}


def test_a_file_that_is_not_there_is_said() -> None:
    deployment = parse_command(f"{SERVE} --config /nowhere/options.yml".split())
    assert any("is not there" in note for note in deployment.notes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a\n- b\n", "not one YAML mapping"),
        ("kv_cache_config:\n  max_tokens: many\n", "not a whole number"),
        ("enable_attention_dp: 3\n", "not true or false"),
        ("kv_cache_config:\n  max_attention_window: 4096\n", "not a list"),
        ("max_batch_size: 1.5\n", "not a whole number"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    options = tmp_path / "options.yml"
    options.write_text(text)
    with pytest.raises(CommandError, match=words):
        read(f"{SERVE} --config {options}")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("trtllm-serve", "no model"),
        (f"{SERVE} --max-batch-size 4", "did you mean --max_batch_size"),
        (f"{SERVE} --max_batch_size four", "not a valid integer"),
        (f"{SERVE} --max_batch_size", "requires an argument"),
        (f"{SERVE} another", "unexpected extra argument"),
        (f"{SERVE} -tp 2", "No such option"),
        (f"{SERVE} --kv_cache_dtype fp8", "has no --kv_cache_dtype yet"),
    ],
)
def test_what_click_refuses(command: str, words: str) -> None:
    with pytest.raises(CommandError, match=words):
        read(command)


def test_other_commands_start_no_plain_server() -> None:
    with pytest.raises((CannotPlan, CommandError)):
        parse_command(["trtllm-serve", "disaggregated", "-c", "x.yaml"])


def test_a_container_names_its_release() -> None:
    image = "nvcr.io/nvidia/tensorrt-llm/release:1.2.0rc6.post2"
    deployment = parse_command(f"docker run --gpus all {image} {SERVE} --tp_size 4".split())
    assert (deployment.engine.version, deployment.flags) == ("1.2.0rc6", {"tensor_parallel_size": 4})


@pytest.mark.parametrize("flags", ["--tp_size 2 --max_batch_size 16", "--enable_chunked_prefill --max_num_tokens 2048"])
def test_writing_and_reading_again(flags: str) -> None:
    deployment = parse_command(f"{SERVE} {flags}".split())
    assert parse_command(to_command(deployment)).flags == deployment.flags


def test_releases_are_ordered_with_their_candidates() -> None:
    parsed = [parse(release) for release in RELEASES]
    assert parsed == sorted(parsed)
    assert parse("1.2.0rc8") < parse("1.2.0") < parse("1.2.1") < parse("1.3.0rc0")
    assert nearest("1.2.0rc6.post3")[0] == "1.2.0rc6"
    assert nearest("1.3.0rc28") == (
        "1.3.0rc17",
        "TensorRT-LLM 1.3.0rc28 is newer than any known release: planned as 1.3.0rc17",
    )
    with pytest.raises(CommandError):
        parse("newest")


SCRIPT = """
cat > /tmp/extra.yml <<EOF
kv_cache_config:
  dtype: fp8
  max_tokens: 200000
disable_overlap_scheduler: true
EOF
trtllm-serve openai/gpt-oss-20b --max_batch_size 64 --extra_llm_api_options /tmp/extra.yml
"""
FROM_SCRIPT = {
    "max_batch_size": 64, "kv_cache_config.dtype": "fp8", "kv_cache_config.max_tokens": 200000,
    "disable_overlap_scheduler": True,
}  # fmt: skip


def only(text: str, name: str = "") -> Deployment:
    deployments = parse_text(text, name=name)
    assert len(deployments) == 1
    return next(iter(deployments.values()))


def test_a_file_that_the_script_writes_is_read() -> None:
    assert only(SCRIPT).flags == FROM_SCRIPT
    start = "docker run -v /tmp:/c nvcr.io/nvidia/tensorrt-llm/release:1.2.0 trtllm-serve"
    mounted = SCRIPT.replace("trtllm-serve", start).replace("options /tmp/", "options /c/")
    assert only(mounted).flags == FROM_SCRIPT
    inside = "bash -c 'echo \"enable_attention_dp: true\" > /tmp/x.yaml\ntrtllm-serve m --config /tmp/x.yaml'"
    assert only(inside).flags == {"enable_attention_dp": True}


def test_a_command_with_a_file_of_its_own_is_read_again() -> None:
    deployment = only(SCRIPT)
    assert parse_command(to_command(deployment)).flags == deployment.flags
    assert only(to_shell(deployment)).flags == deployment.flags


def test_compose_and_kubernetes() -> None:
    compose = """
services:
  llm:
    image: nvcr.io/nvidia/tensorrt-llm/release:1.1.0
    command: trtllm-serve Qwen/Qwen3-8B --max_batch_size 16
"""
    deployment = only(compose, "compose.yaml")
    assert (deployment.engine.version, deployment.flags) == ("1.1.0", {"max_batch_size": 16})
    manifest = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  template:
    spec:
      containers:
      - name: llm
        image: nvcr.io/nvidia/tensorrt-llm/release:1.2.0
        command: [trtllm-serve, Qwen/Qwen3-8B, --tp_size, "2"]
        resources: {limits: {nvidia.com/gpu: 2}}
"""
    deployment = only(manifest, "deployment.yaml")
    assert (deployment.flags, deployment.gpu_count) == ({"tensor_parallel_size": 2}, 2)


def test_python_source() -> None:
    source = """
from tensorrt_llm import LLM
from tensorrt_llm.llmapi import KvCacheConfig, CudaGraphConfig, MTPDecodingConfig
kv = KvCacheConfig(free_gpu_memory_fraction=0.7, dtype="fp8")
llm = LLM(model="Qwen/Qwen3-8B", tensor_parallel_size=2, max_seq_len=4096, kv_cache_config=kv,
          cuda_graph_config=CudaGraphConfig(enable_padding=True), scheduler_config=make(),
          speculative_config=MTPDecodingConfig(num_nextn_predict_layers=1))
"""
    deployment = only(source, "serve.py")
    assert (deployment.engine.name, deployment.model) == ("trtllm", "Qwen/Qwen3-8B")
    assert deployment.flags == {
        "tensor_parallel_size": 2, "max_seq_len": 4096, FRACTION: 0.7, "kv_cache_config.dtype": "fp8",
        "cuda_graph_config.enable_padding": True, "speculative_config.decoding_type": "MTP",
        "speculative_config.num_nextn_predict_layers": 1,
    }  # fmt: skip
    assert any("scheduler_config=" in note and "is not a literal" in note for note in deployment.notes)


def test_options_of_tritons_backend(tmp_path: Path) -> None:
    config = tmp_path / "config.pbtxt"
    fraction = 'key: "kv_cache_free_gpu_mem_fraction"\n  value: { string_value: "0.5" }'
    policy = 'key: "batch_scheduler_policy" value: { string_value: "max_utilization" }'
    template = 'key: "gpt_model_path" value: { string_value: "${engine_dir}" }'
    texts = ["max_batch_size: 32", *(f"parameters: {{ {text} }}" for text in (fraction, policy, template))]
    config.write_text("\n".join(texts))
    assert read(f"{SERVE} --config {config}") == {
        FRACTION: 0.5, "scheduler_config.capacity_scheduler_policy": "MAX_UTILIZATION", "max_batch_size": 32,
    }  # fmt: skip


def test_a_cache_group_in_the_file_replaces_the_command_lines_in_old_releases() -> None:
    text = f"{SERVE} --kv_cache_free_gpu_memory_fraction 0.7 --config"
    words = [*text.split(), "{kv_cache_config: {dtype: fp8}}"]
    old, new = parse_command(words, engine="trtllm==1.1.0"), parse_command(words, engine="trtllm==1.2.1")
    assert FRACTION not in old.flags and any("is lost in this release" in note for note in old.notes)
    assert new.flags[FRACTION] == 0.7
    again = parse_command(to_command(new), engine="trtllm==1.1.0")  # written so that no release loses it
    assert again.flags == new.flags
