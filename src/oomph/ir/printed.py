"""What every answer of the Python API can do: be a dict, a JSON text or the screen that its command prints.

The functions that write them are in `report/`, above everything that answers; `report/views.py` says which belongs to
which class. It is imported by name and only when an answer is written, so that no arrow points down.
"""

from importlib import import_module
from typing import Any

from msgspec import Struct


class Printed(Struct, frozen=True):
    """An answer: its fields, and the three forms in which its command prints it."""

    def to_dict(self) -> dict[str, Any]:
        """What the command's `--json` prints, as plain Python values. Bytes are integers."""
        return _views().to_dict(self)  # type: ignore[no-any-return]

    def to_json(self, *, indent: int = 0) -> str:
        """What the command's `--json` prints, as text; `indent` spaces a level, 0 for one line."""
        return _views().to_json(self, indent)  # type: ignore[no-any-return]

    def text(self, *, width: int = 80, everything: bool = False) -> str:
        """What the command prints for people, without colours. `everything` is its `--all`."""
        return _views().text(self, width, everything)  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.in_short()}>"

    def in_short(self) -> str:
        """A few words for a debugger: what it is about, and what it says."""
        raise NotImplementedError


def _views() -> Any:
    return import_module("oomph.report.views")
