"""A what-if as JSON: the judged changes of design.md section 5, one row each."""

from __future__ import annotations

from typing import Any

from oomph.advice.what_if import WhatIf
from oomph.ir.advice import judged_fields
from oomph.report.plan_json import SCHEMA, plan_json


def what_if_json(table: WhatIf) -> dict[str, Any]:
    rows = [
        {**judged_fields(row.judged), "label": row.label, "tokens_change": row.tokens_change, "advised": row.advised}
        for row in table.rows
    ]
    return {"schema": SCHEMA, "binding": table.binding, "rows": rows, "plan": plan_json(table.plan)}
