"""YAML of tools that start servers: SkyPilot's tasks, llama-swap, workflows, the values of vLLM's own Helm chart."""

import json
import re
from collections.abc import Iterable, Mapping
from itertools import islice, product
from typing import Any

from msgspec.structs import replace

from oomph.commands import named_gpus, shell
from oomph.commands.call import SERVER, Call, short
from oomph.commands.expansion import LIMIT
from oomph.commands.manifests import docker
from oomph.commands.manifests.chart_values import model_service, of_chart_values, production_stack
from oomph.commands.manifests.custom_resources import ray_serve
from oomph.commands.manifests.yaml_text import load
from oomph.commands.wrappers import container_call, engine_of, peel, script_calls
from oomph.engines.registry import DEFAULT, engine_named
from oomph.errors import CommandError, OomphError
from oomph.sources.gpu import parse_gpus
from oomph.text.nesting import shell_words

_TEMPLATE = re.compile(r"\{\{-?\s*(?:\.|if|include|range|with|toYaml|define|end|\$)")
# ${{ env.MODEL }}, ${{ inputs.model }}, ${{ matrix.model }} of a workflow
_EXPRESSION = re.compile(
    r"\$\{\{\s{0,9}(?:env|vars|inputs|matrix|secrets|github\.event\.inputs)\.(\w{1,80})\s{0,9}\}\}"
)
# go-task's Taskfile: {{.MODEL}} is a variable of `vars`, {{.MODEL | default "org/name"}} one that a caller may set
_TASKFILE = re.compile(r"^tasks:\s*$", re.MULTILINE)
_TASK_VALUE = re.compile(
    r"\{\{\s*\.(\w+)\s*(?:\|\s*default\s+(?:[\"']([^\"'{}]{0,400})[\"']|([\w./:-]{1,400}))\s*)?\}\}"
)
# a playbook's {{ name }} and {{ name | default("org/name", true) }}
_PLAYBOOK = re.compile(
    r"\{\{\s*(\w{1,80})\s*(?:\|\s*(?:default|d)\(\s*(?:[\"']([^\"'{}]{0,400})[\"']|([\w./:-]{1,400}))"
    r"\s*(?:,\s*\w+\s*)?\)\s*)?\}\}"
)
_BESIDE, _SETS = ("include", "exclude"), 16  # of a matrix: what is no list of values; how many sets are read
RENDER = "helm template CHART -f VALUES | oomph plan --gpu GPUS -"


def calls(text: str, environment: Mapping[str, str], name: str) -> dict[str, Call]:
    if _TASKFILE.search(text):
        text = _TASK_VALUE.sub(lambda match: match[2] or match[3] or f"${{{match[1]}}}", text)
    refuse_templates(text, name)
    out: dict[str, Call] = {}
    for document in load(text, name):
        started = of_chart_values(document) if isinstance(document, dict) else []
        started = started or _document(document, environment, text, name)
        if not started and isinstance(document, dict) and _looks_like_values(document):
            raise CommandError(f"{short(name)} holds values of a Helm chart, not what the chart makes", hint=RENDER)
        for label, call in started:
            out[_unused(label or str(len(out) + 1), out)] = call
    return out


def _document(document: Any, environment: Mapping[str, str], text: str, name: str) -> list[tuple[str, Call]]:
    if isinstance(document, dict):
        started_by = document.get("on", document.get(True))  # YAML 1.1 takes `on` for true
        for trigger in started_by.values() if isinstance(started_by, dict) else ():
            environment = {**_workflow_values(trigger), **environment} if isinstance(trigger, dict) else environment
        if isinstance(document.get("run"), str):
            return list(_skypilot(document, environment).items())
        if isinstance(document.get("servingEngineSpec"), dict):
            return list(production_stack(document["servingEngineSpec"]).items())
        if isinstance(document.get("modelArtifacts"), dict):
            return list(model_service(document).items())
        if isinstance(document.get("applications"), list):
            return list(ray_serve(text, name).items())
        if is_litellm(document):
            raise CommandError(
                f"{short(name)} configures LiteLLM, which passes requests on and starts no engine",
                hint="plan the servers that its api_base names",
            )
        if is_llama_swap(document):
            return _llama_swap(document, environment)
        if isinstance(document.get("commands"), list):
            return _dstack(document, environment)
        if is_options(document):
            return [("", Call(tuple(_as_words(document)), dict(environment)))]
    return _anywhere(document, environment)


