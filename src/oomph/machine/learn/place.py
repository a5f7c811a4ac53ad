"""Where learnt starts are kept. A plan looks here first: where nothing was learnt, nothing else of it is imported."""

import os


def path() -> str:
    """SQLite in ~/.cache/oomph/ (OOMPH_CACHE, XDG_CACHE_HOME)."""
    base = os.environ.get("OOMPH_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "oomph")
    return os.path.join(os.path.expanduser(base), "learnt.db")
