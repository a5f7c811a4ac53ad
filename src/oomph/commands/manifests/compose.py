"""A compose file to the serve commands of its services."""

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from oomph.commands import shell
from oomph.commands.call import PROGRAM, Call, short, shown
from oomph.commands.manifests import docker, memory_limit
from oomph.commands.manifests.container_fields import yaml_word
from oomph.commands.manifests.yaml_text import load
from oomph.commands.wrappers import container_calls, numbered, starts
from oomph.engines.registry import DEFAULT
from oomph.errors import CommandError, OomphError

_DEEPEST = 8  # services that extend one another
_VARIABLE = re.compile(r"\$(?:\$|\{([A-Za-z_][A-Za-z0-9_]*)(?::?([-?+])([^}]{0,4096}))?\}|([A-Za-z_][A-Za-z0-9_]*))")


def calls(text: str, environment: Mapping[str, str], name: str = "compose.yaml") -> dict[str, Call]:
    """service -> call, for the services that run an engine."""
    documents = load(text, name)
    services = documents[0].get("services") if len(documents) == 1 and isinstance(documents[0], dict) else None
    if not isinstance(services, dict):
        raise CommandError(f"{short(name)} has no services")
    out: dict[str, Call] = {}
    bases = {_base_of(service) for service in services.values()}
    for key, service in services.items():
        service = _extended(service, services)
        if key in bases and isinstance(service, dict) and not service.get("command"):
            continue  # what others extend, and what starts nothing by itself
        if isinstance(service, dict) and _runs_engine(service):
            out |= numbered(str(key), _calls_or_refusal(service, environment, shown(f"{name}: service {key}")))
    return _on_their_servers(out)


def _on_their_servers(calls: dict[str, Call]) -> dict[str, Call]:
    """A service that only has a model fetched by another one's server (`OLLAMA_HOST: ollama:11434`): it runs there."""
    servers = {key: call for key, call in calls.items() if not starts(call)}
    out = {}
    for key, call in calls.items():
        hosts = {value.partition("://")[2] or value for value in call.environment.values()}
        server = next(
            (one for name, one in servers.items() if {name, f"{name}:"} & {h[: len(name) + 1] for h in hosts}), None
        )
        if server is not None and starts(call):
            call = replace(
                server, words=call.words, environment={**server.environment, **call.environment}, notes=call.notes
            )
        out[key] = call
    return out


def _base_of(service: Any) -> str:
    """The service of the same file that this one extends; "" = none."""
    base = service.get("extends") if isinstance(service, dict) else None
    if isinstance(base, dict):
        return "" if base.get("file") else str(base.get("service") or "")
    return base if isinstance(base, str) else ""


def _extended(service: Any, services: Mapping[Any, Any], depth: int = 0) -> Any:
    base = services.get(_base_of(service))
    if not isinstance(base, dict) or not isinstance(service, dict) or depth > _DEEPEST:
        return service
    return {**_extended(base, services, depth + 1), **service}


def _runs_engine(service: Mapping[str, Any]) -> bool:
    text = f"{service.get('command') or ''} {service.get('entrypoint') or ''}"
    image = str(service.get("image") or "")
    if "curl" in image.rpartition("/")[2]:  # it asks a server something, by its address
        return False
    return bool(docker.image_engine(image) or PROGRAM.search(text))


def _calls_or_refusal(service: Mapping[str, Any], environment: Mapping[str, str], where: str) -> list[Call]:
    try:
        return _calls(service, environment, where)
    except OomphError as error:  # the other services can still be planned
        return [Call((), refusal=error)]


_DEVICES = frozenset(("gpus", "runtime", "devices", "privileged", "annotations"))  # what hands a service its GPUs


