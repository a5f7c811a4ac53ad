"""LoRA adapters that a command names: folders with an adapter_config.json, as PEFT writes them."""

import json
import os
from collections.abc import Iterator
from typing import Any

from oomph.sources.json_input import read_object
from oomph.sources.place import path_here
from oomph.text.nesting import bounded

CONFIG = "adapter_config.json"


def adapter_paths(value: object, name_key: str, path_key: str) -> Iterator[tuple[str, str]]:
    """(name, path) of name=path, of a path alone, or of JSON with the two keys."""
    for item in value if isinstance(value, list | tuple) else ():
        text = str(item).strip()
        if text.startswith("{"):
            try:
                fields = json.loads(bounded(text))
            except (ValueError, RecursionError):
                continue
            if isinstance(fields, dict) and isinstance(fields.get(path_key), str):
                yield str(fields.get(name_key, "")), fields[path_key]
        elif text:
            name, sign, path = text.partition("=")
            yield name, path if sign else name


def read_config(path: str) -> tuple[str, dict[str, Any]] | None:
    """The folder and its config; None where the process would see no such folder: one of the hub is not looked at."""
    folder = path_here(path)
    if not folder or not os.path.isfile(os.path.join(folder, CONFIG)):
        return None
    return folder, dict(read_object(os.path.join(folder, CONFIG)))


def rank_of(config: dict[str, Any]) -> int:
    """The largest of its modules."""
    pattern = config.get("rank_pattern")
    ranks = [config.get("r"), *(pattern.values() if isinstance(pattern, dict) else ())]
    return max((n for n in ranks if isinstance(n, int) and not isinstance(n, bool)), default=0)
