"""Several deployments as JSON: an object with the list, each the plan of the contract or an error."""

from __future__ import annotations

from typing import Any

from oomph.check import Check, Item
from oomph.errors import OomphError
from oomph.report.contract import SCHEMA
from oomph.report.plan_json import plan_json


def check_json(check: Check, *, where: str = "") -> dict[str, Any]:
    """`where`: the one file that was asked about."""
    file = {"file": where} if where else {}
    return {
        "schema": SCHEMA,
        **file,
        "outcome": check.outcome,
        "exit_code": check.exit_code,
        "files": check.files,
        "deployments": [_item(item) for item in check.items],
    }


def _item(item: Item) -> dict[str, Any]:
    place = {"file": item.file, "name": item.name, "line": item.line, "outcome": item.outcome}
    if item.plan is not None:
        return {**place, **plan_json(item.plan)}
    return {**place, "error": error_json(item.error)}


def error_json(error: OomphError | None) -> dict[str, str]:
    """As every command prints its errors with --json."""
    if error is None:
        return {}
    return {"kind": error.kind, "message": error.message, "hint": error.hint}
