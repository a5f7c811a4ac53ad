"""What starts on this machine really took, kept so that later plans of the same engine, release and GPU are right.

SQLite in ~/.cache/oomph/ (OOMPH_CACHE, XDG_CACHE_HOME). What is kept: engine, release, GPU, term, predicted, actual.
A plan is corrected by the median of what the same engine, release and GPU showed, and says so.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from statistics import median

from msgspec.structs import replace

from oomph.ir.deployment import Deployment
from oomph.ir.plan import Plan
from oomph.launch.watch import Seen
from oomph.redaction import hide_secrets

_SCHEMA = """CREATE TABLE IF NOT EXISTS starts (
    at REAL, engine TEXT, version TEXT, gpu TEXT, model TEXT, term TEXT, predicted INTEGER, actual INTEGER)"""
_KEPT = 200  # starts looked at, newest first


def path() -> Path:
    base = os.environ.get("OOMPH_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "oomph")
    return Path(base).expanduser() / "starts.db"


def remember(plan: Plan, seen: Iterable[Seen]) -> None:
    """Never in the way: a cache that cannot be written is left alone."""
    e = plan.deployment.engine
    gpu = plan.deployment.gpus[0].name if plan.deployment.gpus else ""
    rows = [
        (time.time(), e.name, e.version, gpu, hide_secrets(plan.model), s.term, s.predicted, s.actual)
        for s in seen
        if s.predicted
    ]
    if not rows:
        return
    try:
        path().parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path(), timeout=2)) as db, db:
            db.execute(_SCHEMA)
            db.executemany("INSERT INTO starts VALUES (?,?,?,?,?,?,?,?)", rows)
    except (OSError, sqlite3.Error):
        return


def corrections(deployment: Deployment) -> dict[str, tuple[int, int]]:
    """term -> (median of actual - predicted, how many starts), for this engine, release and GPU."""
    if not deployment.gpus or not path().exists():
        return {}
    e = deployment.engine
    try:
        with closing(sqlite3.connect(f"file:{path()}?mode=ro", uri=True, timeout=1)) as db:
            rows = db.execute(
                "SELECT term, actual - predicted FROM starts WHERE engine=? AND version=? AND gpu=? "
                "ORDER BY at DESC LIMIT ?",
                (e.name, e.version, deployment.gpus[0].name, _KEPT),
            ).fetchall()
    except sqlite3.Error:
        return {}
    by_term: dict[str, list[int]] = {}
    for term, off in rows:
        if isinstance(term, str) and isinstance(off, int):
            by_term.setdefault(term, []).append(off)
    return {term: (round(median(offs)), len(offs)) for term, offs in by_term.items()}


def corrected(deployment: Deployment, plan: Plan) -> Deployment:
    """The deployment with the terms that nobody can derive set to what was seen here: memory outside PyTorch, and
    where that cannot be so small, the peak activation."""
    off, starts = corrections(deployment).get("available_kv", (0, 0))
    if not starts or not plan.ranks or "available_kv" in deployment.given or "non_torch" in deployment.given:
        return deployment
    measured = dict(deployment.measured)
    terms = plan.ranks[0].terms
    for name in ("non_torch", "activation_peak"):
        if name in terms and name not in deployment.given and (off or name == "non_torch"):
            measured[name] = max(0, terms[name].bytes - off)
            off -= terms[name].bytes - measured[name]
    note = f"measured here: the plan is corrected by {starts} earlier figure{'s' if starts > 1 else ''} of this GPU"
    return replace(deployment, measured=measured, notes=(*deployment.notes, note))
