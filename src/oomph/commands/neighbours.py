"""A file with what the files beside it say: a systemd unit with its drop-ins and environment files, a template with
its chart's values, a compose file with its override and what it extends, a Dockerfile with the script that it starts.

`with_neighbours(text, path)` returns the text as its tool would put it together. What a neighbour does not say stays as
it is, and is asked for by name where a model hangs on it.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

from oomph.commands import files
from oomph.errors import CommandError
from oomph.sources import boundary
from oomph.text.late import late_pattern

_MOST_DROP_INS = 32
_HIGHEST = 4  # folders: etc/systemd/system/unit.service
_MAKEFILE = late_pattern(r"(?:^|/)(?:GNU)?[Mm]akefile$|\.mk$")
_INCLUDE = late_pattern(r"^-?include[ \t]+([\w./-]+)[ \t]*$", re.MULTILINE)
_SBATCH = late_pattern(
    r"^#SBATCH[ \t]+(?:(?:-N[ \t]*|--nodes[= ])(\d{1,4})|--gpus-per-node[= ](?:\w+:)?(\d{1,3})|"
    r"--gres[= ]gpu:(?:\w+:)?(\d{1,3}))",
    re.MULTILINE,
)
_OF_NODES = ("SLURM_JOB_NUM_NODES", "SLURM_NNODES")
_OF_GPUS = ("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE")
_LISTED = late_pattern(r"^([ \t]*-[ \t]+)[\"']?([\w./-]+\.ya?ml)[\"']?[ \t]*$", re.MULTILINE)
# COPY SOURCE DESTINATION; ENTRYPOINT ["/entrypoint.sh"], ENTRYPOINT ["bash", "/entrypoint.sh"], CMD /start.sh
_COPY = late_pattern(r"^(?:COPY|ADD)[ \t]+(?:--\w+=\S+[ \t]+)*([\w./-]+)[ \t]+([\w./-]+)[ \t]*$", re.MULTILINE)
_ENTRY = late_pattern(
    r"^(ENTRYPOINT|CMD)[ \t]+"
    r"(?:\[[ \t]*(?:\"[\w/]*sh\"[ \t]*,[ \t]*)?\"([\w./-]+)\"[ \t]*\]|(?:[\w/]*sh[ \t]+)?([\w./-]+))[ \t]*$",
    re.MULTILINE,
)
_ENVIRONMENT_FILE = late_pattern(r"^EnvironmentFile=-?(\S+)[ \t]*$", re.MULTILINE)
# `source ./model.env`, `. vars.sh`
_SOURCE = late_pattern(
    r"^([ \t]*(?:set -a[ \t]*;[ \t]*)?)(?:source|\.)[ \t]+[\"']?(?:\./)?([\w./-]+)[\"']?[ \t]*(?=;|$)", re.MULTILINE
)
_ASSIGNED = late_pattern(r"[ \t]*(?:#.*|(?:export[ \t]+)?\w+=.*)?")  # a line of variables
_TEMPLATED = late_pattern(r"\{\{-?\s*\.Values\.")


def with_neighbours(text: str, path: str) -> str:
    if path.endswith((".service", ".container")):
        return _whole_unit(text, path)
    if _MAKEFILE.search(path):
        return _with_includes(text, os.path.dirname(path))
    if path.endswith((".yaml", ".yml", ".tpl")) and _TEMPLATED.search(text):
        return _rendered(text, path)
    if "llm_configs" in text and path.endswith((".yaml", ".yml")):
        return _with_listed_models(text, os.path.dirname(path))
    sort = files.sort_of(text, path)
    if sort == "compose":
        from oomph.commands.manifests.compose_files import with_override_and_bases

        return with_override_and_bases(text, path)
    if sort == "dockerfile":
        return _with_copied_script(text, os.path.dirname(path))
    return _with_sourced(text, os.path.dirname(path)) if sort == "shell" else text


def job_variables(text: str) -> dict[str, str]:
    """What Slurm sets from the #SBATCH lines of a script."""
    variables: dict[str, str] = {}
    for match in _SBATCH.finditer(text):
        count = next(filter(None, match.groups()))
        names = _OF_NODES if match[1] else _OF_GPUS
        variables |= dict.fromkeys(names, count)
    return variables


def _with_includes(text: str, folder: str) -> str:
    """A Makefile with those that it includes from beside it."""

    def lines(match: re.Match[str]) -> str:
        path = os.path.join(folder, match[1])
        return files.read(path) if boundary.is_file(path) else match[0]

    return _INCLUDE.sub(lines, text)


