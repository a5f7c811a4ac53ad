"""A Makefile to the shell text of its targets."""

import re
from collections import ChainMap
from collections.abc import Mapping

from oomph.errors import CommandError

_VARIABLE = re.compile(r"^(?:export[ \t]+)?([\w.-]+)[ \t]*(\?=|::?=|\+=|=)[ \t]*(.*)$")
# serve: CTX = 8192, for this target's recipe alone
_OF_TARGET = re.compile(r"^([\w./-]+)[ \t]*:[ \t]*(?:export[ \t]+)?([\w-]+)[ \t]*(\?=|::?=|\+=|=)[ \t]*(.*)$")
_COMMENT = re.compile(r"(?:^|(?<![ \t])[ \t]+)#.*$")
_TARGET = re.compile(r"^([\w./$(){}-][\w./$(){} \t-]*)::?(?!=)")
_REFERENCE = re.compile(r"\$(?:\$|\(([\w.-]+)\)|\{([\w.-]+)\})")
_DEFINE = re.compile(r"^ *define[ \t]+([\w.-]+)[ \t]*:?\??=?[ \t]*$")
_CONDITION = re.compile(r"^ *(ifeq|ifneq|ifdef|ifndef|else|endif)\b[ \t]*(.*)$")
_PAIR = re.compile(r"\(([^,]*),(.*)\)\s*$|[\"']([^\"']*)[\"'][ \t]*[\"']([^\"']*)[\"']")
_LONGEST = 1 << 16
_DEEPEST = 8
_ROOM = 4 * _LONGEST  # characters that the variables of one Makefile may put into its recipes


def recipes(text: str, environment: Mapping[str, str]) -> dict[str, str]:
    """target -> its lines with $(NAME) filled in; what nothing sets stays as ${NAME}."""
    variables: dict[str, str] = {}
    lines: dict[str, list[str]] = {}
    own: dict[str, dict[str, str]] = {}
    targets = [""]
    parts: list[bool | None] = []
    block = ""  # the variable whose lines `define` began
    scope = ChainMap(variables, dict(environment))
    room = [_ROOM]
    for line in re.sub(r"\\\n(?!\t)", " ", text.replace("\r\n", "\n")).split("\n"):
        if _decides(line, parts, scope, room) or not all(parts):
            continue
        if block and line.strip() != "endef":
            variables[block] = f"{variables[block]}\n{line}".lstrip("\n")[:_LONGEST]
        elif block:
            block = ""
        elif line.startswith("\t"):
            for target in targets:
                body = lines.setdefault(target, [])
                going_on = body and body[-1].rstrip().endswith("\\")
                body.append(line.strip() if going_on else line.strip().lstrip("@+-"))
        elif match := _DEFINE.match(line):
            block = match[1]
            variables[block] = ""
        elif match := _VARIABLE.match(line.lstrip(" ")):
            _set(variables, match[1], match[2], _COMMENT.sub("", match[3]), environment)
        elif match := _OF_TARGET.match(line):
            of_target = own.setdefault(match[1], {})
            before = {name: variables[name] for name in (match[2],) if name in variables}
            values = {**before, **of_target}
            _set(values, match[2], match[3], _COMMENT.sub("", match[4]), environment)
            of_target[match[2]] = values[match[2]]
        elif match := _TARGET.match(re.sub(r"(?<![ \t])[ \t]+\w+=\S+", "", line)):
            targets = match[1].split()
    return {
        name: _filled("\n".join(body), {**variables, **own.get(name, {})}, room)
        for name, body in lines.items()
        if name != ".PHONY"
    }


def _decides(line: str, parts: list[bool | None], known: Mapping[str, str], room: list[int]) -> bool:
    """Whether a line is `ifeq`, `else` or `endif`; `parts` then says of each open condition whether make reads the
    part: yes, not yet, or None where an earlier part was read."""
    match = _CONDITION.match(line)
    if match is None:
        return False
    word, rest = match[1], match[2]
    if word == "endif":
        del parts[-1:]
    elif word == "else":
        inner = _CONDITION.match(rest)  # else ifeq (...)
        holds = _holds(inner[1], inner[2], known, room) if inner else True
        parts[-1:] = [None if part is not False else holds for part in parts[-1:]]
    else:
        parts.append(_holds(word, rest, known, room))
    return True


def _holds(word: str, rest: str, known: Mapping[str, str], room: list[int]) -> bool:
    """ifeq (A,B), ifeq "A" "B", ifdef NAME: what nothing sets is empty, as for make."""
    if word.endswith("def"):
        return bool(known.get(rest.strip())) == (word == "ifdef")
    match = _PAIR.match(rest)
    sides = (
        [re.sub(r"\$\{\w+\}", "", _filled(side or "", known, room)).strip() for side in match.groups("")]
        if match
        else []
    )
    return bool(sides) and (sides[0] + sides[2] == sides[1] + sides[3]) == (word == "ifeq")


def _set(variables: dict[str, str], name: str, sign: str, value: str, environment: Mapping[str, str]) -> None:
    if sign == "?=" and (name in variables or name in environment):
        variables.setdefault(name, environment.get(name, ""))
    elif sign == "+=":
        variables[name] = f"{variables.get(name, '')} {value}".strip()[:_LONGEST]
    else:
        variables[name] = value


def _filled(text: str, variables: Mapping[str, str], room: list[int], depth: int = 0) -> str:
    """`room`: how many characters variables may still put in, in all."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name is None:
            return "$"
        definition = variables.get(name)
        if definition is None:
            return f"${{{name}}}" if re.fullmatch(r"\w+", name) else ""
        room[0] -= len(definition) + 1
        if room[0] < 0:
            raise CommandError("the variables of the Makefile grow without end")
        return (
            definition
            if depth >= _DEEPEST or "$" not in definition
            else _filled(definition, variables, room, depth + 1)
        )

    return _REFERENCE.sub(value, text)
