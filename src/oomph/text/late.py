"""Regular expressions that are compiled at their first use.

Hundreds of forms are known and a command meets a few of them; compiling all of them took a tenth of a plan's time. A
pattern whose words are asked of every engine is written by a function, so that a command imports the engine it names.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

_METHODS = ("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")


class _LatePattern:
    """Stands for what `re.compile` returns, whose methods become its own attributes once one of them is asked for."""

    def __init__(self, pattern: str | Callable[[], str], flags: int = 0) -> None:
        self._text, self._asked_flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # pickle and copy look for what is not there
            raise AttributeError(name)
        text = self._text if isinstance(self._text, str) else self._text()
        self.__dict__["pattern"] = text
        if name == "pattern":
            return text
        compiled = re.compile(text, self._asked_flags)
        self.__dict__.update({method: getattr(compiled, method) for method in _METHODS})
        return getattr(compiled, name)


if TYPE_CHECKING:

    def late_pattern(pattern: str | Callable[[], str], flags: int = 0) -> re.Pattern[str]: ...

else:
    late_pattern = _LatePattern