def _workflow_values(value: Mapping[str, Any]) -> dict[str, str]:
    """`env` of a workflow, a job or a step, `environment` of CircleCI's, `variables` of a pipeline (texts, `value:`
    with its description, or a list of names and values), and what its inputs are unless somebody says otherwise."""
    pairs = value.get("variables")
    if isinstance(pairs, list):
        pairs = {one["name"]: one.get("value") for one in pairs if isinstance(one, dict) and "name" in one}
    listed = {key: one.get("value", "") if isinstance(one, dict) else one for key, one in _items(pairs)}
    texts = {**_texts(listed), **_texts(value.get("environment")), **_texts(value.get("env"))}
    own = {name: _EXPRESSION.sub(r"${\1}", text) for name, text in texts.items()}
    inputs = value.get("inputs")
    defaults = {
        str(name): str(one["default"])
        for name, one in _items(inputs)
        if isinstance(one, dict) and one.get("default") is not None
    }
    return {name: text for name, text in {**defaults, **own}.items() if "${" not in text}


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    return value.items() if isinstance(value, dict) else ()


def _unused(name: str, names: Mapping[str, Any]) -> str:
    number = 2
    while name in names:
        name = f"{name.removesuffix(f' {number - 1}')} {number}"
        number += 1
    return name


def is_litellm(document: Mapping[str, Any]) -> bool:
    models = document.get("model_list")
    return isinstance(models, list) and any(isinstance(one, dict) and "litellm_params" in one for one in models)


def is_options(document: Mapping[str, Any]) -> bool:
    """Whether it is a file for `vllm serve --config`: a model, and flags of vLLM's alone."""
    engine = engine_named(DEFAULT)
    flags = [f"--{str(key).replace('_', '-')}" for key in document]
    return isinstance(document.get("model"), str) and len(flags) > 1 and all(map(engine.knows_flag, flags))


def _as_words(options: Mapping[str, Any]) -> list[str]:
    """entrypoints/utils.py load_config_file: true is a flag, false none, and a list its words."""
    words = [*engine_named(DEFAULT).serve_command(str(options["model"]))]
    for key, value in options.items():
        if key == "model" or value is False:
            continue
        words.append(f"--{str(key).replace('_', '-')}")
        if value is not True:
            one = json.dumps(value) if isinstance(value, dict) else value
            words += [str(part) for part in (one if isinstance(one, list) else [one])]
    return words


def is_llama_swap(document: Mapping[str, Any]) -> bool:
    models = document.get("models")
    return isinstance(models, dict) and any(isinstance(m, dict) and "cmd" in m for m in models.values())


def _llama_swap(document: Mapping[str, Any], environment: Mapping[str, str]) -> list[tuple[str, Call]]:
    """llama-swap: a command for each model, with ${MACRO}s of the file (its README, "macros")."""
    macros = {"PORT": "8080"} | _texts(document.get("macros"))
    started: list[tuple[str, Call]] = []
    for key, model in document["models"].items():
        if not isinstance(model, dict) or not isinstance(model.get("cmd"), str):
            continue
        text = _with_macros(model["cmd"], {**macros, **_texts(model.get("macros")), "MODEL_ID": str(key)})
        variables = dict(pair.split("=", 1) for pair in model.get("env") or [] if isinstance(pair, str) and "=" in pair)
        lines = [line.split(" #")[0].rstrip("\\ ") for line in text.split("\n") if not line.lstrip().startswith("#")]
        started += [(str(key), call) for call in _script(" ".join(lines), {**environment, **variables})]
    return started


def _dstack(document: Mapping[str, Any], environment: Mapping[str, str]) -> list[tuple[str, Call]]:
    """dstack: `commands` run one after the other with `env` in force; the GPUs are `resources: gpu: H100:8`."""
    variables = _texts(document.get("env"))
    if isinstance(document.get("env"), list):
        variables = dict(str(pair).split("=", 1) for pair in document["env"] if "=" in str(pair))
    resources = document.get("resources")
    request = resources.get("gpu") if isinstance(resources, dict) else None
    if isinstance(request, dict):
        request = ":".join(
            str(request[key]) for key in ("name", "memory", "count") if isinstance(request.get(key), str | int)
        )
    name, _, number = re.sub(r":\d+GB\b", "", str(request or "")).partition(":")
    gpus = named_gpus.of_accelerators(f"{name}:{number}" if number.isdigit() else name)
    script = "\n".join(" ".join(line.split("\n")) if "\\\n" not in line else line
                       for line in map(str, document["commands"]))  # fmt: skip
    image = str(document.get("image") or "")
    label = str(document.get("name") or "")
    return [
        (label, replace(call, image=call.image or image, gpu_name=gpus.gpus, gpu_count=call.gpu_count))
        for call in _script(script, {**environment, **variables})
    ] or _anywhere(document, environment)


