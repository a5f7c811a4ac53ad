"""Resources of operators that bring the server with them: KubeAI's Model, NVIDIA Dynamo's graph of workers."""

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from oomph.commands.call import Call
from oomph.commands.manifests import docker
from oomph.commands.manifests.container_fields import environment_of, gpus_of, words_of, yaml_word
from oomph.commands.named_gpus import of_accelerators
from oomph.commands.wrappers import container_calls, numbered
from oomph.engines.registry import NAMES, engine_named
from oomph.errors import OomphError

Started = dict[str, tuple[Call, dict[str, Any]]]  # as custom_resources has it
# the scheme of a KubeAI address -> how the engine is given what it names
_ADDRESS = re.compile(r"(?:hf|ollama)://(?:[\w.-]+\.[a-z]{2,}/(?=\w+:))?")


def kubeai_model(spec: Mapping[str, Any], title: str) -> Started:
    """`url`, `engine`, `args`, and `resourceProfile: nvidia-gpu-l4:2` (KubeAI's api/k8s/v1/model_types.go)."""
    url, name = spec.get("url"), str(spec.get("engine") or "").lower()
    if not isinstance(url, str) or name not in NAMES:
        return {}
    engine = engine_named(name)
    model = _ADDRESS.sub("", url, count=1)
    words = [engine.programs[0], "run", model] if engine.plain_names else engine.serve_command(model)
    environment = spec.get("env")
    variables = {str(k): yaml_word(v) for k, v in environment.items()} if isinstance(environment, dict) else {}
    args = words_of(spec.get("args"), variables, title)
    profile, _, number = str(spec.get("resourceProfile") or "").partition(":")
    count = min(int(number), 1024) if number.isascii() and number.isdigit() and len(number) < 5 else 1
    card = re.sub(r"^(?:nvidia|amd)-gpu-", "", profile)
    gpus = of_accelerators(f"{card}:{count}" if card != profile else None)
    call = Call(
        (*words, *args), variables, image=str(spec.get("image") or ""), gpu_count=count if card != profile else 0,
        gpu_name=gpus.gpus, notes=(f"KubeAI's Model is read as {' '.join(words[:-1])}",),
    )  # fmt: skip
    return {title: (call, {})}


def dynamo_graph(spec: Mapping[str, Any], title: str, where: str) -> Started:
    """The workers of `services`: their `extraPodSpec.mainContainer` with the GPUs of `resources` on each node."""
    out: Started = {}
    services = spec.get("services")
    for name, service in services.items() if isinstance(services, dict) else ():
        pod = service.get("extraPodSpec") if isinstance(service, dict) else None
        container = pod.get("mainContainer") if isinstance(pod, dict) else None
        if not isinstance(container, dict):
            continue
        environment, _ = environment_of(
            [*(spec.get("envs") or []), *(service.get("envs") or []), *(container.get("env") or [])]
        )
        key = f"{title}/{name}"
        try:
            command = words_of(container.get("command"), environment, key)
            args = words_of(container.get("args"), environment, key)
            if not any("dynamo." in word and "frontend" not in word for word in (*command, *args)):
                continue
            image = str(container.get("image") or "")
            call = docker.container(image, args, environment, entrypoint=command, gpu_count=_gpus(service))
            started = container_calls(call)
        except OomphError as error:
            started = [Call((), refusal=error)]
        out |= {label: (replace(one, image=""), dict(pod or {})) for label, one in numbered(key, started).items()}
    return out


def _gpus(service: Mapping[str, Any]) -> int:
    resources, nodes = service.get("resources"), service.get("multinode")
    amounts = resources.get("limits") or resources.get("requests") if isinstance(resources, dict) else None
    text = str(amounts.get("gpu", "")) if isinstance(amounts, dict) else ""
    count = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else gpus_of(resources)
    several = nodes.get("nodeCount") if isinstance(nodes, dict) else None
    return count * (several if isinstance(several, int) and 1 < several <= 1024 else 1)
