"""What was learnt from a start, as JSON: as it is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import to_builtins

from oomph.learn.start import Start
from oomph.report.json import with_schema


def start_json(start: Start) -> dict[str, Any]:
    return with_schema(start)


def starts_json(starts: Sequence[Start]) -> dict[str, Any]:
    return {"schema": 1, "starts": [to_builtins(start) for start in starts]}
