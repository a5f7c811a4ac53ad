"""A RayService of KubeRay that serves a deployment with Ray Serve LLM.

Fields as their documentation gives them: docs.ray.io, "Serve LLM: configuration reference" (LLMConfig), and KubeRay's
"RayService quickstart" (ray.io/v1: serveConfigV2, rayClusterConfig).
"""

from typing import Any

from oomph.emit.kubernetes import dump_all, object_name, pod_of
from oomph.emit.resources import Host
from oomph.emit.yaml_text import dump
from oomph.engines.registry import engine_of
from oomph.ir import Plan
from oomph.units import cdiv

_HEAD_MEMORY = "8Gi"  # assumed: the head runs Ray's own services only


def ray_service(plan: Plan, host: Host, per_node: int) -> str:
    deployment = plan.deployment
    nodes = cdiv(len(plan.ranks), per_node)
    gpus = cdiv(len(plan.ranks), nodes)
    start = engine_of(deployment).container(deployment)
    name = object_name(deployment)
    image = {"name": "ray-worker", "image": start.image, "command": [], "args": []}
    worker = pod_of(plan, host, gpus, image)
    head: dict[str, Any] = {
        "containers": [
            {
                "name": "ray-head",
                "image": start.image,
                "ports": [{"name": "serve", "containerPort": 8000}, {"name": "gcs", "containerPort": 6379}],
                "resources": {"limits": {"memory": _HEAD_MEMORY}, "requests": {"memory": _HEAD_MEMORY, "cpu": "2"}},
            }
        ]
    }
    group = {
        "groupName": "gpu", "replicas": nodes, "minReplicas": nodes, "maxReplicas": nodes,
        "rayStartParams": {"num-gpus": str(gpus)}, "template": {"spec": worker},
    }  # fmt: skip
    manifest = {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": name},
        "spec": {
            "serveConfigV2": dump(serve_config(plan)),
            "rayClusterConfig": {
                "headGroupSpec": {"rayStartParams": {"num-cpus": "0"}, "template": {"spec": head}},
                "workerGroupSpecs": [group],
            },
        },
    }
    return dump_all(host.reasons(), [manifest])


def serve_config(plan: Plan) -> dict[str, Any]:
    deployment = plan.deployment
    flags = {k: v for k, v in deployment.flags.items() if k not in ("port", "host", "distributed_executor_backend")}
    model: dict[str, Any] = {
        "model_loading_config": {"model_id": object_name(deployment), "model_source": deployment.model},
        "engine_kwargs": flags,
        "deployment_config": {"autoscaling_config": {"min_replicas": 1, "max_replicas": 1}},
    }
    if deployment.environment:
        model["runtime_env"] = {"env_vars": dict(deployment.environment)}
    return {
        "applications": [
            {
                "name": "llm",
                "route_prefix": "/",
                "import_path": "ray.serve.llm:build_openai_app",
                "args": {"llm_configs": [model]},
            }
        ]
    }
