"""A compose file with the files that `docker compose` reads beside it: its override, and those that services extend."""

import os
from collections.abc import Mapping
from typing import Any

from oomph.commands import files
from oomph.commands.manifests.yaml_text import load
from oomph.errors import CommandError
from oomph.sources import boundary

# the name of a project's file -> that of what is laid over it (compose-spec, "Default compose file names")
_OVERRIDES = {
    f"{stem}.{ending}": tuple(f"{stem}.override.{other}" for other in ("yml", "yaml"))
    for stem in ("compose", "docker-compose")
    for ending in ("yml", "yaml")
}
_REPLACED = ("command", "entrypoint", "healthcheck")  # lists that are not joined (compose-spec, "Merge")
_DEEPEST = 8


def with_override_and_bases(text: str, path: str) -> str:
    """The text as it is where nothing beside it counts; else the merged project."""
    override = _override_of(path)
    if not override and "extends" not in text:
        return text
    try:
        project = _services(text, path)
        for place in filter(None, (override,)):
            project = _merged(project, _services(files.read(place), place))
        extended = {name: _with_base(service, os.path.dirname(path)) for name, service in project.items()}
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
