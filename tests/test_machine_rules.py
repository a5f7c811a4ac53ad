"""Rules of the machine that a plan follows: limits of a manifest, Gaudi, DeepEP's buffers, replicas, host levers."""

from __future__ import annotations

from pathlib import Path

import pytest

import oomph
from oomph.answers.plan import plan
from oomph.facts.llamacpp.overhead import scores_copy
from oomph.facts.vllm.outside import low_latency_bytes
from oomph.sources.gpu import parse_gpus
from oomph.units import GIB, MIB

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {{name: chat}}
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.26.0
    args: ["--model", "Qwen/Qwen3-8B", "--max-model-len", "8192"]
    resources:
      limits: {{nvidia.com/gpu: 1, {resource}, memory: {memory}}}
"""


@pytest.mark.parametrize(
    ("resource", "size"),
    [
        ("nvidia.com/gpumem: 20000", 20000 * MIB), ("nvidia.com/gpumem-percentage: 50", 0.5),
        ("aliyun.com/gpu-mem: 24", 24 * GIB), ("volcano.sh/vgpu-memory: 30000", 30000 * MIB),
        ("nvidia.com/gpumem: 990000", 1.0), ("nvidia.com/gpumem: none", 1.0),
    ],
)  # fmt: skip
def test_a_manifest_limits_what_the_engine_sees_of_a_card(tmp_path: Path, resource: str, size: float) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(MANIFEST.format(resource=resource, memory="32Gi"))
    whole = plan("vllm serve Qwen/Qwen3-8B", gpu="A100 80GB", advise=False).ranks[0].total_bytes
    limited = plan(str(path), gpu="A100 80GB", advise=False)
    assert limited.ranks[0].total_bytes == pytest.approx(size * whole if size <= 1 else size, abs=1)


def test_a_memory_limit_is_compared_with_the_host_line(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(MANIFEST.format(resource="nvidia.com/gpumem: 60000", memory="2Gi"))
    refused = plan(str(path), gpu="A100 80GB", advise=False)
    assert (refused.verdict.outcome, refused.verdict.stage) == ("fails", "host_ram")


def test_gaudi_takes_its_shares_of_what_is_free_after_profiling() -> None:
    """vllm-gaudi's README: 79.16 GiB free, 0.5 of them usable, 0.4 of those for graphs: 23.75 GiB of KV cache."""
    command = "VLLM_GRAPH_RESERVED_MEM=0.4 vllm serve meta-llama/Llama-3.1-8B-Instruct --gpu-memory-utilization 0.5"
    term = plan(command, gpu="Gaudi 2", advise=False).ranks[0].terms["available_kv"]
    assert term.bytes == pytest.approx(0.5 * 0.6 * term.parts["free after profiling"], abs=2)
    eager = plan(command + " --enforce-eager", gpu="Gaudi 2", advise=False).ranks[0].terms["available_kv"]
    assert eager.bytes == pytest.approx(0.5 * eager.parts["free after profiling"], abs=2)


def test_the_low_latency_buffer_is_deepeps_own_hint() -> None:
    """csrc/config.hpp by hand for DeepSeek-V3: 256 tokens, hidden 7168, 256 experts."""
    message = max(16 + 2 * 7168, 56 * 4 + 2 * 7168)
    assert low_latency_bytes(256, 7168, 256) == 2 * (
        256 * 256 * (56 * 4 + 2 * 7168) + 256 * 256 * message + 1024
    )  # fmt: skip
    both = [
        plan(
            f"vllm serve deepseek-ai/DeepSeek-V3.2 -dp 8 --enable-expert-parallel --all2all-backend deepep_{kind}",
            gpu="8x H200", advise=False,
        ).ranks[0].terms["non_torch"].parts["DeepEP buffers"]
        for kind in ("low_latency", "high_throughput")
    ]  # fmt: skip
    assert both == [GIB + low_latency_bytes(256, 7168, 256), GIB]


