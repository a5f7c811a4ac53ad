"""Which functions write which answer: the class of an answer to its JSON and its screen, imported when asked for."""

import sys
from importlib import import_module
from typing import Any, TextIO

import msgspec

from oomph.report.terminal import Style, columns

# class -> (function that gives the dict of --json, as module:name, module whose render() gives the screen)
_VIEWS = {
    "Bundle": ("screens.bundle:bundle_json", "screens.bundle"),
    "Cards": ("screens.cards:cards_json", "screens.cards"),
    "Check": ("screens.check:check_json", "screens.check"),
    "Comparison": ("json:with_schema", "screens.compare"),
    "Diff": ("screens.diff:diff_json", "screens.diff"),
    "Explanation": ("explain_json:explanation_json", "screens.explain"),
    "Fit": ("screens.fit:fit_json", "screens.fit"),
    "GpuList": ("json:with_schema", "screens.gpus"),
    "Held": ("simulate_json:simulation_json", "screens.simulate"),
    "Inspection": ("json:with_schema", "screens.inspect"),
    "Models": ("screens.models:models_json", "screens.models"),
    "Packed": ("screens.pack:pack_json", "screens.pack"),
    "Plan": ("plan_json:plan_json", "screens.plan"),
    "Simulation": ("simulate_json:simulation_json", "screens.simulate"),
    "Start": ("json:with_schema", "screens.learn"),
    "Sweep": ("simulate_json:simulation_json", "screens.simulate"),
    "ThreadExplanation": ("screens.thread:thread_json", "screens.thread"),
    "TwoReleases": ("simulate_json:simulation_json", "screens.simulate"),
    "WhatIf": ("screens.what_if:what_if_json", "screens.what_if"),
}


def to_dict(answer: Any) -> dict[str, Any]:
    """Exactly what the JSON holds: lists, not tuples, and texts as keys."""
    plain: dict[str, Any] = msgspec.json.decode(_encoded(answer))
    return plain


def to_json(answer: Any, indent: int) -> str:
    encoded = _encoded(answer)
    return (msgspec.json.format(encoded, indent=indent) if indent else encoded).decode()


def text(answer: Any, width: int, everything: bool) -> str:
    return _screen(answer, Style(), width=width, everything=everything)


def print_answer(answer: Any, out: TextIO | None = None, **options: Any) -> None:
    """On a stream, in its colours and as wide as it is, with an empty line at the end."""
    stream = out or sys.stdout
    stream.write(_screen(answer, Style(stream), **options).rstrip("\n") + "\n\n")


def _encoded(answer: Any) -> bytes:
    module, _, name = _VIEWS[type(answer).__name__][0].partition(":")
    return msgspec.json.encode(getattr(import_module(f"oomph.report.{module}"), name)(answer))


def _screen(answer: Any, style: Style, *, width: int = 0, **options: Any) -> str:
    """Every module of a screen has the same function. `width`: 0 = as wide as the terminal."""
    module = import_module(f"oomph.report.{_VIEWS[type(answer).__name__][1]}")
    screen: str = module.render(answer, style, width=width or columns(), **options)
    return screen
