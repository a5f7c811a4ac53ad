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


def environment_of(value: Any) -> tuple[dict[str, str], list[str]]:
    known: dict[str, str] = {}
    unknown: list[str] = []
    for item in value if isinstance(value, list) else []:
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            if "value" in item and item["value"] is not None:
                known[item["name"]] = yaml_word(item["value"])
            else:
                unknown.append(item["name"])
    return known, unknown


def gpus_of(resources: Any) -> int:
    for part in ("limits", "requests"):
        amounts = resources.get(part) if isinstance(resources, dict) else None
        for name in _GPU_RESOURCES:
            amount = str(amounts.get(name, "")) if isinstance(amounts, dict) else ""
            if amount.isascii() and amount.isdigit():
                return min(int(amount[:6]), 1 << 16)
    return 0
