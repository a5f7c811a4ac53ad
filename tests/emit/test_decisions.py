"""Where decisions are made: pods, KServe, claims of cards, routers, alerts and clouds, for twenty deployments each.

Kubernetes' kinds are validated by its own schemas. llama-swap, aibrix, KServe and SkyPilot: what their schemas say of
the fields that are written (config-schema.json; model.aibrix.ai_modelclaims.yaml; kserve 0.21's models; skypilot 0.14's
get_task_schema), as tables here; `tools/check_emitted.py` validates by the projects' own files and code, outside CI.
"""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
import yaml

from oomph.answers.plan import plan
from oomph.commands import parse_text
from oomph.emit import FORMS, emit
from oomph.emit.resources import card_bytes
from oomph.emit.routers import CARD_MEMORY
from oomph.engines.registry import engine_of
from oomph.errors import CommandError
from oomph.ir.plan import Plan
from oomph.units import GIB

CASES = (
    ("vllm serve Qwen/Qwen3-0.6B", "RTX 4090"),
    ("vllm serve Qwen/Qwen3-8B --max-model-len 8192", "RTX 4090"),
    ("vllm serve Qwen/Qwen3-8B -tp 2 --max-model-len 8192 --max-num-seqs 4", "2x RTX 5070 Ti"),
    ("vllm serve Qwen/Qwen3-8B --kv-cache-dtype fp8 --max-model-len 16384", "L40S"),
    ("vllm serve Qwen/Qwen3-32B -tp 2 --max-model-len 16384", "2x H100"),
    ("vllm serve openai/gpt-oss-120b --max-model-len 65536", "H100"),
    ("vllm serve openai/gpt-oss-20b --enforce-eager", "RTX 4090"),
    ("vllm serve google/gemma-3-27b-it -tp 2 --max-model-len 8192 --language-model-only", "2x H100"),
    ("vllm serve Qwen/Qwen3-30B-A3B-FP8 --enable-expert-parallel -tp 2 --max-model-len 8192", "2x L40S"),
    ("vllm serve meta-llama/Llama-3.3-70B-Instruct -tp 4 --max-model-len 8192", "4x H100"),
    ("VLLM_LOGGING_LEVEL=DEBUG vllm serve Qwen/Qwen3-8B --max-model-len 4096", "L40S"),
    ("vllm serve Qwen/Qwen3-235B-A22B -tp 8 --max-model-len 8192", "8x H100"),
    ("vllm serve Qwen/Qwen3-4B --max-model-len 8192 --gpu-memory-utilization 0.8", "L4"),
    ("vllm serve Qwen/Qwen3-14B --max-model-len 8192", "A100 80GB"),
    ("vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 16384 --max-num-seqs 32", "A100 80GB"),
    ("python -m sglang.launch_server --model-path Qwen/Qwen3-8B", "RTX 4090"),
    ("python -m sglang.launch_server --model-path Qwen/Qwen3-32B --tp 2", "2x H100"),
    ("python -m sglang.launch_server --model-path Qwen/Qwen3-30B-A3B --context-length 8192", "H100"),
    ("python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct", "L40S"),
    ("python -m sglang.launch_server --model-path openai/gpt-oss-20b --mem-fraction-static 0.8", "H100"),
)
NEW = ("pod", "kserve", "dra", "llama-swap", "aibrix", "prometheus", "skypilot")


