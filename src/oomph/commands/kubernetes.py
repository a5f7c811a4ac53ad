"""Kubernetes manifests to the serve commands of their containers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from oomph.commands import docker, named_gpus
from oomph.commands.call import SERVER, Call
from oomph.commands.shown import shown
from oomph.commands.wrappers import container_call
from oomph.commands.yaml_text import load
from oomph.engines.registry import DEFAULT, NAMES, all_engines, engine_named
from oomph.errors import CommandError, OomphError

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
# flags of KServe's huggingfaceserver itself (python/huggingfaceserver/__main__.py); the others are vLLM's
_HUGGINGFACESERVER = ("__model_id", "__model_name", "__model_dir", "__backend", "__task", "__model_revision")
_VLLM_FORMATS = ("huggingface", "vllm")  # KServe's model formats whose runtime starts vLLM
_GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")


def calls(text: str, name: str = "manifest.yaml") -> dict[str, Call]:
    """A call per container that runs an engine, under "Kind name/container"."""
    from oomph.commands.yaml_jobs import refuse_templates

    if re.search(r"\{\{-?\s*(?:\.Values|if|include|range|with|toYaml|define)", text):  # KServe has {{.Name}} of its own
        refuse_templates(text, name)
    out: dict[str, Call] = {}
    for document in load(text, name):
        for key, call in _document(document, name).items():
            while key in out:  # a leader and its workers
                key += "+"
            out[key] = call
    return out


def _document(document: Any, name: str) -> dict[str, Call]:
    if not isinstance(document, dict):
        return {}
    metadata = document.get("metadata")
    named = metadata.get("name", "") if isinstance(metadata, dict) else ""
    title = f"{document.get('kind', 'object')} {named}".strip()
    out: dict[str, Call] = {}
    waiting: dict[str, Call] = {}
    for container, pod in _containers(document):
        if not _runs_engine(container):
            continue
        key = f"{title}/{container.get('name', 'container')}"
        while key in out or key in waiting:
            key += "+"
        try:
            out[key] = _with_gpus(_call(container, shown(f"{name}: {key}")), pod)
        except OomphError as error:
            # a worker that waits for its leader starts nothing itself
            (out if SERVER.search(_arguments(container)) else waiting)[key] = Call((), refusal=error)
    return (out or waiting) | _kserve(document, title, shown(name))


def _kserve(document: Mapping[str, Any], title: str, where: str) -> dict[str, Call]:
    """An InferenceService that leaves the container to its runtime: `predictor.model` with args and storageUri."""
    value: Any = document
    for key in ("spec", "predictor", "model"):
        value = value.get(key) if isinstance(value, dict) else None
    form = value.get("modelFormat") if isinstance(value, dict) else None
    kind = str(form.get("name", "")).lower() if isinstance(form, dict) else ""
    if not isinstance(value, dict) or kind not in _VLLM_FORMATS:
        return {}
    environment, _ = _environment(value.get("env"))
    uri = str(value.get("storageUri") or "")
    model = uri.removeprefix("hf://") if uri.startswith("hf://") else uri or "/mnt/models"
    words: list[str] = []
    arguments = _words(value.get("args"), environment, where)
    while arguments:
        flag, equals, text = arguments.pop(0).partition("=")
        if flag.replace("-", "_") in _HUGGINGFACESERVER:
            text = text if equals or not arguments else arguments.pop(0)
            model = text if flag.replace("-", "_") in ("__model_id", "__model_dir") else model
        else:
            words.append(flag + equals + text)
    notes = ("KServe's runtime is read as vllm serve",)
    command = (*engine_named("vllm").serve_command(model), *words)
    call = Call(command, environment, gpu_count=_gpus(value.get("resources")), notes=notes)
    return {f"{title}/model": _with_gpus(call, document["spec"]["predictor"])}


def _containers(value: Any, depth: int = 0) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every container below `value` with its pod: pods are nested in many kinds (Deployment, LeaderWorkerSet, ...)."""
    if depth > 20:
        return
    if isinstance(value, list):
        for item in value:
            yield from _containers(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key == "containers" and isinstance(item, list):
                yield from ((container, value) for container in item if isinstance(container, dict))
            else:
                yield from _containers(item, depth + 1)


def _with_gpus(call: Call, pod: Mapping[str, Any]) -> Call:
    """The card that the pod's labels name."""
    gpus = named_gpus.of_pod(pod, call.gpu_count)
    return replace(call, gpu_name=gpus.gpus, notes=(*call.notes, *filter(None, (gpus.note,))))


def _arguments(container: Mapping[str, Any]) -> str:
    parts = (container.get("command"), container.get("args"))
    return " ".join(str(word) for part in parts if isinstance(part, list) for word in part)


def _runs_engine(container: Mapping[str, Any]) -> bool:
    text = _arguments(container)
    image, name = str(container.get("image") or ""), str(container.get("name") or "")
    if not image and "--model" in text and any(engine in name for engine in NAMES):  # an overlay over a base
        return True
    return bool(docker.image_engine(image) or SERVER.search(text))


def _call(container: Mapping[str, Any], where: str) -> Call:
    environment, unknown = _environment(container.get("env"))
    elsewhere = filter(_is_engine_variable, unknown)
    notes = [f"{where}: {shown(key)} comes from elsewhere in the cluster" for key in elsewhere]
    command = _words(container.get("command"), environment, where)
    args = _words(container.get("args"), environment, where)
    count = _gpus(container.get("resources"))
    environment |= {key: f"$({key})" for key in unknown}
    image = str(container.get("image") or f"{DEFAULT} (no image)")
    return container_call(docker.container(image, args, environment, entrypoint=command, gpu_count=count, notes=notes))


def _is_engine_variable(name: str) -> bool:
    return any(name.startswith(engine.variables) for engine in all_engines())


def _words(value: Any, environment: Mapping[str, str], where: str) -> list[str]:
    """A list of strings with $(NAME) filled in where the manifest says it; Kubernetes runs no shell here."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise CommandError(f"{where}: command and args are lists of strings")

    def filled(match: re.Match[str]) -> str:
        return environment.get(match[1], match[0]) if match[1] else "$"

    return [_REFERENCE.sub(filled, _text(item)) for item in value]


def _text(value: Any) -> str:
    return "true" if value is True else "false" if value is False else str(value)


def _environment(value: Any) -> tuple[dict[str, str], list[str]]:
    known: dict[str, str] = {}
    unknown: list[str] = []
    for item in value if isinstance(value, list) else []:
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            if "value" in item and item["value"] is not None:
                known[item["name"]] = _text(item["value"])
            else:
                unknown.append(item["name"])
    return known, unknown


def _gpus(resources: Any) -> int:
    for part in ("limits", "requests"):
        amounts = resources.get(part) if isinstance(resources, dict) else None
        for name in _GPU_RESOURCES:
            amount = str(amounts.get(name, "")) if isinstance(amounts, dict) else ""
            if amount.isascii() and amount.isdigit():
                return min(int(amount[:6]), 1 << 16)
    return 0
