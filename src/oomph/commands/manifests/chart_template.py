"""A Helm template with the values of its chart: what `helm template` prints, as far as values decide it.

`if`, `with`, `range`, `include` of a helper beside it and the usual functions are read. What only the cluster or the
user knows stays as it is written, so that the readers of manifests ask for it by name.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oomph.text.late import late_pattern

_ACTION = late_pattern(r"\{\{(?P<left>-?)(?P<text>[^{}]{0,2000}?)(?P<right>-?)\}\}(?P<after>\s*)")
_WORD = late_pattern(r"\"(?:[^\"\\]|\\.){0,2000}\"|`[^`]{0,2000}`|[()|]|:=|=|[^\s()|]{1,500}")
# what labels an object says nothing of what it runs
_ASIDE = late_pattern(
    r"(?:labels|annotations|matchLabels|selector|name|serviceAccountName|namespace|imagePullSecrets):$"
)
_RELEASE = {"Name": "release", "Namespace": "default", "Service": "Helm"}
_INCLUDES = ("include", "template", "tpl")
_DEEPEST = 16
_LONGEST = 1 << 18
_MOST_STEPS = 10_000


class Unknown(ValueError):
    """It depends on what the values do not say."""


Block = tuple[str, str, list[Any], list[Any]]  # (kind, expression or text, body, else)


def rendered(text: str, values: Mapping[str, Any], helpers: Mapping[str, str], chart: Mapping[str, Any]) -> str:
    """`helpers`: the named templates beside it. The text itself where its blocks do not close."""
    about = {"Name": chart.get("name"), "AppVersion": chart.get("appVersion"), "Version": chart.get("version")}
    scope = {"Values": values, "Release": _RELEASE, "Chart": about}
    try:
        return _Page(scope, helpers).text(_blocks(text), scope)[:_LONGEST]
    except (Unknown, RecursionError):
        return text


def named_templates(text: str) -> dict[str, str]:
    """{{ define "chart.args" }} ... {{ end }} of a file of helpers."""
    headers = re.finditer(r"\{\{-?\s*define\s+\"([^\"]+)\"\s*-?\}\}", text)
    starts = [(match[1], match.end()) for match in headers]
    ends = [*(at for _, at in starts[1:]), len(text)]
    out = {}
    for (name, start), end in zip(starts, ends, strict=False):
        body = text[start:end]
        last = max((match.start() for match in re.finditer(r"\{\{-?\s*end\s*-?\}\}", body)), default=len(body))
        out[name] = body[:last]
    return out


def _blocks(text: str) -> list[Any]:
    """A tree of texts and blocks; white space that `{{-` and `-}}` eat is gone."""
    tree: list[Any] = []
    stack: list[Block] = []
    here, at = tree, 0
    for match in _ACTION.finditer(text):
        before = text[at : match.start()]
        here.append(before.rstrip() if match["left"] else before)
        at = match.end() if match["right"] else match.end() - len(match["after"])
        action = match["text"].strip()
        kind, _, rest = action.partition(" ")
        if kind in ("if", "with", "range", "define", "block"):
            block: Block = (kind, rest, [], [])
            here.append(block)
            stack.append(block)
            here = block[2]
        elif kind == "else" and stack:
            here = stack[-1][3]
            if rest:  # else if, else with: a block of its own, closed by the same end
                inner: Block = (rest.partition(" ")[0], rest.partition(" ")[2], [], [])
                here.append(inner)
                stack[-1] = inner
                here = inner[2]
        elif kind == "end":
            if not stack:
                raise Unknown("an end of nothing")
            stack.pop()
            here = _open_part(stack[-1]) if stack else tree
        else:
            here.append(("print", action, [match[0].strip()], []))
    if stack:
        raise Unknown("a block without an end")
    here.append(text[at:])
    return tree


def _open_part(block: Block) -> list[Any]:
    return block[3] if block[3] else block[2]


class _Page:
    def __init__(self, scope: Mapping[str, Any], helpers: Mapping[str, str]) -> None:
        self.scope = scope
        self.helpers = helpers
        self.variables: dict[str, Any] = {"$": scope}
        self.steps = 0
        self.depth = 0

    def text(self, tree: Sequence[Any], dot: Any) -> str:
        out = ""
        for part in tree:
            self.steps += 1
            if self.steps > _MOST_STEPS or len(out) > _LONGEST:
                raise Unknown("too long")
            out += part if isinstance(part, str) else self.block(part, dot, out)
        return out

    def block(self, block: Block, dot: Any, before: str) -> str:
        kind, expression, body, other = block
        if kind == "print":
            return self.printed(expression, dot, body[0], before)
        if kind in ("define", "block"):
            return ""
        variables, _, tested = expression.rpartition(":=")
        value = self.value(tested, dot)
        names = [name.strip() for name in variables.split(",") if name.strip()]
        if not value:
            return self.text(other, dot)
        if kind == "range":
            items = list(value.items()) if isinstance(value, Mapping) else list(enumerate(value))
            return "".join(self.item(body, names, key, item) for key, item in items)
        self.variables |= dict.fromkeys(names[:1], value)
        return self.text(body, value if kind == "with" else dot)

    def item(self, body: Sequence[Any], names: Sequence[str], key: Any, item: Any) -> str:
        self.variables |= dict(zip(names, (item,) if len(names) == 1 else (key, item)))
        return self.text(body, item)

    def printed(self, expression: str, dot: Any, written: str, before: str) -> str:
        if expression.startswith("/*"):
            return ""
        name, sign, assigned = expression.partition(":=")
        try:
            if sign and name.strip().startswith("$"):
                self.variables[name.strip()] = self.value(assigned, dot)
                return ""
            value = self.value(expression, dot)
        except Unknown:
            aside = expression.startswith(("include", "template")) and _ASIDE.search(before.rstrip()[-200:])
            return "" if aside else written
        return written if value is None else _shown(value)

    def value(self, expression: str, dot: Any) -> Any:
        words = _WORD.findall(expression)
        value, rest = self.pipeline(words, dot)
        if rest:
            raise Unknown(expression)
        return value

    def pipeline(self, words: Sequence[str], dot: Any) -> tuple[Any, Sequence[str]]:
        """A call, and what its value is piped through; up to a closing parenthesis."""
        piped: list[Any] = []
        while True:
            arguments: list[Any] = []
            name = ""
            while words and words[0] not in ("|", ")"):
                if words[0] == "(":
                    argument, words = self.pipeline(words[1:], dot)
                    words = words[1:]
                    arguments.append(argument)
                elif (
                    not arguments
                    and not name
                    and (words[0] in _FUNCTIONS or words[0] in ("include", "tpl", "template"))
                ):
                    name, words = words[0], words[1:]
                else:
                    arguments.append(self.operand(words[0], dot))
                    words = words[1:]
            value = self.call(name, [*arguments, *piped])
            if not words or words[0] == ")":
                return value, words
            piped, words = [value], words[1:]

    def call(self, name: str, arguments: Sequence[Any]) -> Any:
        if name in ("include", "template"):
            helper = self.helpers.get(str(arguments[0])) if arguments else None
            return self.inner(helper, arguments[1] if len(arguments) > 1 else self.scope).strip()
        if name == "tpl":
            return self.inner(str(arguments[0]) if arguments else None, self.scope)
        if not name:
            if len(arguments) != 1:
                raise Unknown("no such function")
            return arguments[0]
        try:
            return _FUNCTIONS[name](*arguments)
        except (TypeError, ValueError, IndexError, AttributeError):
            raise Unknown(name) from None

    def inner(self, text: str | None, dot: Any) -> str:
        """A template inside another."""
        if text is None or self.depth > _DEEPEST:
            raise Unknown("a template that is elsewhere")
        self.depth += 1
        try:
            return self.text(_blocks(text), dot)
        finally:
            self.depth -= 1

    def operand(self, word: str, dot: Any) -> Any:
        if word[0] in '"`':
            return word[1:-1].replace('\\"', '"').replace("\\n", "\n")
        if word in ("true", "false", "nil"):
            return {"true": True, "false": False, "nil": None}[word]
        if re.fullmatch(r"-?\d{1,18}", word):
            return int(word)
        start, _, path = word.partition(".")
        if start and start not in self.variables:
            raise Unknown(word)
        value = self.variables[start] if start else dot
        if not start and path.split(".")[0] in ("Values", "Release", "Chart"):
            value = self.scope
        for key in filter(None, path.split(".")):
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        raise Unknown("a list")
    return str(value)


def _yaml(value: Any) -> str:
    import yaml

    return str(yaml.safe_dump(value, sort_keys=False, width=1000)).removesuffix("...\n").rstrip("\n")


def _indented(columns: int, text: Any) -> str:
    return "\n".join(" " * min(columns, 200) + line for line in str(text).split("\n"))


def _formatted(pattern: str, *values: Any) -> str:
    shown = iter([_shown(value) for value in values])
    return re.sub(r"%[svdq]", lambda match: next(shown, match[0]), pattern)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "default": lambda other, value=None: value or other,
    "required": lambda _, value: value,
    "quote": lambda value: None if value is None else f'"{_shown(value)}"',
    "squote": lambda value: None if value is None else f"'{_shown(value)}'",
    "toString": lambda value: None if value is None else _shown(value),
    "int": lambda value: int(value),
    "int64": lambda value: int(value),
    "lower": lambda value: str(value).lower(),
    "trim": lambda value: str(value).strip(),
    "toYaml": _yaml,
    "indent": _indented,
    "nindent": lambda columns, text: "\n" + _indented(columns, text),
    "printf": _formatted,
    "join": lambda sign, values: sign.join(map(_shown, values)),
    "eq": lambda value, *others: value in others,
    "ne": lambda value, other: value != other,
    "gt": lambda value, other: value > other,
    "lt": lambda value, other: value < other,
    "not": lambda value: not value,
    "and": lambda *values: next((value for value in values if not value), values[-1]),
    "or": lambda *values: next((value for value in values if value), values[-1]),
    "empty": lambda value: not value,
    "hasKey": lambda mapping, key: key in mapping,
    "list": lambda *values: list(values),
    "ternary": lambda first, second, value: first if value else second,
    "coalesce": lambda *values: next((value for value in values if value), None),
    "trunc": lambda count, text: str(text)[:count],
    "trimSuffix": lambda end, text: str(text).removesuffix(end),
    "replace": lambda old, new, text: str(text).replace(old, new),
}
