"""YAML of tools that start servers: SkyPilot's tasks, the values of vLLM's own Helm chart."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from oomph.commands import docker
from oomph.commands.call import Call
from oomph.commands.values import short
from oomph.commands.wrappers import container_call, script_calls
from oomph.commands.yaml_text import load
from oomph.errors import CommandError
from oomph.facts.vllm.flags import flag_status
from oomph.facts.vllm.versions import NEWEST

_TEMPLATE = re.compile(r"\{\{-?\s*(?:\.|if|include|range|with|toYaml|define|end|\$)")
RENDER = "helm template CHART -f VALUES | oomph plan --gpu GPUS -"


def calls(text: str, environment: Mapping[str, str], name: str) -> dict[str, Call]:
    refuse_templates(text, name)
    out: dict[str, Call] = {}
    for document in load(text, name):
        if not isinstance(document, dict):
            continue
        if isinstance(document.get("run"), str):
            out |= _skypilot(document, environment)
        elif isinstance(document.get("servingEngineSpec"), dict):
            out |= _production_stack(document["servingEngineSpec"])
        elif _looks_like_values(document):
            raise CommandError(f"{short(name)} holds values of a Helm chart, not what the chart makes", hint=RENDER)
    return out


def refuse_templates(text: str, name: str) -> None:
    if _TEMPLATE.search(text):
        raise CommandError(f"{short(name)} is a Helm template: what it makes is not known before", hint=RENDER)


def _looks_like_values(document: Mapping[str, Any]) -> bool:
    image = document.get("image")
    return isinstance(image, dict) and ("repository" in image or "tag" in image)


def _skypilot(task: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Call]:
    """`run:` with `envs:`; the GPUs of a node come from `accelerators: H100:8`."""
    resources = task.get("resources")
    resources = resources if isinstance(resources, dict) else {}
    count = _accelerators(resources.get("accelerators"))
    envs = task.get("envs")
    variables = {str(k): str(v) for k, v in envs.items() if v is not None} if isinstance(envs, dict) else {}
    if count:
        variables["SKYPILOT_NUM_GPUS_PER_NODE"] = str(count)
    image = str(resources.get("image_id") or "").removeprefix("docker:")
    found = script_calls(f"{task.get('setup') or ''}\n{task['run']}", {**environment, **variables})
    return {
        str(number): Call(call.words, call.environment, call.image or image, call.gpu_count or count, call.notes)
        for number, call in enumerate(found, 1)
    }


def _accelerators(value: Any) -> int:
    """H100:8, {H100: 8}, [L4:1, A10G:1]: how many of the first; a name alone is one."""
    if isinstance(value, dict):
        counts = [count for count in value.values() if isinstance(count, int)]
        return counts[0] if counts else 1
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, str):
        return 0
    number = first.partition(":")[2]
    return min(int(number), 1024) if number.isascii() and number.isdigit() and len(number) < 5 else 1


def _production_stack(spec: Mapping[str, Any]) -> dict[str, Call]:
    """vllm-project/production-stack: modelSpec entries with vllmConfig's camel-case flags and extraArgs."""
    out: dict[str, Call] = {}
    models = spec.get("modelSpec")
    for model in models if isinstance(models, list) else []:
        if not isinstance(model, dict) or not isinstance(model.get("modelURL"), str):
            continue
        config = model.get("vllmConfig")
        words = ["vllm", "serve", model["modelURL"], *_flags(config if isinstance(config, dict) else {})]
        image = f"{model.get('repository') or 'vllm/vllm-openai'}:{model.get('tag') or 'latest'}"
        gpus = model.get("requestGPU")
        count = gpus if isinstance(gpus, int) and 0 < gpus <= 1024 else 0
        call = docker.container(image, words[1:], {}, entrypoint=words[:1], gpu_count=count)
        out[str(model.get("name") or len(out) + 1)] = container_call(call)
    return out


def _flags(config: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    for key, value in config.items():
        flag = "--" + re.sub(r"(?<=[a-z0-9])([A-Z])", r"-\1", str(key)).lower()
        if key == "extraArgs" and isinstance(value, list):
            words += map(str, value)
        elif flag_status(flag, NEWEST).state == "unknown" or value is None:
            continue
        elif isinstance(value, bool):
            words += [flag] if value else []
        else:
            words += [flag, str(value)]
    return words
