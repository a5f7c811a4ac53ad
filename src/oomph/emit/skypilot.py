"""A task of SkyPilot for the cards of a plan (docs.skypilot.co, "Task YAML": resources, setup, run)."""

from typing import Any

from oomph.emit.docker import mounted
from oomph.emit.kubernetes import object_name
from oomph.emit.resources import Host
from oomph.emit.yaml_text import dump
from oomph.engines.registry import engine_of
from oomph.ir import Device, Plan
from oomph.units import cdiv

# SkyPilot's names of cards (`sky show-gpus --all`) where they are not ours without blanks
_NAMES = {
    "A100 SXM 80GB": "A100-80GB", "A100 PCIe 80GB": "A100-80GB", "A100 SXM 40GB": "A100", "A100 PCIe 40GB": "A100",
    "H100 SXM": "H100", "H100 PCIe": "H100", "RTX 6000 Ada": "RTX6000-Ada", "RTX PRO 6000 Server": "RTXPRO6000",
}  # fmt: skip


def task(plan: Plan, host: Host, per_node: int) -> str:
    deployment = mounted(plan.deployment).deployment
    start = engine_of(deployment).container(deployment)
    nodes = cdiv(len(plan.ranks), per_node)
    resources: dict[str, Any] = {
        "accelerators": {accelerator(deployment.gpus[0]): cdiv(len(plan.ranks), nodes)},
        "memory": f"{host.limit_gib}+",
        "cpus": f"{host.cpus}+",
        "disk_size": max(100, host.disk_gib),
        "image_id": f"docker:{start.image}",
        "ports": [start.port],
    }
    body: dict[str, Any] = {
        "name": object_name(deployment), "num_nodes": nodes, "resources": resources,
        "envs": {name: str(value) for name, value in deployment.environment.items()},
        "secrets": {"HF_TOKEN": None},
        "run": (engine_of(deployment).launch_lines(plan, nodes) if nodes > 1 else _command(plan)),
    }  # fmt: skip
    if not body["envs"]:
        del body["envs"]
    return "".join(f"# {reason}\n" for reason in host.reasons()) + dump(body)


def _command(plan: Plan) -> str:
    from msgspec.structs import replace

    from oomph.commands import to_shell

    return to_shell(replace(mounted(plan.deployment).deployment, environment={})) + "\n"


def accelerator(device: Device) -> str:
    return _NAMES.get(device.name, device.name.replace(" ", ""))
