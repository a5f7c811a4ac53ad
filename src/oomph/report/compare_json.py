"""A comparison as JSON: as it is kept."""

from __future__ import annotations

from typing import Any

from oomph.compare import Comparison
from oomph.report.json import with_schema


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    return with_schema(comparison)
