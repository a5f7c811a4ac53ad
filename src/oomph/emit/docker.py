"""docker run and compose."""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from oomph.commands.call import quote
from oomph.emit.resources import Host
from oomph.emit.yaml_text import dump
from oomph.engines.registry import engine_of
from oomph.ir import Deployment, Plan
from oomph.sources.load import is_local

CACHE = "/root/.cache/huggingface"
AMD_DEVICES = ("/dev/kfd", "/dev/dri")  # what ROCm needs of a container; there is no --gpus


def is_amd(deployment: Deployment) -> bool:
    return any(gpu.vendor == "amd" for gpu in deployment.gpus)


class Mounted(NamedTuple):
    """A deployment as its container sees it."""

    deployment: Deployment
    folder: str = ""  # of this machine, "" = the model comes from the hub
    place: str = ""  # where the container has it


def mounted(deployment: Deployment) -> Mounted:
    """A model of this machine is a volume of the container; inside it has another path."""
    if not is_local(deployment.model):
        return Mounted(deployment)
    path = os.path.abspath(os.path.expanduser(deployment.model))
    place = f"/models/{os.path.basename(path)}"
    return Mounted(replace(deployment, model=place), path, place)


def docker_run(plan: Plan, host: Host) -> str:
    deployment, folder, inside = mounted(plan.deployment)
    start = engine_of(deployment).container(deployment)
    program, *more = start.entry_point
    options = [
        *([f"--device {path}" for path in AMD_DEVICES] if is_amd(deployment) else [f"--gpus {len(plan.ranks)}"]),
        f"-p {start.port}:{start.port}",
        f"-v {quote(f'{folder}:{inside}:ro')}" if folder else f"-v ~/.cache/huggingface:{CACHE}",
        "-e HF_TOKEN",
        *[f"-e {quote(f'{name}={value}')}" for name, value in deployment.environment.items()],
    ]
    if is_amd(deployment):
        options.append("--group-add video")
    if host.shm_gib:
        options.append(f"--shm-size {host.shm_gib}g")
    options.append(f"--memory-reservation {host.memory_gib}g")
    line = ["docker run --rm", *options, f"--entrypoint {program}", start.image, *more, *_pairs(start.arguments)]
    reasons = "".join(f"# {reason}\n" for reason in host.reasons())
    return reasons + " \\\n  ".join(line) + "\n"


def _pairs(flags: Sequence[str]) -> list[str]:
    """A flag and its value on one line."""
    out: list[str] = []
    for word in map(quote, flags):
        if out and not word.startswith("-") and out[-1].startswith("-") and " " not in out[-1]:
            out[-1] += " " + word
        else:
            out.append(word)
    return out


def compose(plan: Plan, host: Host) -> str:
    deployment, folder, inside = mounted(plan.deployment)
    start = engine_of(deployment).container(deployment)
    service: dict[str, Any] = {
        "image": start.image,
        "entrypoint": list(start.entry_point),
        "command": [word.replace("$", "$$") for word in start.arguments],
        "environment": {
            "HF_TOKEN": "${HF_TOKEN:-}",
            **{k: v.replace("$", "$$") for k, v in deployment.environment.items()},
        },
        "ports": [f"{start.port}:{start.port}"],
        "volumes": [f"{folder}:{inside}:ro".replace("$", "$$") if folder else f"~/.cache/huggingface:{CACHE}"],
        "healthcheck": {
            "test": ["CMD", "curl", "-fsS", f"http://localhost:{start.port}{start.health_path}"],
            "interval": "15s",
            "timeout": "5s",
            "start_period": "30m",
        },
        "restart": "unless-stopped",
        "deploy": {
            "resources": {
                "reservations": {
                    "memory": f"{host.memory_gib}G",
                    "devices": [{"driver": "nvidia", "count": len(plan.ranks), "capabilities": ["gpu"]}],
                }
            }
        },
    }
    if is_amd(deployment):
        del service["deploy"]["resources"]["reservations"]["devices"]
        service |= {"devices": [f"{path}:{path}" for path in AMD_DEVICES], "group_add": ["video"]}
    if host.shm_gib:
        service["shm_size"] = f"{host.shm_gib}gb"
    reasons = "".join(f"# {reason}\n" for reason in host.reasons())
    return reasons + dump({"services": {deployment.engine.name: service}})
