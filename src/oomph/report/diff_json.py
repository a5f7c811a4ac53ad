"""A diff as JSON (report/contract_answers.py)."""

from __future__ import annotations

from typing import Any

from msgspec import structs, to_builtins

from oomph.diff import Change, Diff
from oomph.report.contract import SCHEMA
from oomph.report.contract_answers import ChangeOutput, DiffOutput
from oomph.report.plan_json import plan_output


def diff_json(difference: Diff) -> dict[str, Any]:
    output = DiffOutput(
        SCHEMA,
        plan_output(difference.before),
        plan_output(difference.after),
        [_change(c) for c in difference.changes],
        [_change(c) for c in difference.steps],
        list(difference.flags),
    )
    plain: dict[str, Any] = to_builtins(output)
    return plain


def _change(change: Change) -> ChangeOutput:
    return ChangeOutput(**structs.asdict(change))
