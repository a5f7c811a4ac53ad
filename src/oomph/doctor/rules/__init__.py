"""All rules, by file name. A new diagnosis is a new file here, or a row of doctor/not_memory.py, and nothing else."""

from __future__ import annotations

import pkgutil
from functools import lru_cache
from importlib import import_module

from oomph.doctor.rule import Rule


@lru_cache(maxsize=1)
def rules() -> tuple[Rule, ...]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = (import_module(f"{__name__}.{name}") for name in names)
    return tuple(rule for module in modules for rule in getattr(module, "RULES", ()) or (module.RULE,))


def page(rule_id: str) -> str:
    """A rule's documentation: its module's docstring, or what its row says."""
    from oomph.doctor.rules.n02_not_memory_kinds import PAGES

    if rule_id.upper() in PAGES:
        return PAGES[rule_id.upper()]
    for module in pkgutil.iter_modules(__path__):
        if module.name.startswith(rule_id.lower() + "_"):
            return import_module(f"{__name__}.{module.name}").__doc__ or ""
    return ""
