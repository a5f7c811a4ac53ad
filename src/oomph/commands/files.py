"""Files that hold a serve command: read with a limit, told apart by name and content."""

import os
import re
from typing import Literal

from oomph.commands.call import PROGRAM, short
from oomph.errors import CommandError
from oomph.sources import boundary
from oomph.text.late import late_pattern

_LIMIT = 1 << 20
_NOTEBOOK_LIMIT = 16 << 20  # their outputs hold pictures

Sort = Literal[
    "compose", "dockerfile", "hcl", "json", "justfile", "kubernetes", "makefile", "markdown", "notebook", "python",
    "shell", "unit", "yaml",
]  # fmt: skip
_PYTHON = late_pattern(
    lambda: rf"^[ \t]*(?:from|import)[ \t]+{PROGRAM.pattern}|\bLLM\s*\(|\b(?:Async)?EngineArgs\s*\(", re.MULTILINE
)
# what is named alone and ends so is a model, never a text with a command
_MODELS = (".gguf", ".safetensors", ".bin", ".pt", ".pth", ".json", ".jsonl", ".log")


# JSON that starts programs: dev containers, npm's scripts, VS Code's tasks, pm2
_PROGRAMS = late_pattern(
    r"(?:\.?devcontainer|package|tasks|launch)\.json|(?:ecosystem|pm2)[\w.-]*\.(?:json|[cm]?js)", re.IGNORECASE
)


def starts_programs(path: str) -> bool:
    return bool(_PROGRAMS.fullmatch(os.path.basename(path)))


def is_text(path: str) -> bool:
    """Whether a word that stands alone names a file to look for a command in."""
    try:
        return boundary.is_file(path) and (not path.lower().endswith(_MODELS) or starts_programs(path))
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


def read_settings(path: str, what: str) -> str:
    """The text of a file that a command names; `what`: as it is called in a refusal."""
    try:
        if not boundary.is_file(path):
            boundary.require(path)
            raise CommandError(f"the {what} {short(path)} is not there")
        with open(path, encoding="utf-8") as file:
            text = file.read(_LIMIT + 1)
    except (OSError, ValueError) as error:
        raise CommandError(f"the {what} {short(path)} cannot be read: {error}") from None
    if len(text) > _LIMIT:
        raise CommandError(f"the {what} {short(path)} is over {_LIMIT} bytes")
    return text


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


_REMARK = late_pattern(r"(\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')|//[^\n]*|/\*[^/]{0,2000}\*/")


def object_text(text: str) -> str:
    """The object of JSON with remarks, or the one that a JavaScript file exports, as YAML takes it."""
    plain = _REMARK.sub(lambda match: match[1] or "", text)
    return plain[max(plain.find("{"), 0) : plain.rfind("}") + 1].replace("\t", " ")


def unit_script(text: str) -> str:
    """What a systemd unit, a Quadlet or supervisord's programs start, as a shell would have it."""
    if "[program:" in text:
        return _supervised(text)
    if re.search(r"^\[Container\]", text, re.MULTILINE):
        return _quadlet(text)
    lines = re.findall(r"^(Environment|ExecStart)=((?:[^\n]*\\\n)*[^\n]*)$", text, re.MULTILINE)
    empty = [i for i, (key, rest) in enumerate(lines) if key == "ExecStart" and not rest.strip()]
    since = empty[-1] if empty else -1  # an empty ExecStart= takes back those before it
    lines = [line for i, line in enumerate(lines) if line[0] == "Environment" or i > since]
    lines.sort(key=lambda line: line[0])  # a unit's variables hold wherever they stand
    return "\n".join(f"export {rest}" if key == "Environment" else rest.lstrip("-@:+!") for key, rest in lines)


def _supervised(text: str) -> str:
    """supervisord's programs, each with its own variables; %(ENV_NAME)s is $NAME."""
    scripts = []
    for part in re.split(r"^(?=\[)", text, flags=re.MULTILINE):
        command = re.search(r"^command[ \t]*=[ \t]*(.+(?:\n[ \t]+\S.*)*)$", part, re.MULTILINE)
        if command and part.startswith("[program:"):
            pairs = re.search(r"^environment[ \t]*=[ \t]*(.+(?:\n[ \t]+\S.*)*)$", part, re.MULTILINE)
            own = " ".join(re.findall(r"(?<!\w)\w+=(?:\"[^\"\n]*\"|'[^'\n]*'|[^,\s]+)", pairs[1] if pairs else ""))
            words = " ".join(line.strip() for line in command[1].split("\n"))
            exports = f"export {own}\n" if own else ""  # it fills them in before it starts the program
            scripts.append(exports + re.sub(r"%\(ENV_(\w+)\)s", r"${\1}", words))
    return "\n".join(scripts)


