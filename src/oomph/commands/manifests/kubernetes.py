"""Kubernetes manifests to the serve commands of their containers."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from oomph.commands import named_gpus
from oomph.commands.call import SERVER, Call, shown
from oomph.commands.manifests import custom_resources, docker, memory_limit, workflows
from oomph.commands.manifests.container_fields import (
    environment_of,
    gpus_of,
    node_folders_of,
    shared_environment,
    words_of,
)
from oomph.commands.manifests.yaml_text import load
from oomph.commands.wrappers import container_calls, numbered
from oomph.engines.registry import DEFAULT, NAMES, all_engines
from oomph.errors import OomphError


def calls(text: str, name: str = "manifest.yaml", outside: Mapping[str, str] | None = None) -> dict[str, Call]:
    """A call per container that runs an engine, under "Kind name/container". `outside`: what variables may stand for
    that the manifest takes from elsewhere."""
    from oomph.commands.manifests.jobs import refuse_templates

    if re.search(r"\{\{-?\s*(?:\.Values|if|include|range|with|toYaml|define)", text):  # KServe has {{.Name}} of its own
        refuse_templates(text, name)
    out: dict[str, Call] = {}
    documents = [workflows.filled(document, outside or {}) for document in load(text, name)]
    settings, runtimes = _config_maps(documents), _serving_runtimes(documents)
    for document in documents:
        for key, call in _document(document, name, settings, runtimes, outside or {}).items():
            while key in out:  # a leader and its workers
                key += "+"
            out[key] = call
    # a runtime is what an InferenceService of the same file fills in: by itself it serves nothing
    served = {key: call for key, call in out.items() if not key.startswith(_RUNTIMES)}
    return served or out


_RUNTIMES = ("ServingRuntime ", "ClusterServingRuntime ")
Settings = Mapping[str, Mapping[str, str]]  # what the ConfigMaps of the file hold, by their names


def _config_maps(documents: list[Any]) -> Settings:
    maps: dict[str, Mapping[str, str]] = {}
    for document in documents:
        if (
            isinstance(document, dict)
            and document.get("kind") == "ConfigMap"
            and isinstance(document.get("data"), dict)
        ):
            maps[_name_of(document)] = {str(key): str(value) for key, value in document["data"].items()}
    return maps


def _serving_runtimes(documents: list[Any]) -> dict[str, Any]:
    """The specs of KServe's runtimes in the file, by their names."""
    kinds = tuple(kind.strip() for kind in _RUNTIMES)
    runtimes = [one for one in documents if isinstance(one, dict) and one.get("kind") in kinds]
    return {_name_of(one): one.get("spec") for one in runtimes}


def _name_of(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""


def _document(
    document: Any, name: str, settings: Settings, runtimes: Mapping[str, Any], outside: Mapping[str, str]
) -> dict[str, Call]:
    if not isinstance(document, dict):
        return {}
    title = f"{document.get('kind', 'object')} {_name_of(document)}".strip()
    if started := custom_resources.calls(document, title, shown(name), runtimes):
        return {key: replace(_with_gpus(call, pod), container=True) for key, (call, pod) in started.items()}
    nodes = _nodes(document)
    out: dict[str, Call] = {}
    waiting: dict[str, Call] = {}
    for container, pod in _containers(document):
        if not _runs_engine(container):
            continue
        key = f"{title}/{container.get('name', 'container')}"
        while key in out or key in waiting:
            key += "+"
        try:
            limits = memory_limit.of_container(container), memory_limit.of_cards(container)
            mounts = node_folders_of(container, pod)
            several = [
                replace(_with_gpus(call, pod, nodes), memory_limit=limits[0], gpu_memory=limits[1], mounts=mounts)
                for call in _calls(container, shown(f"{name}: {key}"), settings, outside)
            ]
            out |= numbered(key, several)
        except OomphError as error:
            # a worker that waits for its leader starts nothing itself
            (out if SERVER.search(_arguments(container)) else waiting)[key] = Call((), refusal=error)
    return out or waiting


def _nodes(document: Mapping[str, Any]) -> int:
    """How many pods a LeaderWorkerSet puts together to one server."""
    value: Any = document
    for key in ("spec", "leaderWorkerTemplate", "size"):
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 1 < value <= 64 else 1


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


def _with_gpus(call: Call, pod: Mapping[str, Any], nodes: int = 1) -> Call:
    """The card that the pod's labels name, on so many nodes."""
    gpus = named_gpus.of_pod(pod, call.gpu_count)
    name = f"{nodes}x({gpus.gpus})" if nodes > 1 and gpus.gpus else gpus.gpus
    count = call.gpu_count * nodes
    return replace(
        call, gpu_name=name or call.gpu_name, gpu_count=count, notes=(*call.notes, *filter(None, (gpus.note,)))
    )


def _arguments(container: Mapping[str, Any]) -> str:
    parts = (container.get("command"), container.get("args"))
    return " ".join(str(word) for part in parts if isinstance(part, list) for word in part)


def _runs_engine(container: Mapping[str, Any]) -> bool:
    text = _arguments(container)
    image, name = str(container.get("image") or ""), str(container.get("name") or "")
    if not image and "--model" in text and any(engine in name for engine in NAMES):  # an overlay over a base
        return True
    return bool(docker.image_engine(image) or SERVER.search(text))


def _calls(container: Mapping[str, Any], where: str, settings: Settings, outside: Mapping[str, str]) -> list[Call]:
    environment, open_names = environment_of(container.get("env"), settings)
    unknown = [name for name in open_names if name not in outside]
    names = [name for name in outside if name in open_names or _names_variable(container, name)]
    from_outside = {name: outside[name] for name in names}
    environment = {**from_outside, **shared_environment(container.get("envFrom"), settings), **environment}
    elsewhere = filter(_is_engine_variable, unknown)
    notes = [f"{where}: {shown(key)} comes from elsewhere in the cluster" for key in elsewhere]
    command = [_substituted(word, from_outside) for word in words_of(container.get("command"), environment, where)]
    args = [_substituted(word, from_outside) for word in words_of(container.get("args"), environment, where)]
    count = gpus_of(container.get("resources"))
    environment |= {key: f"$({key})" for key in unknown}
    image = str(container.get("image") or f"{DEFAULT} (no image)")
    own = command or None
    return container_calls(docker.container(image, args, environment, entrypoint=own, gpu_count=count, notes=notes))


def _names_variable(container: Mapping[str, Any], name: str) -> bool:
    """Whether the words say $(NAME), or a shell's $NAME."""
    return bool(re.search(rf"\$[({{]?{re.escape(name)}\b", _arguments(container)))


def _substituted(word: str, values: Mapping[str, str]) -> str:
    """${NAME}, as envsubst fills it in before the manifest is applied."""
    return re.sub(r"\$\{(\w{1,80})\}", lambda match: values.get(match[1], match[0]), word)


def _is_engine_variable(name: str) -> bool:
    return any(name.startswith(engine.variables) for engine in all_engines())