def fields(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """The schema of an object with these fields and no other."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


DRA_SCHEMAS = "1.34"  # resource.k8s.io/v1 is there since
PREDICTOR = {"containers", "volumes", "nodeSelector", "minReplicas", "maxReplicas"}
# llama-swap's config-schema.json and the openAPIV3Schema of aibrix's ModelClaim, of the fields that are written; no
# other may be: kubectl refuses a field that a definition does not have.
SWAP = fields(
    {
        "healthCheckTimeout": {"type": "integer", "minimum": 15},
        "models": {
            "type": "object",
            "additionalProperties": fields(
                {
                    "cmd": {"type": "string", "minLength": 1},
                    "checkEndpoint": {"type": "string", "pattern": "^/.*$|^none$"},
                    "ttl": {"type": "integer", "minimum": -1},
                    "env": {"type": "array", "items": {"type": "string", "pattern": "^[A-Z_][A-Z0-9_]*=.*$"}},
                    "metadata": {"type": "object"},
                },
                "cmd",
            ),
        },
    },
    "models",
)
TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
CLAIM = fields(
    {
        "apiVersion": {"const": "model.aibrix.ai/v1alpha1"},
        "kind": {"const": "ModelClaim"},
        "metadata": fields({"name": {"type": "string"}, "annotations": TEXTS}, "name"),
        "spec": fields(
            {
                "artifactURL": {"type": "string"},
                "engine": {"enum": ["vllm", "sglang"]},
                "engineConfig": fields({"args": TEXTS}),
                "modelName": {"type": "string"},
                "podSelector": fields({"matchLabels": TEXTS}),
                "replicas": {"type": "integer", "minimum": 1, "maximum": 1},
            },
            "artifactURL",
            "podSelector",
        ),
    },
    "spec",
)
TASK = {"name", "num_nodes", "resources", "envs", "secrets", "run"}
RESOURCES = {"accelerators", "memory", "cpus", "disk_size", "image_id", "ports"}


@pytest.fixture(scope="module", params=CASES, ids=[case[0][-40:] for case in CASES])
def foreseen(request: Any) -> Plan:
    command, gpu = request.param
    made = plan(command, gpu=gpu, advise=False)
    assert made.fits, made.verdict
    return made


def documents(foreseen: Plan, form: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(emit(foreseen, form)))


def validate(document: dict[str, Any], version: str = DRA_SCHEMAS) -> None:
    pytest.importorskip("kubernetes_validate").validate(document, version, strict=True)


def gib(quantity: str) -> int:
    return int(quantity.removesuffix("Gi"))


def test_pods_ask_for_the_estimate_and_are_limited_by_its_end(foreseen: Plan) -> None:
    (pod,) = documents(foreseen, "pod")
    validate(pod)
    resources = pod["spec"]["containers"][0]["resources"]
    request, limit = (gib(resources[kind]["memory"]) for kind in ("requests", "limits"))
    assert foreseen.host is not None
    lasting = [part for part in foreseen.host.parts if not part.reclaimable]
    assert sum(part.bytes for part in lasting) <= request * GIB <= limit * GIB
    assert limit * GIB >= sum(part.high for part in lasting) > (limit - 1) * GIB


def test_kserve_has_the_pods_container(foreseen: Plan) -> None:
    (service,) = documents(foreseen, "kserve")
    (pod,) = documents(foreseen, "pod")
    predictor = service["spec"]["predictor"]
    assert service["apiVersion"] == "serving.kserve.io/v1beta1" and set(predictor) <= PREDICTOR
    assert predictor["containers"][0] == {**pod["spec"]["containers"][0], "name": "kserve-container"}


def test_claims_ask_for_cards_that_are_large_enough(foreseen: Plan) -> None:
    template, pod = documents(foreseen, "dra")
    validate(template)
    validate(pod)
    request = template["spec"]["spec"]["devices"]["requests"][0]["exactly"]
    need = int(request["selectors"][0]["cel"]["expression"].partition("quantity('")[2].partition("Gi")[0])
    assert request["count"] == len(foreseen.ranks)
    assert (need - 1) * GIB < card_bytes(foreseen) <= foreseen.ranks[0].total_bytes
    assert pod["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] == template["metadata"]["name"]


def test_routers_get_the_command_and_the_cards_bytes(foreseen: Plan) -> None:
    (config,) = documents(foreseen, "llama-swap")
    ((_, entry),) = config["models"].items()
    jsonschema.validate(config, SWAP)
    assert entry["cmd"].endswith(" --port ${PORT}")
    assert len(entry["metadata"]["gpu_memory_mib"]) == len(foreseen.ranks)
    (claim,) = documents(foreseen, "aibrix")
    jsonschema.validate(claim, CLAIM)
    assert gib(claim["metadata"]["annotations"][CARD_MEMORY]) * GIB >= card_bytes(foreseen)


def test_alerts_name_the_engines_own_metrics(foreseen: Plan) -> None:
    (rules,) = documents(foreseen, "prometheus")
    expressions = [rule["expr"] for rule in rules["groups"][0]["rules"]]
    assert all(any(metric in text for text in expressions) for metric in engine_of(foreseen.deployment).usage_metrics)
    assert all(set(rule) == {"alert", "expr", "for", "labels", "annotations"} for rule in rules["groups"][0]["rules"])


def test_a_task_of_skypilot_reads_back(foreseen: Plan) -> None:
    text = emit(foreseen, "skypilot")
    task = yaml.safe_load(text)
    assert set(task) <= TASK and set(task["resources"]) <= RESOURCES
    assert sum(task["resources"]["accelerators"].values()) == len(foreseen.ranks)
    (again,) = parse_text(text, name="task.yaml").values()
    assert again.model == foreseen.deployment.model and again.flags == foreseen.deployment.flags


def test_there_are_twenty_and_every_form_is_somewhere() -> None:
    assert len(CASES) == 20 and set(NEW) <= set(FORMS)
    with pytest.raises(CommandError, match="not one of"):
        emit(plan("llama-server -hf unsloth/Qwen3-8B-GGUF:Q4_K_M", gpu="RTX 4090", advise=False), "kserve")
