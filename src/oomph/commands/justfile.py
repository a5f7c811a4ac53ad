"""A justfile to the shell text of its recipes: `name := value`, `{{name}}`, parameters and what they are by default."""

from collections.abc import Mapping

from oomph.text.late import late_pattern

_ASSIGNMENT = late_pattern(r"^(?:export[ \t]+)?([A-Za-z_][\w-]*)[ \t]*:=[ \t]*(.*)$")
_RECIPE = late_pattern(
    r"^@?([A-Za-z_][\w-]*)((?:[ \t]+[$*+]*[A-Za-z_][\w-]*(?:=(?:\"[^\"]*\"|'[^']*'|[^\s:]+))?)*)[ \t]*:(?!=)"
)
_PARAMETER = late_pattern(r"([$*+]{0,2})([A-Za-z_][\w-]*)(?:=(\"[^\"]*\"|'[^']*'|[^\s:]+))?")
_SUBSTITUTION = late_pattern(r"\{\{(?!\{)([^{}]{0,500})\}\}")
# env("NAME", "default") and what it was called before; texts; $(output); names; / between two of them
_PART = late_pattern(
    r"(?:env_var_or_default|env_var|env)\(\s*[\"'](?P<variable>\w+)[\"']\s*(?:,\s*(?P<default>\"[^\"]*\"|'[^']*'|[\w-]+)\s*)?\)"
    r"|(?P<text>\"[^\"]*\"|'[^']*')|(?P<output>`[^`]*`)|(?P<name>[A-Za-z_][\w-]*)|(?P<sign>[/\d]+)|(?P<aside>\#.*)"
)
_LONGEST = 1 << 16


def recipes(text: str, environment: Mapping[str, str]) -> dict[str, str]:
    """recipe -> its lines; what nothing sets stays as ${NAME}."""
    variables: dict[str, str] = {}
    scripts: dict[str, list[str]] = {}
    own: dict[str, str] = {}
    recipe = ""
    for line in text.replace("\r\n", "\n").split("\n"):
        if line[:1] in (" ", "\t"):
            if recipe:
                scripts[recipe].append(_filled(line.strip().lstrip("@-"), {**variables, **own}, environment))
        elif match := _ASSIGNMENT.match(line):
            variables[match[1]] = environment.get(match[1]) or _value(match[2], variables, environment)
        elif match := _RECIPE.match(line):
            recipe = match[1]
            scripts[recipe] = []
            own = _parameters(match[2], variables, environment)
    return {name: "\n".join(lines) for name, lines in scripts.items()}


def _parameters(words: str, variables: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """A parameter is what the caller gives, its default, or nothing where it takes any number of words."""
    values = {}
    for sign, name, default in _PARAMETER.findall(words):
        if name in environment:
            values[name] = environment[name]
        elif default:
            values[name] = _value(default, variables, environment)
        elif "*" in sign:
            values[name] = ""
    return values


def _value(expression: str, variables: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Texts, names and environment variables, put together with + and /."""
    out = ""
    for match in _PART.finditer(expression):
        if match["variable"]:
            default = match["default"]
            unset = _value(default, variables, environment) if default else f"${{{match['variable']}}}"
            out += environment.get(match["variable"], unset)
        elif match["output"]:
            out += f"$({match['output'][1:-1]})"
        elif match["name"]:
            out += variables.get(match["name"], f"${{{match['name']}}}")
        else:
            out += (match["text"] or match["sign"] or "").strip("\"'")
        if match["aside"] or len(out) > _LONGEST:
            break
    return out[:_LONGEST]


def _filled(line: str, variables: Mapping[str, str], environment: Mapping[str, str]) -> str:
    return _SUBSTITUTION.sub(lambda match: _value(match[1], variables, environment), line)[:_LONGEST]
