"""Which functions write which answer: the class of an answer to its JSON and its screen, imported when asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import msgspec

# class -> (function that gives the dict of --json, function that gives the screen), as module:name below oomph.report
_VIEWS = {
    "Bundle": ("bundle_text:bundle_json", "bundle_text:bundle_text"),
    "Cards": ("cards_json:cards_json", "cards_text:cards_text"),
    "Check": ("check_json:check_json", "check_text:check_text"),
    "Comparison": ("compare_json:comparison_json", "compare_text:comparison_text"),
    "Diff": ("diff_json:diff_json", "diff_text:diff_text"),
    "Explanation": ("explain_json:explanation_json", "explain_text:explanation_text"),
    "Fit": ("fit_json:fit_json", "fit_text:fit_text"),
    "GpuList": ("gpus_json:gpus_json", "gpus_text:gpus_text"),
    "Held": ("simulate_json:simulation_json", "simulate_text:simulation_text"),
    "Inspection": ("inspect_json:inspection_json", "inspect_text:inspection_text"),
    "Models": ("models_json:models_json", "models_text:models_text"),
    "Packed": ("pack_text:pack_json", "pack_text:pack_text"),
    "Plan": ("plan_json:plan_json", "text:plan_text"),
    "Simulation": ("simulate_json:simulation_json", "simulate_text:simulation_text"),
    "Start": ("learn_json:start_json", "learn_text:start_text"),
    "Sweep": ("simulate_json:simulation_json", "simulate_text:simulation_text"),
    "ThreadExplanation": ("thread_text:thread_json", "thread_text:thread_text"),
    "TwoReleases": ("simulate_json:simulation_json", "simulate_text:simulation_text"),
    "WhatIf": ("what_if_json:what_if_json", "what_if_text:what_if_text"),
}


def to_dict(answer: Any) -> dict[str, Any]:
    """Exactly what the JSON holds: lists, not tuples, and texts as keys."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(_function(answer, 0)(answer)))
    return plain


def to_json(answer: Any, indent: int) -> str:
    encoded = msgspec.json.encode(_function(answer, 0)(answer))
    return (msgspec.json.format(encoded, indent=indent) if indent else encoded).decode()


def text(answer: Any, width: int, everything: bool) -> str:
    written: str = _function(answer, 1)(answer, width=width, everything=everything)
    return written


def _function(answer: Any, which: int) -> Callable[..., Any]:
    module, _, name = _VIEWS[type(answer).__name__][which].partition(":")
    function: Callable[..., Any] = getattr(import_module(f"oomph.report.{module}"), name)
    return function