def _calls(service: Mapping[str, Any], environment: Mapping[str, str], where: str) -> list[Call]:
    inside = _environment(service.get("environment"), environment, where)
    image = _fill(str(service.get("image") or ""), environment, where)
    entry = service.get("entrypoint")
    entrypoint = _words(entry, environment, where) if entry is not None else None
    command = _words(service.get("command"), environment, where)
    notes = []
    if service.get("env_file"):
        notes.append(f"{where}: the variables of its env_file are not the container's here")
    count, ids = _gpus(service)
    deploy = str(service.get("deploy"))
    has_gpus = _DEVICES & service.keys() or "devices" in deploy or "generic_resources" in deploy
    if not has_gpus and docker.GPU_VARIABLE not in inside:
        notes.append(docker.NO_GPU.format("gpus: all"))
    if not image:
        image = f"{DEFAULT} (built)"  # `build:`: nothing says which release
    call = docker.container(image, command, inside, entrypoint=entrypoint, gpu_count=count, notes=notes)
    mounts, limit = _mounts(service.get("volumes"), environment, where), memory_limit.of_service(service)
    return [replace(one, mounts=mounts, memory_limit=limit, gpu_ids=ids) for one in container_calls(call)]


def _words(value: Any, environment: Mapping[str, str], where: str) -> list[str]:
    if value is None:
        return []
    if isinstance(value, list):
        return [_fill(yaml_word(item), environment, where) for item in value]
    commands = shell.commands(_fill(yaml_word(value), environment, where).replace("\n", " "), environment)
    return [word for command in commands for word in command.words]


def _environment(value: Any, outer: Mapping[str, str], where: str) -> dict[str, str]:
    out: dict[str, str] = {}
    if isinstance(value, dict):
        pairs = [(str(k), None if v is None else yaml_word(v)) for k, v in value.items()]
    elif isinstance(value, list):
        split = [yaml_word(item).partition("=") for item in value]
        pairs = [(k, v if sign else None) for k, sign, v in split]
    else:
        return out
    for key, text in pairs:
        if text is not None:
            out[key] = _fill(text, outer, where, strict=False)
        elif key in outer:
            out[key] = outer[key]
    return out


def _fill(text: str, environment: Mapping[str, str], where: str, *, strict: bool = True) -> str:
    """${NAME:-default} as compose fills it in."""

    def replaced(match: re.Match[str]) -> str:
        name = match[1] or match[4]
        if name is None:
            return "$"
        value = environment.get(name)
        if value:
            return match[3] or "" if match[2] == "+" else value
        if match[2] == "-":
            return match[3]
        if strict and match[2] != "+":
            return f"${{{name}}}"  # a model that is left open is a question, a key is of no account
        return ""

    return _VARIABLE.sub(replaced, text)


def _mounts(volumes: Any, environment: Mapping[str, str], where: str) -> dict[str, str]:
    texts = []
    for volume in volumes if isinstance(volumes, list) else []:
        if isinstance(volume, dict):
            volume = f"{volume.get('source', '')}:{volume.get('target', '')}"
        texts.append(_fill(str(volume), environment, where, strict=False))
    return docker.mounts_of(texts)


def _gpus(service: Mapping[str, Any]) -> tuple[int, str]:
    """(how many, which by number) of deploy.resources.reservations.devices, or the short `gpus:`."""
    devices: Any = service.get("gpus")
    if devices is None:
        devices = service
        for key in ("deploy", "resources", "reservations", "devices"):
            devices = devices.get(key) if isinstance(devices, dict) else None
    if isinstance(devices, str | int):
        return docker.gpus_option(str(devices))
    for device in devices if isinstance(devices, list) else []:
        if not isinstance(device, dict):
            continue
        ids = device.get("device_ids")
        if isinstance(ids, list):
            numbers = [one.strip() for part in ids for one in str(part).split(",") if one.strip()]
            return len(numbers), ",".join(numbers)
        count = device.get("count")
        if isinstance(count, int) and not isinstance(count, bool) and 0 < count < 1 << 16:
            return count, ""
    return 0, ""
