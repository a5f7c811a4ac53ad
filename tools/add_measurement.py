"""add_measurement.py [--write] FILE...: checks measured starts that people shared and adds them to tests/truth.

FILE holds rows as `oomph report --measurement` prints them, one a line; other lines (the text of an issue) are passed
over. A row is refused where it has a field that rows have not, something that looks like a secret or a path, a model
that the catalogue lacks, a card or a release that is not known, or figures that cannot be those of its command. It is
planned again, and each term is printed beside what was measured. --write adds what passes to
tests/truth/measured.jsonl, sorted, each once.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import msgspec

from oomph import catalog
from oomph.commands import parse_command
from oomph.errors import OomphError
from oomph.machine.learn.row import Row, row_of
from oomph.machine.learn.start import ROUNDING
from oomph.sources.gpu import parse_gpus
from oomph.text.redaction import hide_secrets
from oomph.units import gib

STORE = Path(__file__).parent.parent / "tests" / "truth" / "measured.jsonl"
_PATH = re.compile(r"(?:^|[\s=\"])(?:~|/|[A-Za-z]:\\)\S|@\w")


class StrictRow(Row, frozen=True, forbid_unknown_fields=True):
    """A row with a field that rows have not is refused."""


def rows_in(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.lstrip().startswith('{"oomph_measurement"')]


def check(line: str) -> Row:
    """The row, planned by this oomph; raises ValueError with the reason why it is none."""
    if hide_secrets(line) != line or _PATH.search(line):
        raise ValueError("it holds something that looks like a path, an address or a secret")
    try:
        row = msgspec.json.decode(line, type=StrictRow)
    except msgspec.MsgspecError as error:
        raise ValueError(f"it is no row: {error}") from None
    words = shlex.split(row.command)
    try:
        deployment = parse_command(words, engine=f"{row.engine}=={row.version}")
        if deployment.model not in catalog.ids():
            raise ValueError(f"{deployment.model} is not in the catalogue: add it first (CONTRIBUTING.md)")
        again = row_of(deployment, parse_gpus(row.gpu), {**row.measured, "total": row.total_bytes})
    except OomphError as error:
        raise ValueError(error.message) from None
    if again.command != row.command or again.version != row.version:
        raise ValueError(f"planned again its command is {again.command!r} of {again.version}")
    if abs(again.total_bytes - parse_gpus(row.gpu)[0].total_bytes) > 0.05 * again.total_bytes:
        raise ValueError(f"{row.gpu} does not have {gib(row.total_bytes)}")
    return again


def compared(row: Row) -> list[str]:
    lines = []
    for name, size in row.measured.items():
        if name in row.planned:
            low, expected, high = row.planned[name]
            inside = "inside" if low - ROUNDING <= size <= high + ROUNDING else "outside"
            lines.append(f"  {name}: measured {gib(size)}, planned {gib(expected)}, {inside} its interval")
    return lines


def main(argv: list[str]) -> int:
    files = [word for word in argv if word != "--write"]
    absent = [name for name in files if not Path(name).is_file()]
    if not files or absent:
        print("\n".join(f"there is no file {name}" for name in absent if name[:1] != "-") or __doc__)
        return 2
    stored = STORE.read_text().splitlines() if STORE.exists() else []
    known = {key(line) for line in stored}
    refused = 0
    for line in (line for name in files for line in rows_in(Path(name).read_text(errors="replace"))):
        try:
            row = check(line)
        except ValueError as error:
            refused += 1
            print(f"refused: {error}\n  {line[:160]}")
            continue
        print("\n".join([f"{row.engine} {row.version}, {row.gpu}: {row.command}", *compared(row)]))
        if key(line) in known:
            print("  is there already")
        else:
            known.add(key(line))
            stored.append(row.line())
    if "--write" in argv:
        STORE.write_text("".join(f"{line}\n" for line in sorted(stored)))
    return 1 if refused else 0


def key(line: str) -> str:
    """What makes two rows the same start: everything but the plan of the oomph that wrote it."""
    row = json.loads(line)
    return json.dumps({name: row[name] for name in ("engine", "version", "gpu", "command", "measured")}, sort_keys=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
