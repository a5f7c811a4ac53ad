"""Manifests of twenty deployments: valid by Kubernetes' own schemas and the documented fields of the others, and read
back as the deployment that they were written for."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from oomph.answers.plan import plan
from oomph.commands import parse_text
from oomph.emit import emit
from oomph.ir.plan import Plan

VERSION = "1.30"  # of the schemas
# (command, GPUs, release, forms)
ONE = ("kubernetes", "lws", "rayservice")
MANY = ("lws", "rayservice")
CASES = (
    ("vllm serve Qwen/Qwen3-0.6B", "RTX 4090", "0.32.0", ONE),
    ("vllm serve Qwen/Qwen3-8B --max-model-len 8192", "RTX 4090", "0.28.0", ONE),
    ("vllm serve Qwen/Qwen3-8B -tp 2 --max-model-len 8192 --max-num-seqs 4", "2x RTX 5070 Ti", "0.21.0", ONE),
    ("vllm serve Qwen/Qwen3-8B --kv-cache-dtype fp8 --max-model-len 16384", "L40S", "0.30.0", ONE),
    ("vllm serve Qwen/Qwen3-32B -tp 2 --max-model-len 16384", "2x H100", "0.32.0", ONE),
    ("vllm serve openai/gpt-oss-120b --max-model-len 65536", "H100", "0.32.0", ONE),
    ("vllm serve openai/gpt-oss-20b --enforce-eager", "RTX 4090", "0.26.0", ONE),
    ("vllm serve google/gemma-3-27b-it -tp 2 --max-model-len 8192 --language-model-only", "2x H100", "0.32.0", ONE),
    ("vllm serve Qwen/Qwen3-30B-A3B-FP8 --enable-expert-parallel -tp 2 --max-model-len 8192", "2x L40S", "0.32.0", ONE),
    ("vllm serve Qwen/Qwen3-8B --cpu-offload-gb 4 --max-model-len 4096", "RTX 4090", "0.21.0", ONE),
    ("vllm serve meta-llama/Llama-3.3-70B-Instruct -tp 4 --max-model-len 8192", "4x H100", "0.32.0", ONE),
    ("VLLM_LOGGING_LEVEL=DEBUG vllm serve Qwen/Qwen3-8B --max-model-len 4096", "L40S", "0.32.0", ONE),
    ("vllm serve Qwen/Qwen3-235B-A22B -tp 8 --max-model-len 8192", "8x H100", "0.32.0", ONE),
    ("vllm serve deepseek-ai/DeepSeek-V3 -tp 8 -pp 2 --nnodes 2 --max-model-len 16384", "2x(8x H100)", "0.32.0", MANY),
    ("vllm serve meta-llama/Meta-Llama-3.1-405B -tp 8 -pp 2 --nnodes 2 --max-model-len 8192", "2x(8x H100)", "0.28.0",
     MANY),
    ("vllm serve deepseek-ai/DeepSeek-V3.2 -tp 8 -pp 2 --nnodes 2 --max-model-len 8192", "2x(8x H200)", "0.32.0", MANY),
    ("vllm serve Qwen/Qwen3-235B-A22B -tp 4 -pp 2 --nnodes 2 --max-model-len 8192", "2x(4x H200)", "0.32.0", MANY),
    ("vllm serve meta-llama/Llama-3.3-70B-Instruct -tp 2 -pp 2 --nnodes 2 --max-model-len 8192", "2x(2x A100 80GB)",
     "0.30.0", MANY),
    ("vllm serve Qwen/Qwen3-32B -tp 1 -pp 2 --nnodes 2 --max-model-len 8192 --enforce-eager", "2x(1x H100)", "0.32.0",
     MANY),
    ("vllm serve openai/gpt-oss-120b -tp 2 -pp 2 --nnodes 2 --max-model-len 32768", "2x(2x L40S)", "0.32.0", MANY),
)  # fmt: skip
# leaderworkerset.sigs.k8s.io, API reference v1; docs.ray.io, RayService quickstart and LLMConfig's reference
LWS_TEMPLATE = {"leaderTemplate", "workerTemplate", "size", "restartPolicy"}
RAY_GROUP = {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"}
LLM_CONFIG = {
    "model_loading_config", "engine_kwargs", "accelerator_type", "placement_group_config", "deployment_config",
    "runtime_env",
}  # fmt: skip
NODE_FLAGS = {"nnodes", "master_addr", "node_rank", "headless", "distributed_executor_backend"}


def planned(case: tuple[str, str, str, tuple[str, ...]]) -> Plan:
    command, gpu, version, _ = case
    foreseen = plan(command, gpu=gpu, engine=f"vllm=={version}", advise=False)
    assert foreseen.fits, foreseen.verdict
    return foreseen


def pods_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    spec = document["spec"]
    if document["kind"] == "Deployment":
        return [spec["template"]["spec"]]
    if document["kind"] == "LeaderWorkerSet":
        template = spec["leaderWorkerTemplate"]
        return [template["leaderTemplate"]["spec"], template["workerTemplate"]["spec"]]
    if document["kind"] == "RayService":
        cluster = spec["rayClusterConfig"]
        return [group["template"]["spec"] for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]
    return []


def check(document: dict[str, Any], nodes: int) -> None:
    """Kubernetes' own kinds and every pod by the published schemas; the others by their documented fields."""
    validate = pytest.importorskip("kubernetes_validate").validate
    if document["kind"] in ("Deployment", "Service"):
        validate(document, VERSION, strict=True)
    for pod in pods_of(document):
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": pod}
        validate(manifest, VERSION, strict=True)
    if document["kind"] == "LeaderWorkerSet":
        assert document["apiVersion"] == "leaderworkerset.x-k8s.io/v1"
        assert set(document["spec"]) <= {"replicas", "leaderWorkerTemplate", "rolloutStrategy", "startupPolicy"}
        template = document["spec"]["leaderWorkerTemplate"]
        assert set(template) <= LWS_TEMPLATE and template["size"] == nodes
    if document["kind"] == "RayService":
        assert document["apiVersion"] == "ray.io/v1"
        assert set(document["spec"]) == {"serveConfigV2", "rayClusterConfig"}
        for group in document["spec"]["rayClusterConfig"]["workerGroupSpecs"]:
            assert set(group) <= RAY_GROUP and group["replicas"] == nodes
        for application in yaml.safe_load(document["spec"]["serveConfigV2"])["applications"]:
            assert application["import_path"] == "ray.serve.llm:build_openai_app"
            assert all(set(config) <= LLM_CONFIG for config in application["args"]["llm_configs"])


