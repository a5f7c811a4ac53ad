"""A page and a server for agents plan for days: what their caches keep of each plan has an end."""

import functools
import importlib
import pkgutil

import oomph.engines

SMALL = {  # their keys are names, numbers or a model's modules, whatever is asked
    "small_block", "reservation", "_taken", "_products", "engine_named", "_grouping", "refusal_of_modules",
}  # fmt: skip


def test_what_a_plan_leaves_behind_has_an_end() -> None:
    caches = {
        name: value.cache_parameters()["maxsize"]
        for module in pkgutil.walk_packages(oomph.engines.__path__, "oomph.engines.")
        for name, value in vars(importlib.import_module(module.name)).items()
        if isinstance(value, functools._lru_cache_wrapper) and value.__module__ == module.name
    }
    assert len(caches) > 30
    assert {name for name, size in caches.items() if size is None or size > 256} == SMALL
