"""A vLLM deployment as something to start: its container, its config file, its nodes and what they must have."""

import json
from typing import Any

from msgspec.structs import replace

from oomph.commands.call import quote
from oomph.emit.resources import Host, needs_of
from oomph.emit.yaml_text import dump
from oomph.engines.registry import engine_of
from oomph.engines.values import Container
from oomph.engines.vllm.command.serve import to_words
from oomph.engines.vllm.host import host_plan
from oomph.errors import CannotPlan
from oomph.facts.vllm.flags import options_of
from oomph.ir import Deployment, Plan
from oomph.units import cdiv

RAY_PORT = 6379
PORT = 8000


def container(deployment: Deployment) -> Container:
    """With the entry point named: it changed between releases. AMD's image has its name since 0.14 at the latest."""
    makers = {gpu.vendor for gpu in deployment.gpus}
    if not makers <= {"nvidia", "amd"}:
        raise CannotPlan(
            "vLLM publishes no image for these cards: its docker/Dockerfile.xpu or the maker's plugin builds one"
        )
    name = engine_of(deployment).own_images["amd" if "amd" in makers else "nvidia"]
    image = f"{name}:v{deployment.engine.version}"
    return Container(image, ("vllm", "serve"), tuple(to_words(deployment)[2:]), PORT)


def config_file(deployment: Deployment) -> str:
    """Flags that are false are written as their --no- form, and mappings as JSON text: every release reads those."""
    if deployment.usage != "serve":
        raise CannotPlan("a --config file is for vllm serve, not for LLM(...)")
    values: dict[str, Any] = {"model": deployment.model}
    for field, value in deployment.flags.items():
        key = field.replace("_", "-")
        if value is False:
            values["no-" + key] = True
        elif isinstance(value, (dict, list)):
            values[key] = json.dumps(value) if isinstance(value, dict) else value
        else:
            values[key] = value
    lines = [
        "# vllm serve --config FILE",
        *[f"# with {name}={value} in the environment" for name, value in deployment.environment.items()],
    ]
    return "\n".join(lines) + "\n" + dump(values)


def node_commands(plan: Plan, nodes: int) -> tuple[list[str], list[str]]:
    """(leader's, worker's) words: multiprocessing where the release can span nodes with it (--nnodes), Ray otherwise.

    LeaderWorkerSet gives every pod LWS_LEADER_ADDRESS and LWS_WORKER_INDEX.
    """
    serve = _serve_words(plan)
    if nodes == 1:
        return serve, serve
    if options_of(plan.deployment.engine.version).status("nnodes").state == "known":
        address = ["--nnodes", str(nodes), "--master-addr", "$(LWS_LEADER_ADDRESS)"]
        leader = [*serve, *address, "--node-rank", "0"]
        return leader, [*serve, *address, "--node-rank", "$(LWS_WORKER_INDEX)", "--headless"]
    line = " ".join([*map(quote, serve), "--distributed-executor-backend", "ray"])
    head = f"ray start --head --port={RAY_PORT} --num-gpus={len(plan.ranks) // nodes}"
    worker = f"exec ray start --address=$(LWS_LEADER_ADDRESS):{RAY_PORT} --block"
    return ["sh", "-c", f"{head} && exec {line}"], ["sh", "-c", worker]


_OF_NODES = ("nnodes", "node_rank", "master_addr", "headless", "distributed_executor_backend")


def _serve_words(plan: Plan) -> list[str]:
    """The command without what says where it runs."""
    flags = {name: value for name, value in plan.deployment.flags.items() if name not in _OF_NODES}
    return ["vllm", "serve", *to_words(replace(plan.deployment, flags=flags))[2:]]


def launch_lines(plan: Plan, nodes: int) -> str:
    """What to type on each node: multiprocessing where the release has --nnodes, and Ray, which every release has."""
    serve = " ".join(map(quote, _serve_words(plan)))
    if nodes == 1:
        return serve + "\n"
    lines = []
    if options_of(plan.deployment.engine.version).status("nnodes").state == "known":
        lines.append("# multiprocessing; HEAD is the first node's address")
        for node in range(nodes):
            rest = " --headless" if node else ""
            lines.append(f"{serve} --nnodes {nodes} --node-rank {node} --master-addr HEAD{rest}   # on node {node}")
    each = len(plan.ranks) // nodes
    lines += [
        "# or with Ray",
        f"ray start --head --port={RAY_PORT} --num-gpus={each}   # on node 0",
        *(f"ray start --address=HEAD:{RAY_PORT} --num-gpus={each}   # on node {node}" for node in range(1, nodes)),
        f"{serve} --distributed-executor-backend ray   # on node 0, once all have joined",
    ]
    return "\n".join(lines) + "\n"


def host_needs(plan: Plan, nodes: int = 1) -> Host:
    """Of the node with the API server and the engine core."""
    workers = cdiv(max(1, len(plan.ranks)), nodes) if len(plan.ranks) > 1 else 0
    return needs_of(plan, host_plan(plan, nodes=nodes), 2 + workers)
