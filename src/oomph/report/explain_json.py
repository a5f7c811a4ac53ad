"""An explanation as JSON (report/contract/answers.py)."""

from typing import Any

from msgspec import to_builtins

from oomph.doctor.explanation import Explanation
from oomph.ir import Judged
from oomph.ir.advice import Kind
from oomph.report.contract.answers import RemedyOutput
from oomph.report.contract.plan import SCHEMA
from oomph.report.plan_json import advice_output

# What a remedy's kind has always been called in this JSON, where the advice of a plan calls it otherwise.
_KINDS: dict[Kind, str] = {
    "environment": "env",
    "checkpoint": "model",
    "release": "version",
    "layout": "flag",
    "offload": "flag",
}


def _remedy(judged: Judged) -> RemedyOutput:
    change = judged.change
    return RemedyOutput(
        change=change.label,
        kind=_KINDS.get(change.kind, change.kind),
        gains_bytes=max(0, judged.gain_bytes),
        verified=judged.verified,
        costs=judged.costs,
        command=judged.command,
        lever=change.lever,
    )


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    plain: dict[str, Any] = to_builtins(explanation)
    plain["remedies"] = to_builtins([_remedy(judged) for judged in explanation.remedies])
    plain["rejected"] = [
        {"lever": judged.change.lever, "advice": judged.change.label, "why": judged.why}
        for judged in explanation.rejected
    ]
    del plain["advice"]
    if explanation.advice is not None:
        plain["advice"] = to_builtins(advice_output(explanation.advice))
    return {"schema": SCHEMA, **plain}
