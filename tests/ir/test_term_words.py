"""Every term that may decide a plan has words for people: "The captured decides" is no sentence."""

from __future__ import annotations

import ast
from pathlib import Path

import oomph
from oomph.ir.ledger import TERM_WORDS
from oomph.report.screens.plan_words import settling_words

ENGINES = Path(oomph.__file__).parent / "engines"
MAKERS = {"Term", "Slack", "_term", "_spread", "_working", "interval"}  # what makes a term takes its name first


def names_in(path: Path) -> set[str]:
    calls = (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
    return {
        call.args[0].value
        for call in calls
        if call.args
        and getattr(call.func, "attr", getattr(call.func, "id", "")) in MAKERS
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
    }


def test_every_term_of_an_engine_has_words() -> None:
    names = {name for path in ENGINES.rglob("*.py") for name in names_in(path)}
    assert {"weights", "captured", "warm_up", "serving"} <= names
    assert names <= TERM_WORDS.keys()


def test_what_decides_is_told_in_a_sentence() -> None:
    plan = oomph.plan(
        "vllm serve google/gemma-4-31B-it-qat-w4a16-ct -tp 2 --max-model-len 1024",
        gpu="2x RTX 5070 Ti", engine="vllm==0.32.0", advise=False,
    )  # fmt: skip
    assert plan.verdict.outcome == "close"
    assert settling_words(plan.verdict).startswith(f"The {TERM_WORDS[plan.verdict.deciding_term]} decides: ")
