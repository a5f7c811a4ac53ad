"""What a log says: one value a row, with the line it stands on."""

from msgspec import Struct


class Observation(Struct, frozen=True):
    line: int  # 1-based line of the log
    kind: str  # the row of facts/*/logs.py that matched: a LogKind
    values: dict[str, float | int | str] = {}  # named groups; sizes in bytes
    rank: int | None = None
    process: str = ""
    text: str = ""  # the line, cleaned of colours and prefixes
