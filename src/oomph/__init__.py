"""oomph foresees and explains GPU memory in LLM serving.

    import oomph
    oomph.plan("vllm serve Qwen/Qwen3-8B", gpu="RTX 4090").verdict.outcome
    oomph.explain("server.log").cause.title
    oomph.fit("gemma-4-31b-it", "2x RTX 5070 Ti", context=32768).pick
    oomph.inspect("gemma-4-31b nvfp4").bytes
    oomph.models("RTX 3090").picks[0].command

Every function returns what the command of its name prints: an object with typed fields and `to_dict()`, `to_json()` and
`text()`. What cannot be answered raises an OomphError with `kind`, `message` and `hint`. Nothing is kept between calls
but caches, and any number of threads may call at once. Each name is imported when it is first asked for.
"""

import sys as _sys
from types import ModuleType as _ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from oomph.advice.what_if import WhatIf as WhatIf
    from oomph.answers.check import Check as Check, check as check
    from oomph.answers.compare import Comparison as Comparison, compare as compare
    from oomph.answers.diff import Diff as Diff
    from oomph.answers.inspection import Inspection as Inspection, inspect as inspect
    from oomph.answers.plan import plan as plan
    from oomph.api import (
        diff as diff,
        gpus as gpus,
        learn as learn,
        pack as pack,
        simulate as simulate,
        what_if as what_if,
    )
    from oomph.doctor.explain import explain as explain
    from oomph.doctor.explanation import Explanation as Explanation
    from oomph.errors import (
        CannotPlan as CannotPlan,
        CommandError as CommandError,
        ConfigError as ConfigError,
        HeaderError as HeaderError,
        HubError as HubError,
        InputError as InputError,
        OomphError as OomphError,
        UnknownCache as UnknownCache,
        UnknownModel as UnknownModel,
    )
    from oomph.ir import Advice as Advice, Device as Device, GpuList as GpuList, Model as Model, Plan as Plan
    from oomph.machine.learn.start import Start as Start
    from oomph.pack.pack import Packed as Packed
    from oomph.report.many import plan_many as plan_many, simulate_many as simulate_many
    from oomph.search.cards import Cards as Cards
    from oomph.search.fit import Fit as Fit, fit as fit
    from oomph.search.models import Models as Models, models as models
    from oomph.simulate.search import Held as Held, Simulation as Simulation, Sweep as Sweep
    from oomph.sources.gpu import parse_gpus as parse_gpus
    from oomph.sources.load import load_model as load_model

    __version__: str

# public name -> module that has it
_PUBLIC = {
    "Advice": "ir.advice",
    "CannotPlan": "errors",
    "Cards": "search.cards",
    "Check": "answers.check",
    "CommandError": "errors",
    "Comparison": "answers.compare",
    "ConfigError": "errors",
    "Device": "ir.hardware",
    "Diff": "answers.diff",
    "Explanation": "doctor.explanation",
    "Fit": "search.fit",
    "GpuList": "ir.hardware",
    "HeaderError": "errors",
    "Held": "simulate.search",
    "HubError": "errors",
    "InputError": "errors",
    "Inspection": "answers.inspection",
    "Model": "ir.model",
    "Models": "search.models",
    "OomphError": "errors",
    "Packed": "pack.pack",
    "Plan": "ir.plan",
    "Simulation": "simulate.search",
    "Start": "machine.learn.start",
    "Sweep": "simulate.search",
    "UnknownCache": "errors",
    "UnknownModel": "errors",
    "WhatIf": "advice.what_if",
    "check": "answers.check",
    "compare": "answers.compare",
    "diff": "api",
    "explain": "doctor.explain",
    "fit": "search.fit",
    "gpus": "api",
    "inspect": "answers.inspection",
    "learn": "api",
    "load_model": "sources.load",
    "models": "search.models",
    "pack": "api",
    "parse_gpus": "sources.gpu",
    "plan": "answers.plan",
    "plan_many": "report.many",
    "simulate": "api",
    "simulate_many": "report.many",
    "what_if": "api",
}
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> "Any":
    if name == "__version__":
        from importlib.metadata import version

        return version("oomph")
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module 'oomph' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"oomph.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)


class _Api(_ModuleType):
    def __setattr__(self, name: str, value: "Any") -> None:
        """Importing the package oomph.pack must not hide the function oomph.pack."""
        if name not in _PUBLIC or not isinstance(value, _ModuleType):
            super().__setattr__(name, value)


_sys.modules[__name__].__class__ = _Api
