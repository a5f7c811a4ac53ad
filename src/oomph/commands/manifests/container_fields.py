"""The fields of a Kubernetes container: its words, its variables, its GPUs."""

import re
from collections.abc import Mapping
from typing import Any

from oomph.errors import CommandError

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
# What LeaderWorkerSet sets in every pod (its documentation, "Environment variables"), as the first worker has it.
_LEADER_WORKER_SET = {"LWS_LEADER_ADDRESS": "leader", "LWS_WORKER_INDEX": "1", "LWS_GROUP_SIZE": "2"}
_GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")


def words_of(value: Any, environment: Mapping[str, str], where: str) -> list[str]:
    """A list of strings with $(NAME) filled in where the manifest says it; Kubernetes runs no shell here."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise CommandError(f"{where}: command and args are lists of strings")

    def filled(match: re.Match[str]) -> str:
        return environment.get(match[1], _LEADER_WORKER_SET.get(match[1], match[0])) if match[1] else "$"

    return [_REFERENCE.sub(filled, yaml_word(item)) for item in value]


def yaml_word(value: Any) -> str:
    return "true" if value is True else "false" if value is False else str(value)


def shared_environment(value: Any, settings: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """`envFrom`: all that the ConfigMaps of the same file hold."""
    environment: dict[str, str] = {}
    for item in value if isinstance(value, list) else []:
        reference = item.get("configMapRef") if isinstance(item, dict) else None
        environment |= settings.get(str(reference.get("name")), {}) if isinstance(reference, dict) else {}
    return environment


def _of_config_map(item: Mapping[str, Any], settings: Mapping[str, Mapping[str, str]]) -> str | None:
    source = item.get("valueFrom")
    reference = source.get("configMapKeyRef") if isinstance(source, dict) else None
    if not isinstance(reference, dict):
        return None
    return settings.get(str(reference.get("name")), {}).get(str(reference.get("key")))


def environment_of(
    value: Any, settings: Mapping[str, Mapping[str, str]] | None = None
) -> tuple[dict[str, str], list[str]]:
    """(variables that the manifest sets, names of those that come from elsewhere); `settings`: its ConfigMaps."""
    environment: dict[str, str] = {}
    unknown: list[str] = []
    for item in value if isinstance(value, list) else []:
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            if "value" in item and item["value"] is not None:
                environment[item["name"]] = yaml_word(item["value"])
            elif (text := _of_config_map(item, settings or {})) is not None:
                environment[item["name"]] = text
            else:
                unknown.append(item["name"])
    return environment, unknown


def gpus_of(resources: Any) -> int:
    for part in ("limits", "requests"):
        amounts = resources.get(part) if isinstance(resources, dict) else None
        for name in _GPU_RESOURCES:
            amount = str(amounts.get(name, "")) if isinstance(amounts, dict) else ""
            if amount.isascii() and amount.isdigit():
                return min(int(amount[:6]), 1 << 16)
    return 0


def node_folders_of(container: Mapping[str, Any], pod: Mapping[str, Any]) -> dict[str, str]:
    """Path in the container -> the folder of its node that is mounted there (`hostPath`)."""
    folders = {}
    for volume in _entries(pod, "volumes"):
        source = volume.get("hostPath")
        path = source.get("path") if isinstance(source, dict) else None
        if isinstance(path, str) and path.startswith("/"):
            folders[volume.get("name")] = path.rstrip("/")
    return {
        str(mount.get("mountPath")).rstrip("/"): "/".join(
            filter(None, (folders[mount["name"]], str(mount.get("subPath") or "").strip("/")))
        )
        for mount in _entries(container, "volumeMounts")
        if isinstance(mount.get("name"), str)
        and mount["name"] in folders
        and str(mount.get("mountPath")).startswith("/")
    }


def _entries(value: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    entries = value.get(key)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