@pytest.mark.parametrize("case", CASES, ids=[case[0].split("serve ")[1][:40] for case in CASES])
def test_manifests_are_valid_and_read_back(case: tuple[str, str, str, tuple[str, ...]]) -> None:
    foreseen = planned(case)
    for form in case[3]:
        text = emit(foreseen, form)
        for document in yaml.safe_load_all(text):
            check(document, 2 if case[3] is MANY else 1)
        deployments = parse_text(text, name="manifest.yaml")
        assert deployments
        for again in deployments.values():
            assert again.model == foreseen.deployment.model
            flags = {k: v for k, v in foreseen.deployment.flags.items() if k not in NODE_FLAGS}
            assert {k: v for k, v in again.flags.items() if k not in NODE_FLAGS} == flags
            assert again.engine.version == foreseen.deployment.engine.version
            wanted = foreseen.deployment.environment.get("VLLM_LOGGING_LEVEL")
            assert again.environment.get("VLLM_LOGGING_LEVEL") == wanted


def test_there_are_twenty() -> None:
    assert len(CASES) == 20


def test_commands_for_every_node_read_back() -> None:
    foreseen = planned(CASES[15])
    lines = emit(foreseen, "nodes").splitlines()
    serves = [line for line in lines if line.startswith("vllm serve")]
    assert len(serves) == 3 and sum("--headless" in line for line in serves) == 1
    for line in serves:
        (again,) = parse_text(line.partition("   #")[0], name="").values()
        assert again.flags["tensor_parallel_size"] == 8 and again.flags["pipeline_parallel_size"] == 2
    assert any(line.startswith("ray start --head") for line in lines)


def test_a_layout_over_nodes_is_refused_where_vllm_refuses_it() -> None:
    command = "vllm serve deepseek-ai/DeepSeek-V3.2 -tp 16 --max-model-len 32768"
    alone = plan(command, gpu="2x(8x H200)", advise=False)
    assert alone.verdict.stage == "other" and "in this node" in alone.verdict.message
    ray = plan(f"{command} --distributed-executor-backend ray", gpu="2x(8x H200)", advise=False)
    assert ray.fits and any("keeps it inside one" in note for note in ray.warnings)


def test_the_limit_of_a_manifest_counts() -> None:
    text = emit(planned(CASES[1]), "kubernetes")
    (deployment,) = parse_text(text, name="manifest.yaml").values()
    assert deployment.memory_limit == 12 << 30  # the upper end of what two processes take
    small = text.replace("memory: 12Gi", "memory: 2Gi")
    (deployment,) = parse_text(small, name="manifest.yaml").values()
    found = plan(deployment, gpu="RTX 4090", advise=False)
    assert found.verdict.stage == "host_ram" and "the container's limit" in found.verdict.message
