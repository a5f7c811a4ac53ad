"""The options of the two commands that are called most, declared once.

They are read here, without click, whose import takes as long as many plans, where what was typed is plain: options of
these rows before the serve command, each with its value. Everything else goes to click, and so does every complaint;
click's declarations are made from these rows (cli/options.py).
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple


class Option(NamedTuple):
    name: str
    parameter: str  # of the command's function in cli/answers.py
    help: str
    metavar: str = ""  # what it takes; a switch takes nothing
    multiple: bool = False
    choices: tuple[str, ...] = ()  # checked by click

    @property
    def takes(self) -> Literal["nothing", "value", "values"]:
        if not self.metavar and not self.choices:
            return "nothing"
        return "values" if self.multiple else "value"


_ENGINE = Option("--engine", "engine", "The engine's release: vllm==0.21.0.", "NAME==VERSION")
_HTML = Option("--html", "html", "Write one self-contained page.", "FILE")
DECLARED: dict[str, tuple[Option, ...]] = {
    "plan": (
        Option("--gpu", "gpu", 'The GPUs: "2x RTX 5070 Ti", "RTX 3090 used 1.2GiB", auto (default).', "GPUS"),
        _ENGINE,
        Option(
            "--given", "pins", "Pin a term to an observed value: available_kv=11.54GiB.", "TERM=SIZE", multiple=True
        ),
        Option(
            "--compile-cache",
            "compile_cache",
            "Is torch.compile's cache empty? Default cold.",
            choices=("cold", "warm"),
        ),
        Option("--margin", "margin", "Room to be left at every stage: 1GiB, 5%.", "SIZE|PERCENT"),
        Option("--ram", "ram", "Host memory of one node, such as 64GB.", "SIZE"),
        Option(
            "--emit",
            "form",
            "Write it: docker, kubernetes, kserve, skypilot, prometheus, ...; docs/emit.md.",
            "FORM",
        ),
        Option("--set", "settings", "A variable that a file does not set: MODEL=org/name.", "NAME=WHAT", multiple=True),
        Option(
            "--own-build",
            "own_build",
            "The engine was built from source, with code for these cards.",
        ),
        Option("--no-advice", "no_advice", "Leave out what would help: the plan alone, faster."),
        Option("--json", "as_json", "Print JSON."),
        _HTML,
        Option("--picture", "picture", "Write the verdict as a picture, for an issue or a chat.", "FILE.svg"),
        Option("--all", "show_all", "The whole ledger: stages, parts, the basis of each term."),
        Option("--batch", "batch", "Plan one JSON object a line (- for standard input); one plan a line.", "FILE"),
        Option("--workers", "workers", "With --batch: processes; 0 is one per core.", "N"),
    ),
    "what-if": (
        Option("--gpu", "gpu", 'The GPUs: "2x RTX 5070 Ti", auto (default).', "GPUS"),
        _ENGINE,
        Option("--json", "as_json", "Print JSON; bytes are integers."),
        _HTML,
    ),
}


def read_plainly(command: str, args: Sequence[str]) -> dict[str, Any] | None:
    """The parameters of the command's function; None where click has to look at them."""
    if command not in DECLARED:
        return None
    options, values, at = {option.name: option for option in DECLARED[command]}, dict[str, Any](), 0
    while at < len(args) and args[at].startswith("-") and args[at] not in ("-", "--"):
        name, equals, value = args[at].partition("=")
        option = options.get(name)
        if option is None or option.choices or (option.takes == "nothing" and equals):
            return None
        if option.takes == "nothing":
            values[option.parameter] = True
        else:
            if not equals:
                at += 1
                value = args[at] if at < len(args) else "-"
            if (value.startswith("-") and value != "-") or (value == "-" and option.parameter != "batch"):
                return None
            earlier = values.get(option.parameter, ())
            values[option.parameter] = (*earlier, value) if option.multiple else value
        at += 1
    return values | {"words": tuple(args[at + 1 :] if args[at : at + 1] == ["--"] else args[at:])}


# Of the options that every command has, those that take no value.
_EVERYWHERE = frozenset(("--debug", "--help", "-h", "--version", "-q", "--quiet", "--no-color"))


def takes_value(option: str, words: Sequence[str]) -> bool:
    """Whether the word behind an option is its value. `words`: the whole line, in which the command may be named.
    What neither of the two commands above has is looked up in the declarations of the command that is named, which are
    imported for that; an option that nobody has is taken to have a value."""
    if option in _EVERYWHERE:
        return False
    for declared in DECLARED.values():
        for row in declared:
            if row.name == option:
                return row.takes != "nothing"
    return _click_takes_value(option, words)


def _click_takes_value(option: str, words: Sequence[str]) -> bool:
    from oomph.cli.table import COMMANDS, click_command

    own = words[: words.index("--")] if "--" in words else words
    name = next((word for word in own if word in COMMANDS and word not in DECLARED), "")
    if not name:
        return True
    for parameter in click_command(name).params:
        if option in (*parameter.opts, *parameter.secondary_opts):
            return not getattr(parameter, "is_flag", False)
    return True
