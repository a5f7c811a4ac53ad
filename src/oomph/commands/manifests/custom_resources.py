"""Custom resources that name a model and leave the container to an operator: KServe, Ray Serve, vLLM's own stack."""

import re
from collections.abc import Mapping, Sequence
from itertools import dropwhile
from typing import Any

from msgspec.structs import replace

from oomph.commands.call import Call, shown
from oomph.commands.manifests import operators
from oomph.commands.manifests.container_fields import environment_of, gpus_of, words_of
from oomph.commands.manifests.docker import image_engine
from oomph.commands.manifests.yaml_text import load
from oomph.engines.registry import DEFAULT, engine_named
from oomph.errors import CommandError, OomphError
from oomph.text.nesting import shell_words

# flags of KServe's huggingfaceserver itself (python/huggingfaceserver/__main__.py); the others are vLLM's
_HUGGINGFACESERVER = ("__model_id", "__model_name", "__model_dir", "__backend", "__task", "__model_revision")
_MOUNTED = "/mnt/models"  # where KServe's storage initializer puts what storageUri names
_VLLM_FORMATS = ("huggingface", "vllm")  # KServe's model formats whose runtime starts vLLM
# KServe's spec.parallelism -> vLLM's flag (pkg/apis/serving/v1alpha1/llm_inference_service_types.go)
_PARALLELISM = {
    "tensor": "--tensor-parallel-size",
    "pipeline": "--pipeline-parallel-size",
    "data": "--data-parallel-size",
    "dataLocal": "--data-parallel-size-local",
    "expert": "--enable-expert-parallel",
}

Started = dict[str, tuple[Call, dict[str, Any]]]  # name -> call and the pod that holds its labels


def calls(document: Mapping[str, Any], title: str, where: str, runtimes: Mapping[str, Any] | None = None) -> Started:
    """`runtimes`: the specs of the file's ServingRuntimes, by their names."""
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return {}
    kind = document.get("kind")
    if kind == "LLMInferenceService":
        return _llm_inference_service(spec, title, where)
    if kind == "VLLMRuntime":
        return _vllm_runtime(spec, title)
    if kind == "Model" and str(document.get("apiVersion")).startswith("kubeai.org/"):
        return operators.kubeai_model(spec, title)
    if kind == "DynamoGraphDeployment":
        return operators.dynamo_graph(spec, title, where)
    if isinstance(spec.get("serveConfigV2"), str):
        image = _worker_image(spec)
        started = ray_serve(spec["serveConfigV2"], where).items()
        return {f"{title}/{name}": (replace(call, image=image), spec) for name, call in started}
    return _inference_service(spec, title, where, runtimes or {})


def _vllm(model: str, words: Sequence[str]) -> tuple[str, ...]:
    return (*engine_named(DEFAULT).serve_command(model), *words)


def from_uri(uri: str) -> str:
    return uri.removeprefix("hf://")


def _inference_service(spec: Mapping[str, Any], title: str, where: str, runtimes: Mapping[str, Any]) -> Started:
    """An InferenceService that leaves the container to its runtime: `predictor.model` with args and storageUri."""
    predictor = spec.get("predictor")
    value = predictor.get("model") if isinstance(predictor, dict) else None
    if not isinstance(predictor, dict) or not isinstance(value, dict):
        return {}
    form = value.get("modelFormat")
    kind = str(form.get("name", "")).lower() if isinstance(form, dict) else ""
    container = _first_container(runtimes.get(str(value.get("runtime"))))
    if kind not in _VLLM_FORMATS and image_engine(str(container.get("image") or "")) != DEFAULT:
        return {}
    environment, _ = environment_of([*_listed(container.get("env")), *_listed(value.get("env"))])
    model = from_uri(str(value.get("storageUri") or "")) or _MOUNTED
    words: list[str] = []
    # the runtime's own words come first, behind its program (pkg/controller/v1beta1/inferenceservice)
    program = words_of([*_listed(container.get("command")), *_listed(container.get("args"))], environment, where)
    arguments = [*_flags_of(program), *words_of(value.get("args"), environment, where)]
    while arguments:
        flag, equals, text = arguments.pop(0).partition("=")
        if flag.replace("-", "_") in (*_HUGGINGFACESERVER, "__model"):
            text = text if equals or not arguments else arguments.pop(0)
            named = flag.replace("-", "_") in ("__model_id", "__model_dir", "__model")
            model = text if named and text != _MOUNTED else model
        else:
            words.append(flag + equals + text)
    notes = ("KServe's runtime is read as vllm serve",)
    count = gpus_of(value.get("resources") or container.get("resources"))
    image = str(container.get("image") or "")
    call = Call(_vllm(model, words), environment, image=image, gpu_count=count, notes=notes)
    return {f"{title}/model": (call, predictor)}


