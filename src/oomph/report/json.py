"""What every `--json` prints: one JSON object, indented for people who look at it, bytes as integers."""

from typing import Any

import msgspec

from oomph.report.contract.plan import SCHEMA


def dumps(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def with_schema(value: Any) -> dict[str, Any]:
    """A Struct or dict as a dict that begins with the contract's version."""
    return {"schema": SCHEMA, **msgspec.to_builtins(value)}
