"""Which functions write which answer: the class of an answer to its JSON and its screen, imported when asked for."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from oomph.report.contract.plan import SCHEMA
from oomph.report.terminal import Style, columns

if TYPE_CHECKING:
    from oomph.report.answer import Answer

# class -> (function of contract/ that gives what --json prints; "": the value itself, module of screens/ whose answer()
# is what people see)
_VIEWS = {
    "Bundle": ("explain:report_output", "bundle"),
    "Cards": ("searches:cards_output", "cards"),
    "Check": ("several:check_output", "check"),
    "Comparison": ("", "compare"),
    "Diff": ("several:diff_output", "diff"),
    "Explanation": ("explain:explanation_output", "explain"),
    "Fit": ("searches:fit_output", "fit"),
    "GpuList": ("", "gpus"),
    "Held": ("simulate:simulation_output", "simulate"),
    "Inspection": ("", "inspect"),
    "Models": ("searches:models_output", "models"),
    "Packed": ("several:pack_output", "pack"),
    "Plan": ("plan:plan_output", "plan"),
    "Simulation": ("simulate:simulation_output", "simulate"),
    "Start": ("", "learn"),
    "Sweep": ("simulate:simulation_output", "simulate"),
    "ThreadExplanation": ("explain:thread_output", "thread"),
    "TwoReleases": ("simulate:simulation_output", "simulate"),
    "WhatIf": ("searches:what_if_output", "what_if"),
}


def to_dict(answer: Any) -> dict[str, Any]:
    """Exactly what the JSON holds: lists, not tuples, and texts as keys."""
    plain: dict[str, Any] = msgspec.json.decode(_encoded(answer))
    return plain


def to_json(answer: Any, indent: int) -> str:
    encoded = _encoded(answer)
    return (msgspec.json.format(encoded, indent=indent) if indent else encoded).decode()


def text(answer: Any, width: int, everything: bool) -> str:
    return screen_of(answer, Style(), width=width, everything=everything)


def print_answer(answer: Any, out: TextIO | None = None, *, everything: bool = False) -> None:
    """On a stream, in its colours and as wide as it is, with an empty line at the end."""
    stream = out or sys.stdout
    stream.write(screen_of(answer, Style(stream), everything=everything).rstrip("\n") + "\n\n")


def screen_of(value: Any, style: Style, *, width: int = 0, everything: bool = False) -> str:
    """`width`: 0 = as wide as the terminal."""
    from oomph.report.screen import print_screen

    module = _module(value)
    if hasattr(module, "render"):  # a list, or a file: no answer to one question
        return str(module.render(value))
    return print_screen(module.answer(value), style, width=width or columns(), everything=everything)


def answer_of(value: Any) -> "Answer":
    """What its module makes of it: the value that every printer prints."""
    shown: Answer = _module(value).answer(value)
    return shown


def _module(value: Any) -> Any:
    return import_module(f"oomph.report.screens.{_VIEWS[type(value).__name__][1]}")


def _encoded(value: Any) -> bytes:
    """The number of the contract first."""
    module, _, name = _VIEWS[type(value).__name__][0].partition(":")
    if not module:
        return msgspec.json.encode({"schema": SCHEMA, **msgspec.to_builtins(value)})
    return msgspec.json.encode(getattr(import_module(f"oomph.report.contract.{module}"), name)(value))
