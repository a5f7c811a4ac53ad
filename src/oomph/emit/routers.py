"""Figures for programs that put several models on one machine: llama-swap's configuration, aibrix's ModelClaim.

llama-swap: fields of its config-schema.json (models: cmd, checkEndpoint, ttl, env, metadata); it has no memory budget
yet (llama-swap#1004), so the figures stand in `metadata`, where /v1/models shows them. aibrix: ModelClaim
of model.aibrix.ai/v1alpha1 (config/crd/model/model.aibrix.ai_modelclaims.yaml), which has no field for memory:
`requiredHBM` (aibrix#2744) and `perGPU` (aibrix#2647) are proposals, and kubectl refuses a field that a definition does
not have. So the figure stands in an annotation, which every release takes.
"""

from typing import Any

from msgspec.structs import replace

from oomph.commands.call import quote
from oomph.emit.kubernetes import dump_all, object_name
from oomph.emit.resources import card_bytes
from oomph.emit.yaml_text import dump
from oomph.engines.registry import engine_of
from oomph.ir import Plan
from oomph.units import GIB, cdiv, human

_UNLOAD_AFTER_S = 600  # chosen: a model that nobody asked for ten minutes makes room
CARD_MEMORY = "oomph/card-memory"  # a prefix is a DNS name, here without a domain: Kubernetes' rules for annotations
_NOT_ARGUMENTS = ("host", "port")  # the router's own


def llama_swap(plan: Plan) -> str:
    deployment = plan.deployment
    flags = {name: value for name, value in deployment.flags.items() if name not in _NOT_ARGUMENTS}
    words = engine_of(deployment).write_command(replace(deployment, flags=flags))
    host = plan.host.need_bytes if plan.host is not None else 0
    metadata = {
        "gpu_memory_mib": [cdiv(card_bytes(plan), 1 << 20)] * len(plan.ranks),
        "host_memory_mib": cdiv(host, 1 << 20),
        "planned_by": f"oomph for {deployment.engine.name} {deployment.engine.version}",
    }
    entry: dict[str, Any] = {
        "cmd": " ".join([*map(quote, words), "--port", "${PORT}"]),
        "checkEndpoint": "/health",
        "ttl": _UNLOAD_AFTER_S,
        "metadata": metadata,
    }
    if deployment.environment:
        entry["env"] = [f"{name}={value}" for name, value in deployment.environment.items()]
    reason = f"# {human(card_bytes(plan))} of each card, {human(host)} of host memory while it starts\n"
    return reason + dump({"healthCheckTimeout": 1800, "models": {object_name(deployment): entry}})


def model_claim(plan: Plan) -> str:
    deployment = plan.deployment
    name, need = object_name(deployment), cdiv(card_bytes(plan), GIB)
    arguments = {field.replace("_", "-"): _text(value) for field, value in deployment.flags.items()}
    spec: dict[str, Any] = {
        "artifactURL": f"huggingface://{deployment.model}",
        "engine": deployment.engine.name,
        "modelName": name,
        "podSelector": {"matchLabels": {"model.aibrix.ai/name": name}},
        "replicas": 1,
    }
    if arguments:
        spec["engineConfig"] = {"args": arguments}
    manifest = {
        "apiVersion": "model.aibrix.ai/v1alpha1",
        "kind": "ModelClaim",
        "metadata": {"name": name, "annotations": {CARD_MEMORY: f"{need}Gi"}},
        "spec": spec,
    }
    reason = f"{need} GiB of each card: the stage that decides, at the end of its interval"
    return dump_all([reason], [manifest])


def _text(value: Any) -> str:
    import json

    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, dict | list) else str(value)
