"""Where learnt starts are kept: SQLite in ~/.cache/oomph/ (OOMPH_CACHE, XDG_CACHE_HOME)."""

import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

import msgspec
from msgspec.structs import replace

from oomph.errors import InputError
from oomph.machine.learn import place
from oomph.machine.learn.start import Start
from oomph.text.redaction import hide_secrets

_SCHEMA = """CREATE TABLE IF NOT EXISTS learnt (
    number INTEGER PRIMARY KEY, at REAL, machine TEXT, engine TEXT, version TEXT, start BLOB)"""
_NEWEST = 500  # starts of one machine, engine and release that are looked at


def path() -> Path:
    return Path(place.path())


def remember(start: Start) -> bool:
    """False where it cannot be written: never in the way of the server that is started."""
    shown = replace(start, model=hide_secrets(start.model), source=hide_secrets(start.source), at=time.time())
    row = (shown.at, shown.machine, shown.engine, shown.version, msgspec.msgpack.encode(shown))
    try:
        path().parent.mkdir(parents=True, exist_ok=True)
        set_aside_if_broken()
        with closing(sqlite3.connect(path(), timeout=2)) as database, database:
            database.execute(_SCHEMA)
            if shown.digest and any(digest == shown.digest for digest in _digests(database, shown)):
                return True  # the same log again is no second start
            database.execute("INSERT INTO learnt (at, machine, engine, version, start) VALUES (?,?,?,?,?)", row)
    except (OSError, sqlite3.Error):
        return False
    return True


def _digests(database: sqlite3.Connection, start: Start) -> list[str]:
    query = f"SELECT start FROM learnt WHERE machine=? AND engine=? AND version=? ORDER BY number DESC LIMIT {_NEWEST}"
    rows = database.execute(query, (start.machine, start.engine, start.version)).fetchall()
    return [row.digest for (blob,) in rows if (row := _decoded(blob)) is not None]


def _decoded(blob: bytes) -> Start | None:
    try:
        return msgspec.msgpack.decode(blob, type=Start)
    except (msgspec.MsgspecError, TypeError, ValueError):
        return None


def set_aside_if_broken() -> Path | None:
    """A store that is no database is renamed, so that the next one can be written; None where it is whole."""
    place, aside = path(), path().with_name(f"{path().name}.broken-{time.strftime('%Y%m%d-%H%M%S')}")
    if not place.is_file():
        return None
    try:
        with closing(sqlite3.connect(place, timeout=2)) as database:
            database.execute(_SCHEMA)
            database.execute("SELECT number, at, machine, engine, version, start FROM learnt LIMIT 1").fetchall()
    except sqlite3.OperationalError as error:
        if "no such column" not in str(error):
            return None  # locked, read-only, a full disk: it may be whole
    except sqlite3.DatabaseError:
        pass
    else:
        return None
    try:
        place.rename(aside)
    except OSError:
        return None
    text = f"{place} could not be read as a store of starts: it is {aside.name} now, and a new one begins"
    print(f"oomph: {text}", file=sys.stderr)
    return aside


def starts(machine: str = "", engine: str = "", version: str = "") -> list[Start]:
    """The newest first; all where no machine is named. What cannot be read is not there."""
    if not path().exists() or set_aside_if_broken():
        return []
    query, values = "SELECT number, start FROM learnt", []
    if machine:
        query += " WHERE machine=? AND engine=? AND version=?"
        values = [machine, engine, version]
    try:
        with closing(sqlite3.connect(f"file:{path()}?mode=ro", uri=True, timeout=1)) as database:
            rows = database.execute(f"{query} ORDER BY number DESC LIMIT {_NEWEST}", values).fetchall()
    except sqlite3.Error:
        return []
    decoded = ((number, _decoded(blob)) for number, blob in rows)
    return [replace(start, number=number) for number, start in decoded if start is not None]


def forget(which: str) -> int:
    """`which`: "all", or numbers as --list shows them. How many were there."""
    if not path().exists() or set_aside_if_broken():
        return 0
    words = which.replace(",", " ").split()
    if which != "all" and not all(word.isascii() and word.isdigit() and len(word) < 15 for word in words):
        raise InputError(f"--forget {which[:40]!r}: numbers as oomph learn --list shows them, or all")
    try:
        with closing(sqlite3.connect(path(), timeout=2)) as database, database:
            if which == "all":
                return database.execute("DELETE FROM learnt").rowcount
            marks = ",".join("?" * len(words))
            return database.execute(f"DELETE FROM learnt WHERE number IN ({marks})", list(map(int, words))).rowcount
    except sqlite3.Error as error:
        raise InputError(f"{path()} cannot be changed: {error}") from None
