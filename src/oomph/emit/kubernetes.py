"""A Deployment with its Service, and a LeaderWorkerSet where the GPUs are on several nodes."""

import re
from typing import Any

from msgspec.structs import replace

from oomph.emit.docker import CACHE, Mounted, mounted
from oomph.emit.resources import Host
from oomph.emit.yaml_text import dump
from oomph.engines.registry import engine_of
from oomph.errors import CommandError
from oomph.ir import Deployment, Device, Plan
from oomph.units import cdiv


def deployment(plan: Plan, host: Host) -> str:
    model = mounted(plan.deployment)
    plan = replace(plan, deployment=model.deployment)
    name = object_name(plan.deployment)
    labels = {"app.kubernetes.io/name": name}
    start = engine_of(plan.deployment).container(plan.deployment)
    words = [*start.entry_point, *start.arguments]
    pod = _pod(plan, host, _container(plan, host, len(plan.ranks), words, probes=True), model)
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},  # the new pod needs the GPUs of the old one
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    return dump_all(host.reasons(), [manifest, _service(plan, name, labels)])


def leader_worker_set(plan: Plan, host: Host, per_node: int) -> str:
    model = mounted(plan.deployment)
    plan = replace(plan, deployment=model.deployment)
    world = len(plan.ranks)
    nodes = cdiv(world, per_node)
    if world % nodes:
        raise CommandError(f"{world} GPUs cannot be spread evenly over {nodes} nodes of {per_node}")
    name, gpus = object_name(plan.deployment), world // nodes
    labels = {"app.kubernetes.io/name": name, "role": "leader"}
    leader, worker = engine_of(plan.deployment).node_commands(plan, nodes)
    template = {
        "size": nodes,
        "restartPolicy": "RecreateGroupOnPodRestart",
        "leaderTemplate": {
            "metadata": {"labels": labels},
            "spec": _pod(plan, host, _container(plan, host, gpus, leader, probes=True), model),
        },
        "workerTemplate": {
            "metadata": {"labels": {**labels, "role": "worker"}},
            "spec": _pod(plan, host, _container(plan, host, gpus, worker, probes=False), model),
        },
    }
    manifest = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name},
        "spec": {"replicas": 1, "leaderWorkerTemplate": template},
    }
    return dump_all(host.reasons(), [manifest, _service(plan, name, labels)])


def pod_of(plan: Plan, host: Host, gpus: int, container: dict[str, Any]) -> dict[str, Any]:
    """A pod of one container whose program the manifest does not name, with what the plan says it must have."""
    whole = _container(plan, host, gpus, [], probes=False)
    return _pod(plan, host, {**whole, **container}, mounted(plan.deployment))


def _container(plan: Plan, host: Host, gpus: int, words: list[str], *, probes: bool) -> dict[str, Any]:
    """`words`: a whole command; what of it is the image's entry point stands apart."""
    deployment = plan.deployment
    start = engine_of(deployment).container(deployment)
    shell = words[:1] == ["sh"]
    entry = 2 if shell else len(start.entry_point)
    amounts = {
        "nvidia.com/gpu": str(gpus), "memory": f"{host.memory_gib}Gi", "ephemeral-storage": f"{host.disk_gib}Gi",
    }  # fmt: skip
    token = {"secretKeyRef": {"name": "huggingface", "key": "token", "optional": True}}
    env: list[dict[str, Any]] = [
        {"name": "HF_TOKEN", "valueFrom": token},
        *[{"name": key, "value": value} for key, value in deployment.environment.items()],
    ]
    container: dict[str, Any] = {
        "name": deployment.engine.name,
        "image": start.image,
        "command": words[:entry],
        "args": words[entry:] if shell else [_escaped(word) for word in words[entry:]],
        "env": env,
        "resources": {"limits": amounts, "requests": {**amounts, "cpu": str(host.cpus)}},
        "volumeMounts": [{"name": "models", "mountPath": CACHE}],
    }
    if host.shm_gib:
        container["volumeMounts"].append({"name": "shm", "mountPath": "/dev/shm"})
    if probes:
        health = {"httpGet": {"path": start.health_path, "port": "http"}}
        container["ports"] = [{"name": "http", "containerPort": start.port}]
        container["startupProbe"] = {**health, "periodSeconds": 10, "failureThreshold": 180}
        container["readinessProbe"] = {**health, "periodSeconds": 5}
        container["livenessProbe"] = {**health, "periodSeconds": 30, "failureThreshold": 3}
    return container


def _escaped(word: str) -> str:
    """Kubernetes fills $(NAME) in; what is not one of its own variables must stay as it is."""
    return re.sub(r"\$(?!\(LWS_)", "$$$$", word)


def _pod(plan: Plan, host: Host, container: dict[str, Any], model: Mounted) -> dict[str, Any]:
    """A model of this machine is a folder of the node: it must be there on each."""
    volumes: list[dict[str, Any]] = [{"name": "models", "emptyDir": {}}]
    if model.folder:
        volumes = [{"name": "models", "hostPath": {"path": model.folder}}]
        container["volumeMounts"][0] = {"name": "models", "mountPath": model.place, "readOnly": True}
    if host.shm_gib:
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{host.shm_gib}Gi"}})
    pod: dict[str, Any] = {"containers": [container], "volumes": volumes}
    product = gpu_product(plan.deployment.gpus)
    if product:
        pod["nodeSelector"] = {"nvidia.com/gpu.product": product}
    return pod


def gpu_product(gpus: tuple[Device, ...]) -> str:
    """The label of NVIDIA's GPU feature discovery: the driver's name with dashes; "" where the cards differ."""
    names = {g.driver_name for g in gpus}
    return names.pop().replace(" ", "-") if len(names) == 1 and gpus[0].vendor == "nvidia" else ""


def _service(plan: Plan, name: str, labels: dict[str, str]) -> dict[str, Any]:
    port = engine_of(plan.deployment).container(plan.deployment).port
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": labels, "ports": [{"name": "http", "port": port, "targetPort": "http"}]},
    }


def object_name(deployment: Deployment) -> str:
    """RFC 1123: lower-case letters, digits and dashes, at most 63."""
    model = re.sub(r"[^a-z0-9]+", "-", deployment.model.rpartition("/")[2].lower()).strip("-")
    return f"{deployment.engine.name}-{model}"[:63].strip("-")


def dump_all(reasons: list[str], documents: list[dict[str, Any]]) -> str:
    head = "".join(f"# {reason}\n" for reason in reasons)
    return head + "---\n".join(map(dump, documents))
