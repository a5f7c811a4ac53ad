"""A Dockerfile to what its image starts: ENTRYPOINT and CMD of the last stage, on what it is built from."""

import json
import re
from collections.abc import Mapping

from oomph.commands import shell
from oomph.commands.call import Call, short
from oomph.commands.manifests import docker
from oomph.commands.wrappers import container_call
from oomph.errors import CommandError
from oomph.text.nesting import bounded

_LINE = re.compile(r"^[ \t]*([A-Za-z]+)[ \t]+(.+)$", re.DOTALL)


def calls(text: str, environment: Mapping[str, str]) -> dict[str, Call]:
    instructions: dict[str, list[str] | None] = {"ENTRYPOINT": None, "CMD": None}
    variables: dict[str, str] = {}
    inside: dict[str, str] = {}
    stages: dict[str, tuple[str, dict[str, list[str] | None]]] = {}
    image = ""
    for word, rest in _instructions(text):
        if word == "FROM":
            words = _filled(rest, {**variables, **environment}).split()
            words = [part for part in words if not part.startswith("--")]
            image, inherited = stages.get(words[0], (words[0], {})) if words else ("", {})
            instructions = {"ENTRYPOINT": None, "CMD": None, **inherited}
            if len(words) == 3:
                stages[words[2]] = image, instructions
        elif word in ("ARG", "ENV"):
            pairs = _pairs(_known(rest, {**variables, **environment}))
            variables |= pairs
            inside |= pairs if word == "ENV" else {}
        elif word in instructions:
            instructions[word] = _words(rest)
    entry, command = instructions["ENTRYPOINT"], instructions["CMD"]
    if not entry and not command and not docker.image_engine(image):
        return {}
    if entry and entry[:2] == ["/bin/sh", "-c"]:  # the shell form takes no arguments
        command = None
    call = docker.container(image, command or [], {**variables, **inside}, entrypoint=entry)
    return {"image": container_call(call)}


def _instructions(text: str) -> list[tuple[str, str]]:
    lines = [line for line in text.replace("\r\n", "\n").split("\n") if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\[ \t]*\n", "\\\n", "\n".join(lines))
    whole = re.split(r"(?<!\\)\n", joined)
    return [(found[1].upper(), found[2].strip()) for line in whole if (found := _LINE.match(line))]


def _words(rest: str) -> list[str]:
    """The exec form ["a", "b"], or the shell form, which /bin/sh -c runs."""
    if not rest.startswith("["):
        return ["/bin/sh", "-c", rest]
    try:
        joined = re.sub(r"\\[ \t]*\n", "", rest)  # docker joins continued lines before it reads JSON
        words = json.loads(bounded(joined))
    except (ValueError, RecursionError):
        return ["/bin/sh", "-c", rest]
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise CommandError(f"{short(rest)} is not a list of words")
    return words


def _pairs(rest: str) -> dict[str, str]:
    if re.match(r"\w+[ \t]+[^=\s]", rest) and "=" not in rest.split()[0]:  # ENV NAME value
        name, _, value = rest.partition(" ")
        return {name: value.strip().strip("\"'")}
    variables: dict[str, str] = {}
    for command in shell.commands("export " + rest.replace("\\\n", " ") + "; true"):
        variables |= command.environment
    return variables


def _known(text: str, variables: Mapping[str, str]) -> str:
    """With the variables that are known; the others stay, to be asked for by their names."""

    def value(match: re.Match[str]) -> str:
        return variables.get(match[1] or match[3], "") or match[2] or match[0]

    return re.sub(r"\$\{(\w+)(?::-([^}]{0,400}))?\}|\$(\w+)", value, text)


def _filled(text: str, variables: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        return variables.get(match[1] or match[3], "") or (match[2] or "")

    return re.sub(r"\$\{(\w+)(?::-([^}]{0,400}))?\}|\$(\w+)", value, text)
