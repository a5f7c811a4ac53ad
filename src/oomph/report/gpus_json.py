"""GPUs as JSON: as they are kept."""

from __future__ import annotations

from typing import Any

from oomph.ir import GpuList
from oomph.report.json import with_schema


def gpus_json(known: GpuList) -> dict[str, Any]:
    return with_schema(known)
