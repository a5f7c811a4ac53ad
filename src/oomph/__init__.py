"""oomph foresees and explains GPU memory in LLM serving.

    import oomph
    oomph.inspect("gemma-4-31b nvfp4").bytes
    oomph.plan("vllm serve Qwen/Qwen3-8B", gpu="RTX 4090").fits
    oomph.explain("server.log").cause.title
    oomph.fit("gemma-4-31b-it", "2x RTX 5070 Ti", context=32768).pick

What the commands print is what these return. Each name is imported when it is first asked for.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oomph.doctor.explain import Explanation as Explanation
    from oomph.doctor.explain import explain as explain
    from oomph.errors import CannotPlan as CannotPlan
    from oomph.errors import InputError as InputError
    from oomph.errors import OomphError as OomphError
    from oomph.inspection import Inspection as Inspection
    from oomph.inspection import inspect as inspect
    from oomph.ir.hardware import Device as Device
    from oomph.ir.model import Model as Model
    from oomph.ir.plan import Plan as Plan
    from oomph.plan import plan as plan
    from oomph.search.fit import Fit as Fit
    from oomph.search.fit import fit as fit
    from oomph.sources.gpu import parse_gpus as parse_gpus
    from oomph.sources.load import load_model as load_model

# public name -> module that has it
_PUBLIC = {
    "CannotPlan": "errors",
    "Device": "ir.hardware",
    "Explanation": "doctor.explain",
    "Fit": "search.fit",
    "InputError": "errors",
    "Inspection": "inspection",
    "Model": "ir.model",
    "OomphError": "errors",
    "Plan": "ir.plan",
    "explain": "doctor.explain",
    "fit": "search.fit",
    "inspect": "inspection",
    "load_model": "sources.load",
    "parse_gpus": "sources.gpu",
    "plan": "plan",
}
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module 'oomph' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"oomph.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_PUBLIC]


class _Api(ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        """Importing the module oomph.plan must not hide the function oomph.plan."""
        if name not in _PUBLIC or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Api
