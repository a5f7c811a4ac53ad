"""Every public name is there, and importing oomph imports none of them."""

from __future__ import annotations

import subprocess
import sys

import oomph

PUBLIC = [
    "CannotPlan",
    "Device",
    "Explanation",
    "Fit",
    "InputError",
    "Inspection",
    "Model",
    "OomphError",
    "Plan",
    "explain",
    "fit",
    "inspect",
    "load_model",
    "parse_gpus",
    "plan",
]


def test_the_list_is_the_promise() -> None:
    assert oomph.__all__ == PUBLIC
    for name in PUBLIC:
        assert getattr(oomph, name) is not None
        assert name in dir(oomph)


def test_functions_are_not_hidden_by_modules_of_their_name() -> None:
    code = "import oomph.plan, oomph; from oomph import plan; assert callable(plan) and callable(oomph.plan)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_oomph_is_nothing() -> None:
    code = "import sys, oomph; print(*[m for m in sys.modules if m.startswith('oomph.') or m in ('click', 'msgspec')])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == ""


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(oomph, "nothing")