def _first_container(pod: Any) -> dict[str, Any]:
    containers = _listed(pod.get("containers")) if isinstance(pod, dict) else []
    return containers[0] if containers and isinstance(containers[0], dict) else {}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _flags_of(words: Sequence[str]) -> list[str]:
    """Flags and their values, no program."""
    return list(dropwhile(lambda word: not word.startswith("--"), words))


def _llm_inference_service(spec: Mapping[str, Any], title: str, where: str) -> Started:
    """`spec.model.uri`, `spec.parallelism`, and the flags of the container's args or VLLM_ADDITIONAL_ARGS."""
    model = spec.get("model")
    uri = model.get("uri") if isinstance(model, dict) else None
    if not isinstance(uri, str):
        return {}
    prefill = spec.get("prefill")
    if isinstance(prefill, dict):  # a server of its own, with the same model
        own = {key: value for key, value in spec.items() if key != "prefill"}
        halves = (own, f"{title}/decode"), ({**prefill, "model": model}, f"{title}/prefill")
        return {name: its for part, label in halves for name, its in _llm_inference_service(part, label, where).items()}
    pod = spec.get("template")
    pod = pod if isinstance(pod, dict) else {}
    container = _first_container(pod)
    environment, _ = environment_of(container.get("env"))
    words = []
    parallelism = spec.get("parallelism")
    for key, value in parallelism.items() if isinstance(parallelism, dict) else ():
        if flag := _PARALLELISM.get(str(key)):
            words += [flag] if value is True else [flag, str(value)] if value is not False else []
    arguments = words_of(container.get("args"), environment, where)
    words += dropwhile(lambda word: not word.startswith("-"), arguments)  # flags and their values, no program
    try:
        words += shell_words(environment.get("VLLM_ADDITIONAL_ARGS", ""))
    except ValueError as error:
        refusal = CommandError(f"{where}: VLLM_ADDITIONAL_ARGS cannot be read: {error}")
        return {title: (Call((), refusal=refusal), pod)}
    notes = ["KServe's LLMInferenceService is read as vllm serve"]
    served, called = from_uri(uri), str(model.get("name", "")) if isinstance(model, dict) else ""
    if served.startswith("pvc://") and called.count("/") == 1:
        notes.append(f"what lies at {shown(uri)} cannot be seen: planned as it is named, {shown(called)}")
        served = called
    call = Call(_vllm(served, words), environment, gpu_count=gpus_of(container.get("resources")), notes=tuple(notes))
    return {title: (call, pod)}


def _vllm_runtime(spec: Mapping[str, Any], title: str) -> Started:
    """The production stack's operator: `spec.model`, `spec.vllmConfig`, `spec.deploymentConfig.resources.gpu`."""
    model, config, deployment = (
        part if isinstance(part := spec.get(key), dict) else {} for key in ("model", "vllmConfig", "deploymentConfig")
    )
    url = model.get("modelURL")
    if not isinstance(url, str):
        return {}
    resources = deployment.get("resources")
    gpus = str(resources.get("gpu", "")) if isinstance(resources, dict) else ""
    image = deployment.get("image")
    name = str(image.get("name") or "") if isinstance(image, dict) else ""
    count = int(gpus) if gpus.isascii() and gpus.isdigit() and len(gpus) < 5 else 0
    words = [*camel_flags(model), *camel_flags(config)]
    return {title: (Call(_vllm(url, words), image=name, gpu_count=count), dict(deployment))}