def _quadlet(text: str) -> str:
    """podman's [Container] section as the `podman run` that its generator writes (podman-systemd.unit)."""
    values: dict[str, list[str]] = {}
    for key, value in re.findall(r"^(\w+)=((?:[^\n]*\\\n)*[^\n]*)$", text, re.MULTILINE):
        values.setdefault(key, []).append(re.sub(r"\\\n\s*", " ", value).strip())
    options = [f"{flag} {value}" for key, flag in _QUADLET for value in values.get(key, [])]
    image, words = "".join(values.get("Image", [])[-1:]), "".join(values.get("Exec", [])[-1:])
    return " ".join(("podman run", *options, *values.get("PodmanArgs", []), image, words))


# keys of a [Container] section -> options of podman run
_QUADLET = (
    ("Environment", "-e"),
    ("AddDevice", "--device"),
    ("Entrypoint", "--entrypoint"),
    ("Volume", "-v"),
    ("Memory", "--memory"),
)


# How files are called.
_NAMES: tuple[tuple[Sort, str], ...] = (
    ("notebook", r"(?s).*\.ipynb\Z"),
    ("python", r"(?s).*\.py\Z"),
    ("unit", r"(?s).*\.(?:service|container)\Z"),
    ("hcl", r"(?s).*\.(?:hcl|nomad|tf)\Z"),
    ("shell", r"(?s).*\.(?:sh|bash|zsh|bat|cmd|ps1|sbatch|slurm)\Z"),
    ("makefile", r"(?:GNU)?[Mm]akefile|.*\.mk$"),
    ("justfile", r"\.?[Jj]ustfile|.*\.just$"),
    ("dockerfile", r"(?:Docker|Container)file|.*\.[Dd]ockerfile$"),
)
# What texts are that hold all of these, the more telling first.
_SIGNS: tuple[tuple[Sort, tuple[str, ...]], ...] = (
    ("notebook", (r"\A\s*\{", r'"cells"\s*:\s*\[')),
    ("kubernetes", (r"\A\s*\{", '"apiVersion"', '"kind"')),
    ("markdown", (r"^[ \t]*(```|~~~)",)),
    ("shell", (r"<<-?\s*['\"]?\w+['\"]?",)),  # a script that writes a manifest
    ("kubernetes", (r"^[ -]*kind:\s*\S", r"^[ -]*apiVersion:\s*\S")),
    # containers that stand in no values of llm-d's chart
    ("kubernetes", (r"^[ -]*containers:\s*$", r"\A(?![\s\S]*^modelArtifacts:)")),
    ("compose", (r"^services:\s*(?:#.*)?$",)),
    ("yaml", (r"^(?:run:\s*[|>]|servingEngineSpec:)",)),
    ("unit", (r"^(?:ExecStart|Exec)=",)),
    ("hcl", (r"^[ \t]*(?:job|resource)[ \t]+\"[\w./-]+\"[^\n{]*\{", r"^[ \t]*\w+[ \t]*=[ \t]*[\"\[<]")),
    ("unit", (r"^\[program:", r"^command[ \t]*=")),
    ("dockerfile", (r"^FROM[ \t]+\S", r"^(?:ENTRYPOINT|CMD)\b")),
)


def sort_of(text: str, name: str) -> Sort:
    """What a text is, by its name's ending and by its first telling lines."""
    if starts_programs(name):
        return "json"
    by_name = next((sort for sort, pattern in _NAMES if re.match(pattern, os.path.basename(name))), None)
    if by_name is not None:
        return by_name
    is_yaml = name.endswith((".yaml", ".yml", ".tpl"))
    for sort, patterns in _SIGNS:
        if (is_yaml and sort == "yaml") or all(re.search(pattern, text, re.MULTILINE) for pattern in patterns):
            return sort
    return "python" if _PYTHON.search(text) else "shell"
