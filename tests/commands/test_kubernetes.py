import pytest

from oomph.commands import parse_command, parse_text
from oomph.errors import CommandError

DEPLOYMENT = """
apiVersion: v1
kind: Service
metadata: {name: mistral}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: mistral-7b}
spec:
  template:
    spec:
      containers:
      - name: mistral
        image: vllm/vllm-openai:v0.21.0
        command: ["/bin/sh", "-c"]
        args: ["vllm serve $(MODEL) --enable-chunked-prefill --max_num_batched_tokens 1024 --api-key $KEY"]
        env:
        - {name: MODEL, value: mistralai/Mistral-7B-Instruct-v0.3}
        - {name: VLLM_KV_CACHE_LAYOUT, value: HND}
        - name: KEY
          valueFrom: {secretKeyRef: {name: s, key: token}}
        resources:
          limits: {cpu: "10", nvidia.com/gpu: "2"}
"""

WORKERS = """
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: vllm}
spec:
  leaderWorkerTemplate:
    leaderTemplate:
      spec:
        containers:
        - name: leader
          image: docker.io/vllm/vllm-openai:v0.20.2
          command: [sh, -c, "bash multi-node-serving.sh leader; python3 -m vllm.entrypoints.openai.api_server
            --port 8080 --model meta-llama/Meta-Llama-3.1-405B-Instruct -tp 8 --pipeline_parallel_size 2"]
          resources: {limits: {nvidia.com/gpu: 8}}
"""


def test_a_deployment():
    (item,) = parse_text(DEPLOYMENT).items()
    name, d = item
    assert name == "Deployment mistral-7b/mistral"
    assert d.model == "mistralai/Mistral-7B-Instruct-v0.3"
    assert d.flags["max_num_batched_tokens"] == 1024 and d.flags["enable_chunked_prefill"] is True
    assert d.environment == {"VLLM_KV_CACHE_LAYOUT": "HND"}
    assert d.gpu_count == 2 and d.engine.version == "0.21.0"


def test_a_leader_of_workers():
    (d,) = parse_text(WORKERS).values()
    assert d.model == "meta-llama/Meta-Llama-3.1-405B-Instruct" and d.gpu_count == 8
    assert d.flags == {"port": 8080, "tensor_parallel_size": 8, "pipeline_parallel_size": 2}


def test_a_pod_with_args_alone(tmp_path):
    path = tmp_path / "pod.yaml"
    path.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n"
        "    image: vllm/vllm-openai:v0.21.0\n    args: [--model, org/m, --gpu-memory-utilization, '0.9']\n"
    )
    d = parse_command([str(path)])
    assert d.model == "org/m" and d.flags == {"gpu_memory_utilization": 0.9}


@pytest.mark.parametrize("word", ["$(MODEL)", "${MODEL}"])
def test_what_is_asked_for_can_be_set(word, tmp_path):
    path = tmp_path / "pod.yaml"
    path.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n"
        "    image: vllm/vllm-openai:v0.21.0\n    env: [{name: MODEL, valueFrom: {secretKeyRef: {name: s, key: m}}}]\n"
        f"    args: [--model, '{word}']\n"
    )
    with pytest.raises(CommandError, match="--set MODEL="):
        parse_command([str(path)])
    assert parse_command([str(path)], outside={"MODEL": "org/m"}).model == "org/m"


WORKFLOW = """
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
metadata: {name: w}
spec:
  templates:
    - name: main
      steps:
        - - name: one
            template: serve
            arguments: {parameters: [{name: model, value: org/first}]}
          - name: two
            template: serve
            arguments: {parameters: [{name: model, value: org/second}]}
    - name: serve
      inputs: {parameters: [{name: model}, {name: len, default: "4096"}]}
      script:
        image: vllm/vllm-openai:v0.21.0
        command: [bash]
        source: vllm serve {{inputs.parameters.model}} --max-model-len {{inputs.parameters.len}}
"""


def test_a_parameter_with_several_values_is_asked_for(tmp_path):
    path = tmp_path / "workflow.yaml"
    path.write_text(WORKFLOW)
    with pytest.raises(CommandError, match="--set model="):
        parse_command([str(path)])
    deployment = parse_command([str(path)], outside={"model": "org/second"})
    assert (deployment.model, deployment.flags) == ("org/second", {"max_model_len": 4096})


def test_json_manifests():
    pod = '{"containers": [{"image": "vllm/vllm-openai:v0.21.0", "args": ["org/m"]}]}'
    text = f'{{"apiVersion": "v1", "kind": "Pod", "spec": {pod}}}'
    (d,) = parse_text(text).values()
    assert d.model == "org/m"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("apiVersion: v1\nkind: Pod\nspec: {containers: [{image: nginx}]}", "no serve command"),
        ("apiVersion: v1\nkind: Pod\nspec: {containers: [{image: vllm, args: --model m}]}", "are lists of strings"),
        ("apiVersion: v1\nkind: Pod\nspec: {containers: [{image: vllm, args: [$(M)]}]}", r"the model is '\$\(M\)'"),
        ("apiVersion: v1\nkind: Pod\nspec: [", "is not YAML"),
    ],
)
def test_refusals(text, sentence):
    with pytest.raises(CommandError, match=sentence):
        parse_text(text)
