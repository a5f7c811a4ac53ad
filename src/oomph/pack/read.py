"""Files and commands to the services of one machine, each under a name of its own."""

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from oomph.commands import files, read_deployments
from oomph.commands.manifests.jobs import is_llama_swap
from oomph.commands.manifests.yaml_text import load
from oomph.errors import CommandError
from oomph.ir import Deployment
from oomph.pack.swap import MOST, loaded_together


class Services(Struct, frozen=True):
    deployments: dict[str, Deployment]
    notes: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]  # those that run at the same time, where not all do


def read_services(words: Sequence[str], engine: str = "") -> Services:
    """Every word is a file or a whole command. What cannot be read is an error: a service that is left out would make
    room that is not there."""
    services: dict[str, Deployment] = {}
    notes: list[str] = []
    sets: list[tuple[str, ...]] = [()]
    for word in words:
        own: dict[str, str] = {}  # the name in the file -> the name among all services
        for entry in read_deployments([word], engine=engine or None):
            if entry.deployment is None:
                reason = entry.error.message if entry.error is not None else "it cannot be read"
                raise CommandError(f"{entry.name or word[:60]}: {reason}")
            plain = not entry.name or entry.name.isdigit()
            name = entry.deployment.model.rpartition("/")[2] if plain else entry.name
            own[entry.name] = _free_name(name, services)
            services[own[entry.name]] = entry.deployment
            notes += entry.deployment.notes
        document = _llama_swap(word)
        loaded = loaded_together(document, list(own)) if document is not None else [tuple(own)]
        sets = [(*others, *(own[name] for name in names)) for others in sets for names in loaded][:MOST]
    whole = len(sets) == 1 and len(sets[0]) == len(services)
    return Services(services, tuple(dict.fromkeys(notes)), () if whole else tuple(sets))


def _llama_swap(word: str) -> dict[str, Any] | None:
    if not files.is_text(word):
        return None
    text = files.read(word)
    if re.search(r"(?m)^models:", text) is None or re.search(r"(?m)^[ \t]+cmd:", text) is None:
        return None
    documents = [one for one in load(text, word) if isinstance(one, dict) and is_llama_swap(one)]
    return documents[0] if documents else None


def _free_name(name: str, taken: dict[str, Deployment]) -> str:
    number, free = 2, name
    while free in taken:
        free, number = f"{name} {number}", number + 1
    return free
