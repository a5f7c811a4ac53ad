"""Resources that name a model and leave the container to an operator."""

from __future__ import annotations

from oomph.answers.plan import with_gpus
from oomph.commands import Entry, read_deployments

HEAD = "apiVersion: {version}\nkind: {kind}\nmetadata: {{name: qwen}}\nspec:\n"
LLM_INFERENCE_SERVICE = (
    HEAD.format(version="serving.kserve.io/v1alpha1", kind="LLMInferenceService")
    + """
  model: {uri: "hf://Qwen/Qwen3-32B", name: qwen}
  parallelism: {tensor: 2, expert: false}
  template:
    nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}
    containers:
    - name: main
      image: vllm/vllm-openai:v0.21.0
      env: [{name: VLLM_ADDITIONAL_ARGS, value: "--max-model-len 8192 --enforce-eager"}]
      resources: {limits: {nvidia.com/gpu: "2"}}
"""
)
RAY_SERVICE = (
    HEAD.format(version="ray.io/v1", kind="RayService")
    + """
  serveConfigV2: |
    applications:
    - name: llms
      import_path: ray.serve.llm:build_openai_app
      args:
        llm_configs:
        - model_loading_config: {model_id: small, model_source: Qwen/Qwen3-4B}
          engine_kwargs: {max_model_len: 8192, enable_prefix_caching: true}
          accelerator_type: A10G
        - model_loading_config: {model_id: Qwen/Qwen3-32B}
          engine_kwargs: {tensor_parallel_size: 2}
          accelerator_type: L40S
    - name: other
      import_path: code.serve:app
"""
)
VLLM_RUNTIME = (
    HEAD.format(version="production-stack.vllm.ai/v1alpha1", kind="VLLMRuntime")
    + """
  model: {modelURL: Qwen/Qwen3-8B, dtype: bfloat16, maxModelLen: 4096}
  vllmConfig: {enablePrefixCaching: true, tensorParallelSize: 1, extraArgs: ["--enforce-eager"], port: 8000}
  deploymentConfig:
    resources: {cpu: "10", gpu: "1"}
    image: {registry: docker.io, name: "lmcache/vllm-openai:2025-04-18"}
"""
)
LEADER_WORKER_SET = (
    HEAD.format(version="leaderworkerset.x-k8s.io/v1", kind="LeaderWorkerSet")
    + """
  leaderWorkerTemplate:
    size: 2
    leaderTemplate:
      spec:
        nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
        containers:
        - name: leader
          image: vllm/vllm-openai:v0.21.0
          command: [sh, -c, "ray start --head; vllm serve deepseek-ai/DeepSeek-R1 -tp 8 -pp 2"]
          resources: {limits: {nvidia.com/gpu: "8"}}
    workerTemplate:
      spec:
        containers:
        - name: worker
          image: vllm/vllm-openai:v0.21.0
          command: [sh, -c, "ray start --address=$LEADER --block"]
          resources: {limits: {nvidia.com/gpu: "8"}}
"""
)


def read(text: str) -> dict[str, Entry]:
    return {entry.name: entry for entry in read_deployments([text])}


def test_llm_inference_service() -> None:
    (entry,) = read(LLM_INFERENCE_SERVICE).values()
    assert entry.name == "LLMInferenceService qwen" and entry.deployment is not None
    deployment = with_gpus(entry.deployment, None)
    assert deployment.model == "Qwen/Qwen3-32B"
    assert deployment.flags == {"tensor_parallel_size": 2, "max_model_len": 8192, "enforce_eager": True}
    assert [gpu.name for gpu in deployment.gpus] == ["L40S", "L40S"]


def test_ray_service() -> None:
    entries = read(RAY_SERVICE)
    small, large = entries["RayService qwen/small"].deployment, entries["RayService qwen/Qwen/Qwen3-32B"].deployment
    assert small is not None and small.model == "Qwen/Qwen3-4B" and small.gpu_name == "A10G"
    assert small.flags == {"max_model_len": 8192, "enable_prefix_caching": True}
    assert large is not None and [gpu.name for gpu in with_gpus(large, None).gpus] == ["L40S", "L40S"]
    other = entries["RayService qwen/other"].error
    assert other is not None and "the Python of code.serve:app, which is not in this file" in other.message


def test_vllm_runtime() -> None:
    (entry,) = read(VLLM_RUNTIME).values()
    assert entry.deployment is not None and entry.deployment.model == "Qwen/Qwen3-8B"
    assert entry.deployment.flags["max_model_len"] == 4096 and entry.deployment.flags["enforce_eager"] is True
    assert entry.deployment.gpu_count == 1


def test_a_leader_with_its_workers_has_the_gpus_of_all_nodes() -> None:
    (entry,) = read(LEADER_WORKER_SET).values()
    assert entry.deployment is not None and entry.deployment.gpu_count == 16
    gpus = with_gpus(entry.deployment, None).gpus
    assert len(gpus) == 16 and {gpu.node for gpu in gpus} == {0, 1} and gpus[0].name == "H100 SXM"


def test_a_file_that_docker_compose_runs_in() -> None:
    text = "pull:\n\tdocker-compose exec -T ollama ollama pull qwen3:8b\n"
    (entry,) = read_deployments([f"# Makefile\nall: pull\n{text}".replace("\t", "")])
    assert entry.deployment is not None and entry.deployment.model == "qwen3:8b"


def test_a_model_that_nothing_sets_is_a_question_for_every_engine() -> None:
    for command in ("vllm serve $M", "llama-server -m $M", "ollama run $M", "sglang serve $M"):
        (entry,) = read_deployments([f"{command} \n"])
        assert entry.error is not None and "which nothing" in entry.error.message