def _with_sourced(text: str, folder: str) -> str:
    """A script with the variables of the files that it sources from beside it; what does more is left alone."""

    def are_variables(script: str) -> bool:
        return all(_ASSIGNED.fullmatch(line) for line in script.splitlines())

    def variables(match: re.Match[str]) -> str:
        place = os.path.join(folder, match[2])
        own = files.read(place) if boundary.is_file(place) else ""
        return f"{match[1]}\n{own.rstrip()}\n" if own and are_variables(own) else match[0]

    return _SOURCE.sub(variables, text)


def _with_listed_models(text: str, folder: str) -> str:
    """Ray Serve's `llm_configs`: a path in the list stands for the model that the file describes."""
    from oomph.commands.manifests.yaml_text import load

    def model(match: re.Match[str]) -> str:
        place = os.path.join(folder, match[2])
        if not boundary.is_file(place):
            return match[0]
        import json

        documents = load(files.read(place), place)
        return f"{match[1]}{json.dumps(documents[0])}" if len(documents) == 1 else match[0]

    return _LISTED.sub(model, text)


def _with_copied_script(text: str, folder: str) -> str:
    """A Dockerfile whose entry point is a script that it copies from beside it: the script in its place."""
    copied = {destination: source for source, destination in _COPY.findall(text)}

    def script(match: re.Match[str]) -> str:
        for destination, source in copied.items():
            there = f"{destination}{os.path.basename(source)}" if destination.endswith("/") else destination
            place = os.path.join(folder, source)
            if there in (match[2], match[3]) and boundary.is_file(place):
                import json

                return f"{match[1]} {json.dumps(['/bin/bash', '-c', files.read(place), there])}"
        return match[0]

    return _ENTRY.sub(script, text)


def _whole_unit(text: str, path: str) -> str:
    """The unit, then its drop-ins in their order, each with the variables of the files that it names."""
    folder = f"{path}.d"
    names = sorted(os.listdir(folder)) if boundary.may_look(folder) and os.path.isdir(folder) else []
    drop_ins = [os.path.join(folder, name) for name in names if name.endswith(".conf")][:_MOST_DROP_INS]
    parts = [(text, path), *((files.read(one), one) for one in drop_ins)]
    return "\n".join(_with_environment_files(part, os.path.dirname(where)) for part, where in parts)


def _with_environment_files(text: str, folder: str) -> str:
    def lines(match: re.Match[str]) -> str:
        pairs = files.variables(_installed(match[1], folder))
        return "\n".join(f'Environment="{name}={value}"' for name, value in pairs.items()) or match[0]

    return _ENVIRONMENT_FILE.sub(lines, text)


def _installed(path: str, folder: str) -> str:
    """Where a repository keeps what is installed as `path`: by its name, or in a tree like that of the machine."""
    trees = [folder]
    while len(trees) < _HIGHEST and os.path.dirname(trees[-1]) not in ("", trees[-1]):
        trees.append(os.path.dirname(trees[-1]))
    beside = os.path.join(folder, os.path.basename(path))
    own = [path] if os.path.isabs(path) else []
    places = (*own, beside, *(os.path.join(tree, path.lstrip("/")) for tree in trees))
    return next((place for place in places if boundary.is_file(place)), beside)


def _rendered(text: str, path: str) -> str:
    """The template with the values and the helpers of its chart."""
    from oomph.commands.manifests.chart_template import named_templates, rendered

    folder = _chart_of(path)
    values = _first_document(os.path.join(folder, "values.yaml")) if folder else None
    if values is None:
        return text
    helpers: dict[str, str] = {}
    templates = os.path.join(folder, "templates")
    names = sorted(os.listdir(templates)) if boundary.may_look(templates) and os.path.isdir(templates) else []
    for name in [name for name in names if name.endswith(".tpl")][:_MOST_DROP_INS]:
        helpers |= named_templates(files.read(os.path.join(templates, name)))
    return rendered(text, values, helpers, _first_document(os.path.join(folder, "Chart.yaml")) or {})


def _chart_of(path: str) -> str:
    """The folder whose values.yaml a template is filled with; "" = none."""
    folder = os.path.dirname(os.path.abspath(path))
    for _ in range(3):  # CHART/templates/NAME/file.yaml
        place = os.path.join(folder, "values.yaml")
        if boundary.is_file(place) and place != os.path.abspath(path):
            return folder
        folder = os.path.dirname(folder)
    return ""


def _first_document(place: str) -> Mapping[str, Any] | None:
    from oomph.commands.manifests.yaml_text import load

    try:
        documents = load(files.read(place), place) if boundary.is_file(place) else []
    except CommandError:
        return None
    return documents[0] if documents and isinstance(documents[0], dict) else None
