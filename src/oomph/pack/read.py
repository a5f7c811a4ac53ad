"""Files and commands to the services of one machine, each under a name of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from oomph.commands import files, read_deployments
from oomph.errors import CommandError
from oomph.ir.deployment import Deployment


class Services(Struct, frozen=True):
    deployments: dict[str, Deployment]
    notes: tuple[str, ...] = ()


def read_services(words: Sequence[str], engine: str = "") -> Services:
    """Every word is a file or a whole command. What cannot be read is an error: a service that is left out would make
    room that is not there."""
    services: dict[str, Deployment] = {}
    notes: list[str] = []
    for word in words:
        for entry in read_deployments([word], engine=engine or None):
            if entry.deployment is None:
                reason = entry.error.message if entry.error is not None else "it cannot be read"
                raise CommandError(f"{entry.name or word[:60]}: {reason}")
            plain = not entry.name or entry.name.isdigit()
            name = entry.deployment.model.rpartition("/")[2] if plain else entry.name
            services[_free_name(name, services)] = entry.deployment
            notes += entry.deployment.notes
        notes += [_ONE_AT_A_TIME] if _is_llama_swap(word) else []
    return Services(services, tuple(dict.fromkeys(notes)))


_ONE_AT_A_TIME = (
    "llama-swap loads one of its models at a time unless a group says otherwise: this answer is for all at once, "
    "oomph plan FILE is for each alone"
)


def _is_llama_swap(word: str) -> bool:
    if not files.is_text(word):
        return False
    text = files.read(word)
    return re.search(r"(?m)^models:", text) is not None and re.search(r"(?m)^\s+cmd:", text) is not None


def _free_name(name: str, taken: dict[str, Deployment]) -> str:
    number, free = 2, name
    while free in taken:
        free, number = f"{name} {number}", number + 1
    return free