def _with_macros(text: str, macros: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        return macros.get(match[1], match[0])

    for _ in range(3):  # a macro may name another
        text = re.sub(r"\$\{([\w-]+)\}", value, text[:LIMIT])
    return text


def _texts(value: Any) -> dict[str, str]:
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, dict) else {}


def _script(text: str, environment: Mapping[str, str]) -> list[Call]:
    """The serve commands of one text among several: what cannot be read does not hide the rest."""
    try:
        return script_calls(text, environment)
    except OomphError as error:
        return [Call((), refusal=error)]


# keys that say how something is started, not what it is
_GENERIC = frozenset((
    "run", "command", "commands", "cmd", "args", "script", "scripts", "shell", "steps", "step", "tasks", "with", "env",
    "spec", "containers", "entrypoint", "exec", "before_script", "jobs", "services", "stages", "deploy",
))  # fmt: skip


def _container_task(task: Mapping[str, Any], environment: Mapping[str, str]) -> Call | None:
    """A playbook's container: `image` and `command` as docker would take them."""
    image, command = task.get("image"), task.get("command") or task.get("args")
    if not isinstance(image, str) or not docker.image_engine(image) or not isinstance(command, str | list):
        return None
    try:
        if isinstance(command, str):
            command = shell.commands(_playbook_values(command, environment), environment)[0].words
        words = [_playbook_values(str(word), environment) for word in command]
        return container_call(docker.container(image, words, {}))
    except OomphError as error:
        return Call((), refusal=error)


def _program(task: Mapping[str, Any], environment: Mapping[str, str]) -> Call | None:
    """pm2's `script` and VS Code's `command`, whose `args` stand beside them."""
    program, args = task.get("script") or task.get("command") or task.get("program"), task.get("args")
    if not isinstance(program, str) or not isinstance(args, str | list):
        return None
    try:
        words = shell_words(args) if isinstance(args, str) else [str(word) for word in args]
        return (
            peel([*shell_words(program), *words], environment) if engine_of([*shell_words(program), *words]) else None
        )
    except (OomphError, ValueError) as error:
        return Call((), refusal=error) if isinstance(error, OomphError) else None


