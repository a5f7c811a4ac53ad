"""A compose file with the files that `docker compose` reads beside it: its override, those that services extend, and
the scripts that it mounts and starts."""

import os
from collections.abc import Mapping
from typing import Any

from oomph.commands import files
from oomph.commands.manifests.yaml_text import load
from oomph.errors import CommandError
from oomph.sources import boundary
from oomph.text.late import late_pattern

# the name of a project's file -> that of what is laid over it (compose-spec, "Default compose file names")
_OVERRIDES = {
    f"{stem}.{ending}": tuple(f"{stem}.override.{other}" for other in ("yml", "yaml"))
    for stem in ("compose", "docker-compose")
    for ending in ("yml", "yaml")
}
_REPLACED = ("command", "entrypoint", "healthcheck")  # lists that are not joined (compose-spec, "Merge")
_DEEPEST = 8
_SCRIPT = late_pattern(r"\.(?:ba)?sh\b")
_SHELLS = ("sh", "bash", "/bin/sh", "/bin/bash", "/usr/bin/bash")


def with_override_and_bases(text: str, path: str) -> str:
    """The text as it is where nothing beside it counts; else the merged project."""
    override = _override_of(path)
    if not override and "extends" not in text and not _SCRIPT.search(text):
        return text
    try:
        project = _services(text, path)
        for place in filter(None, (override,)):
            project = _merged(project, _services(files.read(place), place))
        folder = os.path.dirname(path)
        extended = {name: _with_script(_with_base(service, folder), folder) for name, service in project.items()}
    except CommandError:
        return text  # its own reader says what is wrong with it
    if extended == project and not override:
        return text
    import yaml

    return yaml.safe_dump({"services": extended}, sort_keys=False, width=1000)


def _override_of(path: str) -> str:
    folder = os.path.dirname(path)
    places = (os.path.join(folder, name) for name in _OVERRIDES.get(os.path.basename(path), ()))
    return next((place for place in places if boundary.is_file(place)), "")


def _services(text: str, path: str) -> dict[str, Any]:
    documents = load(text, path)
    services = documents[0].get("services") if len(documents) == 1 and isinstance(documents[0], dict) else None
    return services if isinstance(services, dict) else {}


def _with_base(service: Any, folder: str, depth: int = 0) -> Any:
    """The service over the one of another file that it extends."""
    base = service.get("extends") if isinstance(service, dict) else None
    if not isinstance(base, dict) or not isinstance(base.get("file"), str) or depth > _DEEPEST:
        return service
    place = os.path.join(folder, base["file"])
    if not boundary.is_file(place):
        return service
    there = _services(files.read(place), place).get(str(base.get("service")))
    if not isinstance(there, dict):
        return service
    own = {key: value for key, value in service.items() if key != "extends"}
    whole: dict[str, Any] = _merged(_with_base(there, os.path.dirname(place), depth + 1), own)
    return whole


def _with_script(service: Any, folder: str) -> Any:
    """The service with a script that it mounts from beside it in the place of the script's path."""
    volumes = service.get("volumes") if isinstance(service, dict) else None
    texts = [volume for volume in volumes if isinstance(volume, str)] if isinstance(volumes, list) else []
    pairs = [text.split(":") for text in texts if ":" in text]
    mounted = {there: os.path.join(folder, here) for here, there, *_ in pairs}
    for key in ("entrypoint", "command"):
        words = service.get(key) if isinstance(service, dict) else None
        words = words.split() if isinstance(words, str) and "\n" not in words else words
        if not isinstance(words, list) or not words:
            continue
        shell, rest = ([str(words[0])], words[1:]) if words[0] in _SHELLS else (["/bin/sh"], words)
        place = mounted.get(str(rest[0])) if rest else None
        if place and boundary.is_file(place):
            text = files.read(place).replace("$", "$$")  # compose fills in what has one
            return {**service, key: [*shell, "-c", text, *map(str, rest)]}
    return service


def _merged(under: Any, over: Any, key: str = "") -> Any:
    """compose's merge: mappings by their keys, lists joined, what starts the container replaced."""
    if key == "environment":
        under, over = _pairs(under), _pairs(over)
    if isinstance(under, Mapping) and isinstance(over, Mapping):
        both = {
            name: _merged(under[name], value, str(name)) if name in under else value for name, value in over.items()
        }
        return {**under, **both}
    if isinstance(under, list) and isinstance(over, list) and key not in _REPLACED:
        return [*under, *over]
    return over


def _pairs(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    split = [str(item).partition("=") for item in value]
    return {name: text if sign else None for name, sign, text in split}
