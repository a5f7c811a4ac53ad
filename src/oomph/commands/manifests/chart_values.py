"""Values of Helm charts that say what is started: vLLM's production stack, llm-d, Ollama, an image with arguments."""

from collections.abc import Mapping
from typing import Any

from oomph.commands.call import Call
from oomph.commands.manifests import docker
from oomph.commands.manifests.container_fields import environment_of, gpus_of, words_of
from oomph.commands.manifests.custom_resources import camel_flags, from_uri
from oomph.commands.manifests.operators import Started, kubeai_model
from oomph.commands.wrappers import container_call
from oomph.engines.registry import DEFAULT, all_engines, engine_named
from oomph.errors import OomphError

# llm-d-modelservice: the keys of `parallelism` (its templates/_helpers.tpl)
_MODEL_SERVICE_SIZES = (("tensor", "--tensor-parallel-size"), ("data", "--data-parallel-size"))
_STARTS_VLLM = ("vllmServe", "imageDefault")  # its values of `modelCommand`
_NAMES_MODEL = ("--model", "--model-path")


def of_chart_values(values: Mapping[str, Any]) -> list[tuple[str, Call]]:
    """An engine's image with all its arguments, or the models that an engine's own chart is to pull and run."""
    for engine in all_engines():
        part = values.get(engine.name)
        models = part.get("models") if isinstance(part, dict) else None
        if isinstance(models, dict):  # otwld/ollama-helm
            names = models.get("run") or models.get("pull")
            texts = [str(name) for name in names] if isinstance(names, list) else []
            return [(name, Call((*engine.programs[:1], "run", name))) for name in texts]
    if isinstance(models := values.get("catalog"), dict):  # KubeAI's own chart of models
        started: Started = {}
        for name, model in models.items():
            if isinstance(model, dict) and model.get("enabled"):
                started |= kubeai_model(model, str(name))
        return [(name, call) for name, (call, _) in started.items()]
    if not isinstance(values.get("image"), dict):
        return []
    image = f"{values['image'].get('repository')}:{values['image'].get('tag') or 'latest'}"
    words = values.get("args") or values.get("extraArgs")
    named = isinstance(words, list) and any(str(word).partition("=")[0] in _NAMES_MODEL for word in words)
    if not named or not docker.image_engine(image):
        return []
    environment, _ = environment_of(values.get("env"))
    count = gpus_of(values.get("resources"))
    arguments = words_of(words, environment, "args")
    program = words_of(values["command"], environment, "command") if isinstance(values.get("command"), list) else []
    call = docker.container(image, arguments, environment, entrypoint=program or None, gpu_count=count)
    return [("values", container_call(call))]


def model_service(values: Mapping[str, Any]) -> dict[str, Call]:
    """llm-d-modelservice: `modelArtifacts.uri`, then the containers of `decode` and `prefill` (its values.yaml)."""
    uri = values["modelArtifacts"].get("uri")
    out: dict[str, Call] = {}
    for role in ("decode", "prefill") if isinstance(uri, str) else ():
        pods = values.get(role)
        if not isinstance(pods, dict) or pods.get("create") is False:
            continue
        parallelism = pods.get("parallelism")
        sizes: dict[str, Any] = parallelism if isinstance(parallelism, dict) else {}
        shared: list[str] = []
        for key, flag in _MODEL_SERVICE_SIZES:
            shared += [flag, str(sizes[key])] if sizes.get(key) else []
        for container in pods.get("containers") or []:
            if not isinstance(container, dict) or container.get("modelCommand") not in _STARTS_VLLM:
                continue
            environment, _ = environment_of(container.get("env"))
            program, *serve = engine_named(DEFAULT).serve_command(from_uri(uri))
            words = [*serve, *shared, *words_of(container.get("args"), environment, role)]
            image, count = str(container.get("image") or ""), gpus_of(container.get("resources"))
            call = docker.container(image, words, environment, entrypoint=[program], gpu_count=count)
            out[f"{role}/{container.get('name') or program}"] = container_call(call)
    return out


def production_stack(spec: Mapping[str, Any]) -> dict[str, Call]:
    """vllm-project/production-stack: modelSpec entries with vllmConfig's camel-case flags and extraArgs."""
    out: dict[str, Call] = {}
    models = spec.get("modelSpec")
    for model in models if isinstance(models, list) else []:
        if not isinstance(model, dict) or not isinstance(model.get("modelURL"), str):
            continue
        config = model.get("vllmConfig")
        flags = [*camel_flags(model), *camel_flags(config if isinstance(config, dict) else {})]
        words = ["vllm", "serve", model["modelURL"], *flags]
        image = f"{model.get('repository') or 'vllm/vllm-openai'}:{model.get('tag') or 'latest'}"
        gpus = model.get("requestGPU")
        count = gpus if isinstance(gpus, int) and 0 < gpus <= 1024 else 0
        call = docker.container(image, words[1:], {}, entrypoint=words[:1], gpu_count=count)
        key = str(model.get("name") or len(out) + 1)
        try:
            out[key] = container_call(call)
        except OomphError as error:
            out[key] = Call((), refusal=error)
    return out