def camel_flags(config: Mapping[str, Any]) -> list[str]:
    """maxModelLen: 8192 -> --max-model-len 8192, for the flags that vLLM has."""
    vllm = engine_named(DEFAULT)
    words: list[str] = []
    for key, value in config.items():
        flag = "--" + re.sub(r"(?<=[a-z0-9])([A-Z])", r"-\1", str(key).replace("LoRA", "Lora")).lower()
        if key == "extraArgs" and isinstance(value, list):
            words += map(str, value)
        elif value is None or isinstance(value, dict | list) or not vllm.knows_flag(flag):
            continue
        elif isinstance(value, bool):
            words += [flag] if value else []
        else:
            words += [flag, str(value)]
    return words


def _worker_image(spec: Mapping[str, Any]) -> str:
    """The image of a RayService's workers: its tag says the engine's release."""
    value: Any = spec
    for key in ("rayClusterConfig", "workerGroupSpecs", 0, "template", "spec", "containers", 0, "image"):
        if isinstance(key, int):
            value = value[key] if isinstance(value, list) and len(value) > key else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) and image_engine(value) else ""


def ray_serve(text: str, where: str) -> dict[str, Call]:
    """Ray Serve's configuration: `applications` with `llm_configs`; other applications are Python that is elsewhere."""
    out: dict[str, Call] = {}
    for document in load(text, where):
        applications = document.get("applications") if isinstance(document, dict) else None
        for application in applications if isinstance(applications, list) else []:
            if isinstance(application, dict):
                out |= _ray_application(application, where)
    return out


def _ray_application(application: Mapping[str, Any], where: str) -> dict[str, Call]:
    name = str(application.get("name") or "application")
    arguments = application.get("args")
    configs = arguments.get("llm_configs") if isinstance(arguments, dict) else None
    if not isinstance(configs, list):
        path = application.get("import_path")
        text = f"{where}: {name} runs the Python of {path}, which is not in this file"
        return {name: Call((), refusal=CommandError(text, hint="oomph plan FILE.py"))}
    environment = _ray_environment(application)
    return {
        _ray_name(name, config, number): _ray_call(config, where, environment)
        for number, config in enumerate(configs, 1)
    }


def _ray_name(application: str, config: Any, number: int) -> str:
    loading = config.get("model_loading_config") if isinstance(config, dict) else None
    return (
        str(loading.get("model_id"))
        if isinstance(loading, dict) and loading.get("model_id")
        else f"{application} {number}"
    )


def _ray_environment(settings: Mapping[str, Any]) -> dict[str, str]:
    """`runtime_env` of an application or of one of its models."""
    runtime = settings.get("runtime_env")
    variables = runtime.get("env_vars") if isinstance(runtime, dict) else None
    return {str(name): str(value) for name, value in variables.items()} if isinstance(variables, dict) else {}


def _ray_call(config: Any, where: str, environment: dict[str, str]) -> Call:
    loading = config.get("model_loading_config") if isinstance(config, dict) else None
    loading = loading if isinstance(loading, dict) else {}
    model = loading.get("model_source") or loading.get("model_id")
    if isinstance(model, dict):  # a bucket: what it holds is called by the id (ray.llm's CloudMirrorConfig)
        named = str(loading.get("model_id") or "")
        model = named if "/" in named else model.get("bucket_uri")
    if not isinstance(model, str):
        return Call((), refusal=CommandError(f"{where}: a model of llm_configs is not named in this file"))
    arguments = config.get("engine_kwargs")
    try:
        words = _keyword_flags(arguments if isinstance(arguments, dict) else {})
    except OomphError as error:
        return Call((), refusal=error)
    card = config.get("accelerator_type")
    notes = ("Ray Serve's llm_configs is read as vllm serve",)
    environment = environment | _ray_environment(config)
    return Call(_vllm(model, words), environment, gpu_name=str(card) if isinstance(card, str) else "", notes=notes)


def _keyword_flags(arguments: Mapping[str, Any]) -> list[str]:
    """tensor_parallel_size: 2 -> --tensor-parallel-size 2."""
    import json

    words: list[str] = []
    for key, value in arguments.items():
        flag = "--" + str(key).replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is False:
            words.append("--no-" + flag[2:])
        elif isinstance(value, dict | list):
            words += [flag, json.dumps(value)]
        elif value is not None:
            words += [flag, str(value)]
    return words