def _playbook_values(text: str, variables: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        return variables.get(match[1]) or match[2] or match[3] or f"${{{match[1]}}}"

    return _PLAYBOOK.sub(value, text)


def _anywhere(value: Any, environment: Mapping[str, str], label: str = "", depth: int = 0) -> list[tuple[str, Call]]:
    """A workflow's steps, a playbook's tasks, a Taskfile: texts and lists of words that start a server."""
    if isinstance(value, str):
        if not SERVER.search(value) or len(value) >= LIMIT:
            return []
        # Azure's $(name) of a variable that the pipeline sets is no command's output
        value = re.sub(
            r"\$\((\w{1,80})\)", lambda match: f"${{{match[1]}}}" if match[1] in environment else match[0], value
        )
        value = _playbook_values(_EXPRESSION.sub(r"${\1}", value), environment)
        return [(label, call) for call in _script(value, environment)]
    if depth > 20 or not isinstance(value, dict | list):
        return []
    if isinstance(value, dict):
        environment = {**environment, **_texts(value.get("vars")), **_workflow_values(value)}  # a playbook's
        if started := _container_task(value, environment) or _program(value, environment):
            return [(str(value.get("name") or label), started)]
    if isinstance(value, list):
        words = [str(word) for word in value if isinstance(word, str | int | float)]
        if words and len(words) == len(value) and engine_of(words):
            try:
                return [(label, peel(words, environment))]
            except OomphError as error:
                return [(label, Call((), refusal=error))]
        return [pair for item in value for pair in _anywhere(item, environment, label, depth + 1)]
    title = value.get("name")
    label = title if isinstance(title, str) and title else label
    if sets := _matrix(value.get("strategy")):
        job = {key: item for key, item in value.items() if key != "strategy"}
        return [pair for own in sets for pair in _anywhere(job, {**environment, **own}, label, depth + 1)]
    image = _image_of_job(value)
    return [
        (inner, replace(call, image=call.image or image))
        for key, item in value.items()
        for inner, call in _anywhere(item, environment, label if str(key) in _GENERIC else str(key), depth + 1)
    ]


def _matrix(strategy: Any) -> list[dict[str, str]]:
    """The values with which a workflow starts a job: every one of each list with every one of the others."""
    matrix = strategy.get("matrix") if isinstance(strategy, dict) else None
    if not isinstance(matrix, dict):
        return []
    lists = {str(key): values for key, values in matrix.items() if isinstance(values, list) and key not in _BESIDE}
    sets = [dict(zip(lists, map(str, chosen), strict=True)) for chosen in islice(product(*lists.values()), _SETS)]
    more = matrix.get("include")
    rows = [_texts(row) for row in more if isinstance(row, dict)] if isinstance(more, list) else []
    return [*(sets if lists else []), *rows][:_SETS]


def _image_of_job(job: Mapping[str, Any]) -> str:
    """The container that a pipeline's job runs in: `image:`, `container:`, or their `name:` and `image:`."""
    for key in ("image", "container"):
        value = job.get(key)
        value = value.get("name") or value.get("image") if isinstance(value, dict) else value
        if isinstance(value, str) and docker.image_engine(value):
            return value
    return ""


def refuse_templates(text: str, name: str) -> None:
    if _TEMPLATE.search(text):
        value = re.search(r"\.Values\.[\w.]{1,80}", text)
        example = f" ({value[0]})" if value else ""
        raise CommandError(f"{short(name)} is a Helm template: what it makes{example} is not known before", hint=RENDER)


def _looks_like_values(document: Mapping[str, Any]) -> bool:
    image = document.get("image")
    return isinstance(image, dict) and ("repository" in image or "tag" in image)


def _skypilot(task: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Call]:
    """`run:` with `envs:`; the GPUs of a node come from `accelerators: H100:8`, its image from `image_id`."""
    resources = task.get("resources")
    resources = resources if isinstance(resources, dict) else {}
    gpus = named_gpus.of_accelerators(_choices(resources))
    count = _accelerators(resources.get("accelerators")) or (len(parse_gpus(gpus.gpus)) if gpus.gpus else 0)
    variables = {k: v for key in ("envs", "secrets") for k, v in _texts(task.get(key)).items() if v != "None"}
    nodes = task.get("num_nodes")
    nodes = nodes if isinstance(nodes, int) and 0 < nodes <= 1024 else 1
    variables["SKYPILOT_NUM_NODES"] = str(nodes)
    if count:
        variables["SKYPILOT_NUM_GPUS_PER_NODE"] = str(count)
    image = str(resources.get("image_id") or "").removeprefix("docker:")
    started = _script(f"{task.get('setup') or ''}\n{task['run']}", {**environment, **variables})
    return {
        str(number): replace(
            call,
            image=call.image or image,
            gpu_count=call.gpu_count or count * nodes,
            gpu_name=f"{nodes}x({gpus.gpus})" if nodes > 1 and gpus.gpus else gpus.gpus,
            notes=(*call.notes, *filter(None, (gpus.note,))),
        )
        for number, call in enumerate(started, 1)
    }


def _choices(resources: Mapping[str, Any]) -> Any:
    """`accelerators`, an `instance_type`, or those of `any_of` and `ordered`, which are choices."""
    if "accelerators" in resources:
        return resources["accelerators"]
    if isinstance(instance := resources.get("instance_type"), str):
        return instance
    lists = [resources.get(key) for key in ("any_of", "ordered")]
    return [
        str(item["accelerators"])
        for choices in lists
        if isinstance(choices, list)
        for item in choices
        if isinstance(item, dict) and item.get("accelerators")
    ]


def _accelerators(value: Any) -> int:
    """H100:8, {H100: 8}, {A100:8, A100-80GB:8}, [L4:1, A10G:1]: how many of the first; a name alone is one."""
    if isinstance(value, dict):
        name, number = next(iter(value.items()), ("", 0))
        value = name if number is None else f"{name}:{number}"
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, str):
        return 0
    number = first.partition(":")[2]
    return min(int(number), 1024) if number.isascii() and number.isdigit() and len(number) < 5 else 1
