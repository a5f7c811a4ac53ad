"""The GPUs that manifests, jobs, programs and posts name."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomph.answers.plan import with_gpus
from oomph.commands import named_gpus, read_deployments
from oomph.ir.deployment import Deployment
from oomph.sources.gpu import parse_gpus

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec:
  {place}
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.21.0
    args: [--model, Qwen/Qwen3-8B]
    resources: {{limits: {{nvidia.com/gpu: {count}}}}}
"""
AFFINITY = (
    "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: "
    "[{key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-L40S, NVIDIA-H100-80GB-HBM3]}]}]}}}"
)


def only(text: str) -> Deployment:
    (entry,) = read_deployments([text + " "])
    assert entry.deployment is not None
    return entry.deployment


@pytest.mark.parametrize(
    ("place", "count", "card", "number"),
    [
        ("nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}", 8, "H100 SXM", 8),
        ("nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S-SHARED}", 1, "L40S", 1),
        ("nodeSelector: {cloud.google.com/gke-accelerator: nvidia-tesla-a100}", 2, "A100 SXM 40GB", 2),
        ("nodeSelector: {node.kubernetes.io/instance-type: g5.12xlarge}", 1, "A10G", 1),
        ("nodeSelector: {node.kubernetes.io/instance-type: Standard_NC24ads_A100_v4}", 1, "A100 PCIe 80GB", 1),
        (AFFINITY, 4, "L40S", 4),
    ],
)
def test_a_pod_names_its_card(place: str, count: int, card: str, number: int) -> None:
    gpus = with_gpus(only(POD.format(place=place, count=count)), None).gpus
    assert [gpu.name for gpu in gpus] == [card] * number


def test_what_the_user_says_wins() -> None:
    deployment = only(POD.format(place="nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}", count=1))
    assert with_gpus(deployment, "H200").gpus[0].name == "H200"


def test_choices_are_planned_on_the_smallest() -> None:
    deployment = only(POD.format(place=AFFINITY, count=1))
    assert any("planned on NVIDIA-L40S, the smallest" in note for note in deployment.notes)


@pytest.mark.parametrize(
    ("resources", "gpus"),
    [
        ("accelerators: H100:8", "H100:8"),
        ("accelerators: {A100:8, A100-80GB:8}", "A100 SXM 40GB:8"),
        ("accelerators: {L4: 1, A10G: 1}", "L4:1"),
        ("any_of: [{accelerators: H100:2}, {accelerators: L40S:2}]", "L40S:2"),
        ("instance_type: p5.48xlarge", "p5.48xlarge"),
    ],
)
def test_skypilot(resources: str, gpus: str) -> None:
    deployment = only(f"resources:\n  {resources}\nrun: |\n  vllm serve Qwen/Qwen3-8B\n")
    assert deployment.gpu_name == gpus
    assert deployment.gpu_count == len(parse_gpus(gpus))


@pytest.mark.parametrize(
    ("text", "gpus", "number"),
    [
        ("#SBATCH --gres=gpu:h100:4\n", "4x h100", 4),
        ("#SBATCH --gpus-per-node=2\n", "", 2),
        ("#SBATCH --gres=gpu:bigmem:2\n", "", 2),
        ('instance_type="ml.g5.12xlarge"', "ml.g5.12xlarge", 0),
        ('@app.function(gpu="H100:2")', "2x H100", 0),
        ("gpu=modal.gpu.A100(size='80GB', count=2)", "2x A100 80GB", 0),
        ('a: "g5.xlarge"\nb: "p4d.24xlarge"', "", 0),
        ('# gpu="H100"', "", 0),
    ],
)
def test_declared(text: str, gpus: str, number: int) -> None:
    assert named_gpus.declared(text)[:2] == (gpus, number)


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("I have two RTX 3090s in my box", "2x RTX 3090"),
        ("on my 4090 it dies", "RTX 4090"),
        ("GPU: NVIDIA GeForce RTX 5070 Ti x2", "2x RTX 5070 Ti"),
        ("a single H100 80GB", "H100 SXM"),
        ("8x H200, and each H200 has 141 GB", "8x H200"),
        ("the 4090 is faster than my 3090", ""),
        ("it used 3090 MiB and 4090 tokens", ""),
        ("--max-model-len 4096 --port 3080", ""),
        ("A100 could be anything", ""),
        ("4个NVIDIA GeForce RTX 4090/24564MiB", "4x RTX 4090"),
        ("no card at all", ""),
    ],
)
def test_mentioned(text: str, gpus: str) -> None:
    assert named_gpus.mentioned(text) == gpus


def test_a_mention_counts_only_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = only("On my RTX 4090 I run\n\nvllm serve Qwen/Qwen3-8B\n")
    assert deployment.gpu_mention == "RTX 4090" and not deployment.gpu_name
    monkeypatch.setattr("oomph.sources.gpu.live_gpu_here", lambda: False)
    planned = with_gpus(deployment, None)
    assert planned.gpus[0].name == "RTX 4090" and "the text speaks of" in planned.notes[-1]


def test_a_remark_says_what_a_file_runs_on(tmp_path: Path) -> None:
    text = "# oomph: gpu = 2x L40S\nvllm serve Qwen/Qwen3-8B &\n# oomph: gpu = H100\nvllm serve Qwen/Qwen3-32B\n"
    (tmp_path / "start.sh").write_text(text)
    entries = read_deployments([str(tmp_path / "start.sh")])
    assert [entry.deployment.gpu_name for entry in entries if entry.deployment] == ["2x L40S", "H100"]