def test_every_replica_has_processes_of_its_own() -> None:
    one, eight = (
        plan(f"vllm serve Qwen/Qwen3-8B -dp {count}", gpu=f"{count}x H100", advise=False).host for count in (1, 8)
    )
    assert one is not None and eight is not None
    assert eight.need_bytes == one.need_bytes // 2 * 9  # an API server, and an engine core for each replica


@pytest.mark.parametrize(
    ("command", "gpu", "ram", "change"),
    [
        ("vllm serve Qwen/Qwen3-8B --kv-offloading-size 128", "H100", "64GB", "--kv-offloading-size"),
        ("vllm serve Qwen/Qwen3-32B --cpu-offload-gb 40", "H100", "48GB", "--cpu-offload-gb"),
        ("llama-server -hf ggml-org/gpt-oss-120b-GGUF --n-cpu-moe 36 --no-mmap -c 8192", "RTX 4090", "32GB",
         "without --no-mmap"),
    ],
)  # fmt: skip
def test_what_fixes_a_host_without_memory_comes_from_the_judge(command: str, gpu: str, ram: str, change: str) -> None:
    refused = plan(command, gpu=gpu, ram=ram)
    assert refused.verdict.first_to_break == "host_ram" and refused.verdict.outcome != "fits"
    assert refused.advice is not None
    fixes = [judged.change.label for judged in refused.advice.fixes]
    assert any(label.startswith(change) for label in fixes)
    assert all("gpu-memory-utilization" not in judged.change.label for judged in refused.advice.helps)


def test_gpus_on_two_nodes_want_ray() -> None:
    refused = plan("vllm serve deepseek-ai/DeepSeek-V3.2 -tp 8 -pp 2", gpu="2x(8x H200)")
    assert refused.advice is not None
    assert [j.change.label for j in refused.advice.fixes] == ["--distributed-executor-backend ray"]


def test_a_long_prompt_without_flash_attention_is_a_risk() -> None:
    command = "llama-server -m Qwen2.5-72B-Instruct-Q4_K_M.gguf -ngl 99 -c 32000"
    old = plan(command, gpu="3x RX 7900 XTX", engine="llamacpp==b3488", advise=False)
    assert old.verdict.outcome == "at_risk" and "flash attention" in old.verdict.risk
    assert scores_copy(512, 32000, 64) == 2 * 512 * 32000 * 64


def test_a_host_without_memory_is_told_how_much_is_enough() -> None:
    refused = plan("vllm serve Qwen/Qwen3-0.6B", gpu="L4", ram="2GB")
    assert refused.advice is not None
    assert any("are enough even at the worst" in why for why in refused.advice.why) and not refused.advice.next_step


def test_fit_says_where_each_node_can_hold_a_replica() -> None:
    two = oomph.fit("Qwen/Qwen3-0.6B", "2x(1x L4)", context=2048, users=4)
    assert any("2 replicas with 2 users each" in note for note in two.notes)
    one = oomph.fit("Qwen/Qwen3-0.6B", "2x L4", context=2048, users=4)
    assert not any("replicas" in note for note in one.notes)


@pytest.mark.parametrize("text", ["2x(8x H200)", "2x 8x H200", "2 nodes of 8x H200"])
def test_nodes_are_read_however_they_are_written(text: str) -> None:
    gpus = parse_gpus(text)
    assert len(gpus) == 16 and {device.node for device in gpus} == {0, 1}


def test_two_services_share_a_spark() -> None:
    packed = oomph.pack(
        ["vllm serve Qwen/Qwen3-8B --gpu-memory-utilization 0.4 --max-model-len 8192",
         "vllm serve Qwen/Qwen3-Embedding-0.6B --gpu-memory-utilization 0.15"],
        gpu="GB10", solver="plain",
    )  # fmt: skip
    assert packed.outcome in ("fits", "at_risk", "close")
