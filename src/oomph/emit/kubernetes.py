"""What Kubernetes starts: a Deployment with its Service, a pod, a claim of cards, a LeaderWorkerSet over nodes."""

import re
from typing import Any

from msgspec.structs import replace

from oomph.emit.docker import CACHE, Mounted, is_amd, mounted
from oomph.emit.resources import Host, card_bytes
from oomph.emit.yaml_text import dump
from oomph.engines.registry import engine_of
from oomph.errors import CommandError
from oomph.ir import Deployment, Device, Plan
from oomph.units import GIB, cdiv


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


def pod(plan: Plan, host: Host) -> str:
    """One pod, as a test or a job starts it."""
    return dump_all(host.reasons(), [pod_manifest(plan, host)])


def pod_manifest(plan: Plan, host: Host) -> dict[str, Any]:
    model = mounted(plan.deployment)
    plan = replace(plan, deployment=model.deployment)
    name = object_name(plan.deployment)
    start = engine_of(plan.deployment).container(plan.deployment)
    words = [*start.entry_point, *start.arguments]
    container = _container(plan, host, len(plan.ranks), words, probes=True)
    metadata = {"name": name, "labels": {"app.kubernetes.io/name": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _pod(plan, host, container, model)}


def inference_service(plan: Plan, host: Host) -> str:
    """KServe's InferenceService with a container of its own (kserve.github.io, "custom predictor")."""
    whole = pod_manifest(plan, host)
    spec = whole["spec"]
    container = {**spec["containers"][0], "name": "kserve-container"}
    predictor = {"minReplicas": 1, "maxReplicas": 1, **spec, "containers": [container]}
    manifest = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {**whole["metadata"], "annotations": {"serving.kserve.io/deploymentMode": "RawDeployment"}},
        "spec": {"predictor": predictor},
    }
    return dump_all(host.reasons(), [manifest])


def resource_claim(plan: Plan, host: Host) -> str:
    """A claim of Dynamic Resource Allocation for cards with the memory that the plan needs, and a pod that has it.

    Attributes as NVIDIA's driver publishes them (gpu.nvidia.com: capacity memory); resource.k8s.io/v1 since 1.34.
    """
    if any(gpu.vendor != "nvidia" for gpu in plan.deployment.gpus):
        raise CommandError("a claim is written for NVIDIA's cards: the pod form asks for others by their number")
    name, gib = object_name(plan.deployment), cdiv(card_bytes(plan), GIB)
    memory = f"device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('{gib}Gi')) >= 0"
    request = {
        "deviceClassName": "gpu.nvidia.com",
        "allocationMode": "ExactCount",
        "count": len(plan.ranks),
        "selectors": [{"cel": {"expression": memory}}],
    }
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpus", "exactly": request}]}}},
    }
    claimed = pod_manifest(plan, host)
    spec, container = claimed["spec"], claimed["spec"]["containers"][0]
    for amounts in container["resources"].values():
        amounts.pop("nvidia.com/gpu")
    spec.pop("nodeSelector", None)
    container["resources"]["claims"] = [{"name": "gpus"}]
    spec["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": name}]
    reasons = [*host.reasons(), f"each card: {gib} GiB, the stage that decides at the end of its interval"]
    return dump_all(reasons, [template, claimed])


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
    resource = "amd.com/gpu" if is_amd(deployment) else "nvidia.com/gpu"
    amounts = {
        resource: str(gpus), "memory": f"{host.memory_gib}Gi", "ephemeral-storage": f"{host.disk_gib}Gi",
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
        "resources": {
            "limits": {**amounts, "memory": f"{host.limit_gib}Gi"},
            "requests": {**amounts, "cpu": str(host.cpus)},
        },
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
