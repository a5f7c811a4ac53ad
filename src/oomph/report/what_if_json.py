"""A what-if as JSON (report/contract_searches.py): the judged changes, one row each."""

from __future__ import annotations

from typing import Any

from msgspec import structs, to_builtins

from oomph.advice.what_if import WhatIf
from oomph.report.contract import SCHEMA
from oomph.report.contract_searches import WhatIfOutput, WhatIfRowOutput
from oomph.report.plan_json import judged_output, plan_output


def what_if_json(table: WhatIf) -> dict[str, Any]:
    rows = [
        WhatIfRowOutput(
            **structs.asdict(judged_output(row.judged)),
            label=row.label,
            tokens_change=row.tokens_change,
            advised=row.advised,
        )
        for row in table.rows
    ]
    plain: dict[str, Any] = to_builtins(WhatIfOutput(SCHEMA, table.binding, rows, plan_output(table.plan)))
    return plain
