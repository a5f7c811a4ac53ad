"""All rules, by file name. A new diagnosis is a new file here, and nothing else."""

from __future__ import annotations

import pkgutil
from functools import lru_cache
from importlib import import_module

from oomph.doctor.rule import Rule


@lru_cache(maxsize=1)
def rules() -> tuple[Rule, ...]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(import_module(f"{__name__}.{name}").RULE for name in names)


def page(rule_id: str) -> str:
    """A rule's documentation: its module's docstring."""
    for module in pkgutil.iter_modules(__path__):
        if module.name.startswith(rule_id.lower() + "_"):
            return import_module(f"{__name__}.{module.name}").__doc__ or ""
    return ""
