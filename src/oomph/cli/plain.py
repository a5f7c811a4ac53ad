"""The options of the two commands that are called most, read without click, whose import takes as long as many plans.

Only what is plain is read: known options before the serve command, each with its value. Everything else goes to click,
and so does every complaint. tests/cli/test_plain.py holds this table and click's declarations together.
"""

from collections.abc import Sequence
from typing import Any

# command -> option -> (the parameter of cli/answers.py, what it takes)
_COMMON = {"--gpu": ("gpu", "value"), "--engine": ("engine", "value"), "--json": ("as_json", "nothing")}
PLAIN: dict[str, dict[str, tuple[str, str]]] = {
    "plan": {
        **_COMMON,
        "--given": ("pins", "values"),
        "--margin": ("margin", "value"),
        "--ram": ("ram", "value"),
        "--no-advice": ("no_advice", "nothing"),
        "--all": ("show_all", "nothing"),
        "--batch": ("batch", "value"),
    },
    "what-if": _COMMON,
}


def read_plainly(command: str, args: Sequence[str]) -> dict[str, Any] | None:
    """The parameters of the command's function; None where click has to look at them."""
    if command not in PLAIN:
        return None
    options, values, at = PLAIN[command], dict[str, Any](), 0
    while at < len(args) and args[at].startswith("-") and args[at] not in ("-", "--"):
        name, equals, value = args[at].partition("=")
        parameter, takes = options.get(name, ("", ""))
        if takes == "nothing" and not equals:
            values[parameter] = True
        elif takes in ("value", "values"):
            if not equals:
                at += 1
                value = args[at] if at < len(args) else "-"
            if (value.startswith("-") and value != "-") or (value == "-" and parameter != "batch"):
                return None
            values[parameter] = value if takes == "value" else (*values.get(parameter, ()), value)
        else:
            return None
        at += 1
    return values | {"words": tuple(args[at + 1 :] if args[at : at + 1] == ["--"] else args[at:])}
