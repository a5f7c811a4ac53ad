"""YAML of tools that start servers: SkyPilot's tasks, the values of vLLM's own Helm chart."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from oomph.commands import docker
from oomph.commands.call import SERVER, Call
from oomph.commands.expansion import LIMIT
from oomph.commands.shown import short
from oomph.commands.wrappers import container_call, engine_of, peel, script_calls
from oomph.commands.yaml_text import load
from oomph.engines.registry import engine_named
from oomph.errors import CommandError

_TEMPLATE = re.compile(r"\{\{-?\s*(?:\.|if|include|range|with|toYaml|define|end|\$)")
RENDER = "helm template CHART -f VALUES | oomph plan --gpu GPUS -"


def calls(text: str, environment: Mapping[str, str], name: str) -> dict[str, Call]:
    refuse_templates(text, name)
    out: dict[str, Call] = {}
    for document in load(text, name):
        if not isinstance(document, dict):
            out |= {str(len(out) + i): call for i, call in enumerate(_anywhere(document, environment), 1)}
        elif isinstance(document.get("run"), str):
            out |= _skypilot(document, environment)
        elif isinstance(document.get("servingEngineSpec"), dict):
            out |= _production_stack(document["servingEngineSpec"])
        else:
            started = _anywhere(document, environment)
            if not started and _looks_like_values(document):
                raise CommandError(f"{short(name)} holds values of a Helm chart, not what the chart makes", hint=RENDER)
            out |= {str(len(out) + number): call for number, call in enumerate(started, 1)}
    return out


def _anywhere(value: Any, environment: Mapping[str, str], depth: int = 0) -> list[Call]:
    """A workflow's steps, a playbook's tasks, a Taskfile: texts and lists of words that start a server."""
    if isinstance(value, str):
        return script_calls(value, environment) if SERVER.search(value) and len(value) < LIMIT else []
    if depth > 20 or not isinstance(value, dict | list):
        return []
    if isinstance(value, list) and value and all(isinstance(word, str | int | float) for word in value):
        words = [str(word) for word in value]
        if engine_of(words):
            return [peel(words, environment)]
    inner = value.values() if isinstance(value, dict) else value
    return [call for item in inner for call in _anywhere(item, environment, depth + 1)]


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
    started = script_calls(f"{task.get('setup') or ''}\n{task['run']}", {**environment, **variables})
    return {
        str(number): Call(call.words, call.environment, call.image or image, call.gpu_count or count, call.notes)
        for number, call in enumerate(started, 1)
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
    vllm = engine_named("vllm")
    words: list[str] = []
    for key, value in config.items():
        flag = "--" + re.sub(r"(?<=[a-z0-9])([A-Z])", r"-\1", str(key)).lower()
        if key == "extraArgs" and isinstance(value, list):
            words += map(str, value)
        elif value is None or not vllm.knows_flag(flag):
            continue
        elif isinstance(value, bool):
            words += [flag] if value else []
        else:
            words += [flag, str(value)]
    return words
