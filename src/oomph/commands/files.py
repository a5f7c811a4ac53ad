"""Files that hold a serve command: read with a limit, told apart by name and content."""

from __future__ import annotations

import os
import re
from typing import Literal

from oomph import boundary
from oomph.commands.call import PROGRAM
from oomph.commands.shown import short
from oomph.errors import CommandError
from oomph.late import late_pattern

_LIMIT = 1 << 20
_NOTEBOOK_LIMIT = 16 << 20  # their outputs hold pictures

Sort = Literal[
    "compose", "dockerfile", "kubernetes", "makefile", "markdown", "notebook", "python", "shell", "unit", "yaml"
]
_PYTHON = late_pattern(
    lambda: rf"^\s*(?:from|import)\s+{PROGRAM.pattern}|\bLLM\s*\(|\b(?:Async)?EngineArgs\s*\(", re.MULTILINE
)
# what is named alone and ends so is a model, never a text with a command
_MODELS = (".gguf", ".safetensors", ".bin", ".pt", ".pth", ".json", ".jsonl", ".log")


def is_text(path: str) -> bool:
    """Whether a word that stands alone names a file to look for a command in."""
    try:
        return boundary.is_file(path) and not path.lower().endswith(_MODELS)
    except ValueError:
        return False


def read(path: str) -> str:
    limit = _NOTEBOOK_LIMIT if path.endswith(".ipynb") else _LIMIT
    try:
        if not boundary.is_file(path):
            boundary.require(path)
            raise CommandError(f"{short(path)} is not a file")
        with open(path, "rb") as file:
            data = file.read(limit + 1)
    except (OSError, ValueError) as error:
        raise CommandError(f"{short(path)} cannot be read: {error}") from None
    if len(data) > limit:
        raise CommandError(f"{short(path)} is over {limit} bytes: too long to hold a serve command")
    if b"\0" in data:
        raise CommandError(f"{short(path)} is not text: no serve command can be in it")
    return data.decode("utf-8-sig", "replace")


def variables(path: str) -> dict[str, str]:
    """The K=V lines of an .env file; {} where there is none."""
    try:
        text = read(path) if boundary.is_file(path) else ""
    except CommandError:
        return {}
    pairs = re.findall(r"^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)=(.*?)[ \t]*$", text, re.MULTILINE)
    return {name: _unquoted(value) for name, value in pairs}


def _unquoted(value: str) -> str:
    quoted = re.match(r"""(["'])(.*?)\1""", value)
    return quoted[2] if quoted else re.sub(r"(?<!\s)\s+#.*$", "", value)


def unit_script(text: str) -> str:
    """A systemd unit's Environment= and ExecStart= lines as a shell would have them."""
    lines = re.findall(r"^(Environment|ExecStart)=((?:[^\n]*\\\n)*[^\n]*)$", text, re.MULTILINE)
    lines.sort(key=lambda line: line[0])  # a unit's variables hold wherever they stand
    return "\n".join(f"export {rest}" if key == "Environment" else rest.lstrip("-@:+!") for key, rest in lines)


def sort_of(text: str, name: str = "") -> Sort:
    """What a text is, by its name's ending and by its first telling lines."""
    if sort := _by_name(os.path.basename(name)):
        return sort
    start = text.lstrip()[:1]
    if start == "{" and re.search(r'"cells"\s*:\s*\[', text):
        return "notebook"
    if start == "{" and '"apiVersion"' in text and '"kind"' in text:
        return "kubernetes"
    if re.search(r"^[ \t]*(```|~~~)", text, re.MULTILINE):
        return "markdown"
    if re.search(r"<<-?\s*['\"]?\w+['\"]?", text):  # a script that writes a manifest
        return "shell"
    if all(re.search(rf"^[ -]*{key}:\s*\S", text, re.MULTILINE) for key in ("kind", "apiVersion")):
        return "kubernetes"
    if re.search(r"^[ -]*containers:\s*$", text, re.MULTILINE):
        return "kubernetes"
    if re.search(r"^services:\s*(?:#.*)?$", text, re.MULTILINE):
        return "compose"
    if name.endswith((".yaml", ".yml", ".tpl")) or re.search(r"^(?:run:\s*[|>]|servingEngineSpec:)", text, re.M):
        return "yaml"
    if re.search(r"^ExecStart=", text, re.MULTILINE):
        return "unit"
    if re.search(r"^FROM[ \t]+\S", text, re.MULTILINE) and re.search(r"^(?:ENTRYPOINT|CMD)\b", text, re.MULTILINE):
        return "dockerfile"
    if _PYTHON.search(text):
        return "python"
    return "shell"


def _by_name(name: str) -> Sort | None:
    if name.endswith(".ipynb"):
        return "notebook"
    if name.endswith(".py"):
        return "python"
    if name.endswith(".service"):
        return "unit"
    if name.endswith((".sh", ".bash", ".zsh", ".bat", ".cmd", ".ps1", ".sbatch", ".slurm")):
        return "shell"
    if re.match(r"(?:GNU)?[Mm]akefile|\.?[Jj]ustfile|.*\.(?:mk|just)$", name):
        return "makefile"
    if re.match(r"(?:Docker|Container)file|.*\.[Dd]ockerfile$", name):
        return "dockerfile"
    return None
