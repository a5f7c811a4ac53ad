"""A Deployment with its Service, and a LeaderWorkerSet where the GPUs are on several nodes."""

from __future__ import annotations

import re
from typing import Any

from oomph.emit.command import dump, words
from oomph.emit.docker import CACHE, PORT, image
from oomph.emit.resources import Host
from oomph.errors import CommandError
from oomph.facts.vllm.flags import options_of
from oomph.ir.hardware import Device
from oomph.ir.plan import Plan
from oomph.units import cdiv

RAY_PORT = 6379


def deployment(plan: Plan, host: Host) -> str:
    name = object_name(plan.deployment.model)
    labels = {"app.kubernetes.io/name": name}
    pod = _pod(plan, host, _container(plan, host, len(plan.ranks), words(plan.deployment), probes=True))
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
    return _dump(host.reasons(), [manifest, _service(name, labels)])


def leader_worker_set(plan: Plan, host: Host, per_node: int) -> str:
    """Multiprocessing where the release can span nodes with it (--nnodes), Ray otherwise."""
    world = len(plan.ranks)
    nodes = cdiv(world, per_node)
    if world % nodes:
        raise CommandError(f"{world} GPUs cannot be spread evenly over {nodes} nodes of {per_node}")
    d = plan.deployment
    name, gpus = object_name(d.model), world // nodes
    labels = {"app.kubernetes.io/name": name, "role": "leader"}
    leader, worker = _launch(plan, nodes)
    template = {
        "size": nodes,
        "restartPolicy": "RecreateGroupOnPodRestart",
        "leaderTemplate": {
            "metadata": {"labels": labels},
            "spec": _pod(plan, host, _container(plan, host, gpus, leader, probes=True)),
        },
        "workerTemplate": {
            "metadata": {"labels": {**labels, "role": "worker"}},
            "spec": _pod(plan, host, _container(plan, host, gpus, worker, probes=False)),
        },
    }
    manifest = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name},
        "spec": {"replicas": 1, "leaderWorkerTemplate": template},
    }
    return _dump(host.reasons(), [manifest, _service(name, labels)])


def _launch(plan: Plan, nodes: int) -> tuple[list[str], list[str]]:
    """(leader's, worker's) words. LeaderWorkerSet gives every pod LWS_LEADER_ADDRESS and LWS_WORKER_INDEX."""
    d = plan.deployment
    serve = words(d)
    if nodes == 1:
        return serve, serve
    if options_of(d.engine.version).status("nnodes").state == "known":
        address = ["--nnodes", str(nodes), "--master-addr", "$(LWS_LEADER_ADDRESS)"]
        leader = [*serve, *address, "--node-rank", "0"]
        return leader, [*serve, *address, "--node-rank", "$(LWS_WORKER_INDEX)", "--headless"]
    from oomph.commands.shell import quote

    line = " ".join(["vllm", "serve", *map(quote, serve), "--distributed-executor-backend", "ray"])
    head = f"ray start --head --port={RAY_PORT} --num-gpus={len(plan.ranks) // nodes}"
    return ["sh", "-c", f"{head} && exec {line}"], [
        "sh",
        "-c",
        f"exec ray start --address=$(LWS_LEADER_ADDRESS):{RAY_PORT} --block",
    ]


def _container(plan: Plan, host: Host, gpus: int, args: list[str], *, probes: bool) -> dict[str, Any]:
    d = plan.deployment
    shell = args[:1] == ["sh"]
    amounts = {
        "nvidia.com/gpu": str(gpus), "memory": f"{host.memory_gib}Gi", "ephemeral-storage": f"{host.disk_gib}Gi",
    }  # fmt: skip
    token = {"secretKeyRef": {"name": "huggingface", "key": "token", "optional": True}}
    env: list[dict[str, Any]] = [{"name": "HF_TOKEN", "valueFrom": token}]
    env += [{"name": key, "value": value} for key, value in d.environment.items()]
    container: dict[str, Any] = {
        "name": "vllm",
        "image": image(d),
        "command": args[:2] if shell else ["vllm", "serve"],
        "args": args[2:] if shell else [_escaped(word) for word in args],
        "env": env,
        "resources": {"limits": amounts, "requests": {**amounts, "cpu": str(host.cpus)}},
        "volumeMounts": [{"name": "models", "mountPath": CACHE}],
    }
    if host.shm_gib:
        container["volumeMounts"].append({"name": "shm", "mountPath": "/dev/shm"})
    if probes:
        health = {"httpGet": {"path": "/health", "port": "http"}}
        container["ports"] = [{"name": "http", "containerPort": PORT}]
        container["startupProbe"] = {**health, "periodSeconds": 10, "failureThreshold": 180}
        container["readinessProbe"] = {**health, "periodSeconds": 5}
        container["livenessProbe"] = {**health, "periodSeconds": 30, "failureThreshold": 3}
    return container


def _escaped(word: str) -> str:
    """Kubernetes fills $(NAME) in; what is not one of its own variables must stay as it is."""
    return re.sub(r"\$(?!\(LWS_)", "$$$$", word)


def _pod(plan: Plan, host: Host, container: dict[str, Any]) -> dict[str, Any]:
    volumes: list[dict[str, Any]] = [{"name": "models", "emptyDir": {}}]
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


def _service(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": labels, "ports": [{"name": "http", "port": PORT, "targetPort": "http"}]},
    }


def object_name(model: str) -> str:
    """RFC 1123: lower-case letters, digits and dashes, at most 63."""
    name = re.sub(r"[^a-z0-9]+", "-", model.rpartition("/")[2].lower()).strip("-")[:58].strip("-")
    return f"vllm-{name}" if name else "vllm"


def _dump(reasons: list[str], documents: list[dict[str, Any]]) -> str:
    head = "".join(f"# {reason}\n" for reason in reasons)
    return head + "---\n".join(map(dump, documents))
