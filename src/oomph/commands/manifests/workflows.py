"""Argo's and Tekton's documents: their parameters filled in, and their templates and steps as containers of a pod."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

_ARGO = ("Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate", "CronWorkflow")
_TEKTON = ("Task", "ClusterTask", "StepAction", "Pipeline", "TaskRun", "PipelineRun")
# {{workflow.parameters.x}}, {{inputs.parameters.x}}; $(params.x), $(inputs.params.x), $(params["x"])
_REFERENCE = re.compile(
    r"\{\{=?\s{0,9}(?:workflow|inputs)\.parameters\.([\w.-]{1,80})\s{0,9}\}\}"
    r"|\$\((?:inputs\.)?params(?:\.|\[[\"'])([\w.-]{1,80}?)(?:[\"']\])?\)"
)
_DEEPEST = 20


def filled(document: Any, outside: Mapping[str, str]) -> Any:
    """A document of these kinds as a manifest whose containers say what runs; another one as it is."""
    if not isinstance(document, dict) or not _is_workflow(document):
        return document
    values = _parameters(document)
    return _as_pods(_with_values(document, {**values, **{name: text for name, text in outside.items() if text}}))


def _is_workflow(document: Mapping[str, Any]) -> bool:
    kind, version = document.get("kind"), str(document.get("apiVersion"))
    return (kind in _ARGO and version.startswith("argoproj.io/")) or (kind in _TEKTON and version.startswith("tekton."))


def _parameters(document: Any) -> dict[str, str]:
    """What each parameter is: a value before a default, and none where callers give several."""
    values: dict[str, set[str]] = {}
    defaults: dict[str, set[str]] = {}
    for one in _declared(document):
        value, default = one.get("value"), one.get("default")
        if isinstance(value, str | int | float) and not _REFERENCE.search(str(value)):
            values.setdefault(str(one["name"]), set()).add(str(value))
        elif isinstance(default, str | int | float):
            defaults.setdefault(str(one["name"]), set()).add(str(default))
    texts = {name: next(iter(of)) for name, of in {**defaults, **values}.items() if len(of) == 1}
    for one in _declared(document):  # what a caller hands on under another name
        match = _REFERENCE.fullmatch(str(one.get("value", "")))
        inner = texts.get(match[1] or match[2]) if match else None
        if inner is not None and str(one["name"]) not in values:
            texts[str(one["name"])] = inner
    return texts


def _declared(value: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    if depth > _DEEPEST:
        return
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if key in ("parameters", "params") and isinstance(item, list):
            yield from (one for one in item if isinstance(one, dict) and isinstance(one.get("name"), str))
        else:
            yield from _declared(item, depth + 1)


def _with_values(value: Any, values: Mapping[str, str], depth: int = 0) -> Any:
    """References as their values; what nothing sets becomes ${name}, which the readers ask for."""
    if depth > _DEEPEST:
        return value
    if isinstance(value, dict):
        return {key: _with_values(item, values, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_values(item, values, depth + 1) for item in value]
    if not isinstance(value, str):
        return value

    def text(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        plain = re.sub(r"\W", "_", name)
        return values.get(name, values.get(plain, f"${{{plain}}}"))

    return _REFERENCE.sub(text, value)


def _as_pods(value: Any, template: Any = None, depth: int = 0) -> Any:
    """`container`, `script` and `steps` as `containers`, which is what a pod calls them."""
    if depth > _DEEPEST:
        return value
    if isinstance(value, list):
        return [_as_pods(item, template, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    template = value.get("stepTemplate", template)
    pod = {key: _as_pods(item, template, depth + 1) for key, item in value.items()}
    alone = [one for key in ("container", "script") if isinstance(one := value.get(key), dict)]
    steps = [one for one in _list(value.get("steps")) if isinstance(one, dict) and {"image", "script"} & set(one)]
    sidecars = [one for one in _list(value.get("sidecars")) if isinstance(one, dict)]
    if alone or steps:
        label = {"name": value["name"]} if isinstance(value.get("name"), str) else {}
        base = template if isinstance(template, dict) else {}
        pod["containers"] = [_container({**label, **base, **one}) for one in (*alone, *steps, *sidecars)]
    return pod


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _container(one: Mapping[str, Any]) -> dict[str, Any]:
    source = one.get("source", one.get("script"))
    if not isinstance(source, str):
        return dict(one)
    return {**one, "command": ["sh", "-c"], "args": [source]}
