"""Which functions write which answer: the class of an answer to its JSON and its screen, imported when asked for."""

import sys
from importlib import import_module
from typing import Any, TextIO

import msgspec

from oomph.report.terminal import Style, columns

# class -> (function that gives the dict of --json, as module:name, module whose render() gives the screen)
_VIEWS = {
    "Bundle": ("bundle_text:bundle_json", "bundle_text"),
    "Cards": ("cards_text:cards_json", "cards_text"),
    "Check": ("check_text:check_json", "check_text"),
    "Comparison": ("json:with_schema", "compare_text"),
    "Diff": ("diff_text:diff_json", "diff_text"),
    "Explanation": ("explain_json:explanation_json", "explain_text"),
    "Fit": ("fit_text:fit_json", "fit_text"),
    "GpuList": ("json:with_schema", "gpus_text"),
    "Held": ("simulate_json:simulation_json", "simulate_text"),
    "Inspection": ("json:with_schema", "inspect_text"),
    "Models": ("models_text:models_json", "models_text"),
    "Packed": ("pack_text:pack_json", "pack_text"),
    "Plan": ("plan_json:plan_json", "text"),
    "Simulation": ("simulate_json:simulation_json", "simulate_text"),
    "Start": ("json:with_schema", "learn_text"),
    "Sweep": ("simulate_json:simulation_json", "simulate_text"),
    "ThreadExplanation": ("thread_text:thread_json", "thread_text"),
    "TwoReleases": ("simulate_json:simulation_json", "simulate_text"),
    "WhatIf": ("what_if_text:what_if_json", "what_if_text"),
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
