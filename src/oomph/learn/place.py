"""Where learnt starts are kept. A plan looks here first: where nothing was learnt, nothing else of it is imported."""

from __future__ import annotations

import os
from pathlib import Path


def path() -> Path:
    """SQLite in ~/.cache/oomph/ (OOMPH_CACHE, XDG_CACHE_HOME)."""
    base = os.environ.get("OOMPH_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "oomph")
    return Path(base).expanduser() / "learnt.db"
