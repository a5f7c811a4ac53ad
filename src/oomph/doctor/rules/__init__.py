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
    return tuple(rule for module in modules() for rule in getattr(module, "RULES", ()) or (module.RULE,))


def page(rule_id: str) -> str:
    """A rule's documentation: its module's docstring, or what its row says."""
    from oomph.doctor.rules.n02_not_memory_kinds import PAGES

    if rule_id.upper() in PAGES:
        return PAGES[rule_id.upper()]
    prefix = rule_id.lower() + "_"
    return next((m.__doc__ or "" for m in modules() if m.__name__.rpartition(".")[2].startswith(prefix)), "")
