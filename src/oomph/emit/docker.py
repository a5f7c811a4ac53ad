"""docker run and compose."""

from __future__ import annotations

from typing import Any

from oomph.commands.shell import quote
from oomph.emit.command import dump, words
from oomph.emit.resources import Host
from oomph.ir.deployment import Deployment
from oomph.ir.plan import Plan

PORT = 8000
CACHE = "/root/.cache/huggingface"


def image(d: Deployment) -> str:
    return f"vllm/vllm-openai:v{d.engine.version}"


def docker_run(plan: Plan, host: Host) -> str:
    """With the entry point named: it changed between releases."""
    d = plan.deployment
    options = [f"--gpus {len(plan.ranks)}", f"-p {PORT}:{PORT}", f"-v ~/.cache/huggingface:{CACHE}", "-e HF_TOKEN"]
    options += [f"-e {quote(f'{name}={value}')}" for name, value in d.environment.items()]
    if host.shm_gib:
        options.append(f"--shm-size {host.shm_gib}g")
    options.append(f"--memory-reservation {host.memory_gib}g")
    line = ["docker run --rm", *options, "--entrypoint vllm", image(d), "serve", *_pairs(words(d))]
    reasons = "".join(f"# {reason}\n" for reason in host.reasons())
    return reasons + " \\\n  ".join(line) + "\n"


def _pairs(flags: list[str]) -> list[str]:
    """A flag and its value on one line."""
    out: list[str] = []
    for word in map(quote, flags):
        if out and not word.startswith("-") and out[-1].startswith("-") and " " not in out[-1]:
            out[-1] += " " + word
        else:
            out.append(word)
    return out


def compose(plan: Plan, host: Host) -> str:
    d = plan.deployment
    service: dict[str, Any] = {
        "image": image(d),
        "entrypoint": ["vllm", "serve"],
        "command": [word.replace("$", "$$") for word in words(d)],
        "environment": {"HF_TOKEN": "${HF_TOKEN:-}", **{k: v.replace("$", "$$") for k, v in d.environment.items()}},
        "ports": [f"{PORT}:{PORT}"],
        "volumes": [f"~/.cache/huggingface:{CACHE}"],
        "healthcheck": {
            "test": ["CMD", "curl", "-fsS", f"http://localhost:{PORT}/health"],
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
    if host.shm_gib:
        service["shm_size"] = f"{host.shm_gib}gb"
    reasons = "".join(f"# {reason}\n" for reason in host.reasons())
    return reasons + dump({"services": {"vllm": service}})
