"""Files that hold a serve command: read with a limit, told apart by name and content."""

from __future__ import annotations

import os
import re
from typing import Literal

from oomph.commands.values import short
from oomph.errors import CommandError

_LIMIT = 1 << 20

Sort = Literal["compose", "kubernetes", "python", "shell"]


def read(path: str) -> str:
    try:
        if not os.path.isfile(path):
            raise CommandError(f"{short(path)} is not a file")
        with open(path, "rb") as file:
            data = file.read(_LIMIT + 1)
    except (OSError, ValueError) as error:
        raise CommandError(f"{short(path)} cannot be read: {error}") from None
    if len(data) > _LIMIT:
        raise CommandError(f"{short(path)} is over {_LIMIT} bytes: too long to hold a serve command")
    return data.decode("utf-8", "replace")


def unit_script(text: str) -> str:
    """A systemd unit's Environment= and ExecStart= lines as a shell would have them."""
    lines = re.findall(r"^(Environment|ExecStart)=((?:[^\n]*\\\n)*[^\n]*)$", text, re.MULTILINE)
    return "\n".join(f"export {rest}" if key == "Environment" else rest.lstrip("-@:+!") for key, rest in lines)


def sort_of(text: str, name: str = "") -> Sort:
    """What a text is, by its name's ending and by its first telling lines."""
    if name.endswith((".py", ".ipynb")):
        return "python"
    if name.endswith((".sh", ".bash", ".zsh", ".service")):
        return "shell"
    if text.lstrip().startswith("{") and '"apiVersion"' in text and '"kind"' in text:
        return "kubernetes"
    if all(re.search(rf"^[ -]*{key}:\s*\S", text, re.MULTILINE) for key in ("kind", "apiVersion")):
        return "kubernetes"
    if re.search(r"^services:\s*(?:#.*)?$", text, re.MULTILINE) or name.endswith((".yaml", ".yml")):
        return "compose"
    if re.search(r"^\s*(?:from|import)\s+vllm\b|\bLLM\s*\(|\b(?:Async)?EngineArgs\s*\(", text, re.MULTILINE):
        return "python"
    return "shell"
