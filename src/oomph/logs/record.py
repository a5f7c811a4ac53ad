"""A record that oomph's plugin wrote inside an engine: the lines of its process, its command and its card.

One JSON object on lines of their own, with `oomph_record` among the first; everything in it is a stranger's.
"""

from typing import Any

import msgspec
from msgspec import Struct

from oomph.ir import STAGES, StageName
from oomph.logs.reader import RawLog, read_text
from oomph.text.nesting import bounded

_MARK = '"oomph_record"'
_LONGEST = 16 << 20


class _Engine(Struct, frozen=True):
    name: str = ""
    version: str = ""


class _Death(Struct, frozen=True):
    stage: str = ""
    killed: bool = False


class RecordedCard(Struct, frozen=True):
    name: str = ""
    total_bytes: int = 0
    used_bytes: int = 0


class Record(Struct, frozen=True):
    engine: _Engine = _Engine()
    death: _Death | None = None
    command: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    card: str = ""
    gpus: tuple[RecordedCard, ...] = ()  # as they were before the engine took anything

    def lines(self, source: str) -> RawLog:
        return read_text("\n".join(self.log), source)

    @property
    def stage(self) -> StageName | None:
        """In which the plugin, inside of the engine, saw it die; of a kill its line says what ended it."""
        name = self.death.stage if self.death is not None and not self.death.killed else ""
        name = "runtime_request" if name in ("sleep", "wake_up") else name
        return next((stage for stage in STAGES if stage == name), None)

    @property
    def release(self) -> str | None:
        return f"{self.engine.name}=={self.engine.version}" if self.engine.version else None


def read_record(raw: RawLog) -> Record | None:
    """None where the text is something else. What of it cannot be read counts as not there."""
    head = [line.text for line in raw.lines[:4]]
    if not head or not head[0].lstrip().startswith("{") or not any(_MARK in line for line in head):
        return None
    if not raw.whole or raw.total_bytes > _LONGEST:
        return None
    try:
        record: Any = msgspec.json.decode(bounded("\n".join(line.text for line in raw.lines)), type=Record)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    return record if record.log else None
