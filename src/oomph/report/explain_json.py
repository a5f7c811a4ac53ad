"""An explanation as JSON (report/contract/answers.py)."""

from typing import Any

from msgspec import to_builtins

from oomph.doctor.explanation import Explanation
from oomph.report.contract.plan import SCHEMA
from oomph.report.plan_json import advice_output

_REMEDY = ("change", "kind", "gains_bytes", "verified", "costs", "command", "lever")


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    plain: dict[str, Any] = to_builtins(explanation)
    plain["remedies"] = [{key: remedy[key] for key in _REMEDY} for remedy in plain["remedies"]]
    del plain["advice"]
    if explanation.advice is not None:
        plain["advice"] = to_builtins(advice_output(explanation.advice))
    return {"schema": SCHEMA, **plain}
