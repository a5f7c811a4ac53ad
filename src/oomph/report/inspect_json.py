"""An inspection as JSON: as it is kept."""

from __future__ import annotations

from typing import Any

from oomph.inspection import Inspection
from oomph.report.json import with_schema


def inspection_json(inspection: Inspection) -> dict[str, Any]:
    return with_schema(inspection)
