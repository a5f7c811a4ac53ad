"""All rules, by file name: those that several engines share are files here, an engine's own are in engines/NAME/rules.

A new diagnosis is a new file, or a row of doctor/reading/not_memory.py, and nothing else.
"""

import pkgutil
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from oomph.doctor.rule import Rule
from oomph.engines.registry import NAMES


@lru_cache(maxsize=1)
def modules() -> tuple[ModuleType, ...]:
    packages = [__name__, *(name for name in (f"oomph.engines.{engine}.rules" for engine in NAMES) if find_spec(name))]
    names = [
        (module.name, f"{package}.{module.name}")
        for package in packages
        for module in pkgutil.iter_modules(import_module(package).__path__)
    ]
    return tuple(import_module(full) for _, full in sorted(names))


@lru_cache(maxsize=1)
def rules() -> tuple[Rule, ...]:
    return tuple(rule for module in modules() for rule in getattr(module, "RULES", ()) or (module.match,))


def page(rule_id: str) -> str:
    """A rule's documentation."""
    return next((rule.page for rule in rules() if rule.id == rule_id.upper()), "")
