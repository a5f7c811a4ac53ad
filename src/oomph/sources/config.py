"""config.json as typed facts: every value is checked where it is read, and what was read is remembered.

`Config` wraps one JSON object. The arch files ask it for numbers by name; a wrong type, a NaN, a negative layer count
ends in one sentence that names the key. `keys_read` lets the catalogue keep just the facts that a plan needs.
"""

import math
from collections.abc import Mapping
from typing import Any, TypeVar, overload

from oomph.errors import ConfigError
from oomph.facts.dtypes import TORCH

_T = TypeVar("_T")
_MISSING: Any = object()

LIMIT = 1 << 40  # no dimension of any model comes near


class Config:
    def __init__(self, raw: Any, where: str = "config.json") -> None:
        if not isinstance(raw, Mapping):
            raise ConfigError(f"{where} is not a JSON object")
        self.raw: Mapping[str, Any] = raw
        self.where = where
        self.keys_read: set[str] = set()
        self._subs: dict[str, Config] = {}
        self._defaults: dict[str, Any] = {}
        self.derived: dict[object, Any] = {}  # what was computed from it, so that every layer need not do it again

    def fill(self, **defaults: Any) -> None:
        """The config class's own defaults, for keys that the file leaves out."""
        self.derived.clear()
        self._defaults.update({k: v for k, v in defaults.items() if k not in self.raw})

    def get(self, *names: str, default: Any = None) -> Any:
        """The first of `names` that is there and not null."""
        for name in names:
            self.keys_read.add(name)
            value = self.raw.get(name)
            if value is not None:
                return value
        for name in names:
            if name in self._defaults:
                return self._defaults[name]
        return default

    def has(self, name: str) -> bool:
        return self.get(name) is not None

    @overload
    def integer(self, *names: str, low: int = 1, high: int = LIMIT) -> int: ...
    @overload
    def integer(self, *names: str, default: _T, low: int = 1, high: int = LIMIT) -> int | _T: ...
    def integer(self, *names: str, default: Any = _MISSING, low: int = 1, high: int = LIMIT) -> Any:
        value = self.get(*names)
        if value is None:
            if default is _MISSING:
                raise ConfigError(f"{self.where} has no {' or '.join(names)}")
            return default
        if isinstance(value, float) and value.is_integer():
            value = round(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigError(f"{self.where}: {names[0]} is {_short(value)}, not a whole number")
        if not low <= value <= high:
            raise ConfigError(f"{self.where}: {names[0]} is {value}, outside {low} to {high}")
        return value

    def number(self, *names: str, default: float) -> float:
        value = self.get(*names)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ConfigError(f"{self.where}: {names[0]} is {_short(value)}, not a number")
        return float(value)

    def flag(self, *names: str, default: bool = False) -> bool:
        value = self.get(*names)
        if value is None:
            return default
        if not isinstance(value, bool | int):
            raise ConfigError(f"{self.where}: {names[0]} is {_short(value)}, not true or false")
        return bool(value)

    def text(self, *names: str, default: str = "") -> str:
        value = self.get(*names)
        if value is None:
            return default
        if not isinstance(value, str):
            raise ConfigError(f"{self.where}: {names[0]} is {_short(value)}, not a text")
        return value

    def items(self, *names: str) -> list[Any]:
        value = self.get(*names)
        if value is None:
            return []
        if not isinstance(value, list):
            raise ConfigError(f"{self.where}: {names[0]} is {_short(value)}, not a list")
        return value

    def integers(self, *names: str) -> list[int]:
        values = self.items(*names)
        if not all(isinstance(v, int) and not isinstance(v, bool) for v in values):
            raise ConfigError(f"{self.where}: {names[0]} holds something that is not a whole number")
        return values

    def table(self, *names: str) -> Mapping[str, Any]:
        value = self.get(*names)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise ConfigError(f"{self.where}: {names[0]} is {_short(value)}, not an object")
        return value

    def sub(self, name: str) -> "Config":
        """A nested object; an empty one where it is missing."""
        if name not in self._subs:
            self._subs[name] = Config(self.table(name), f"{self.where}, {name}")
        return self._subs[name]

    def dtype(self, default: str = "") -> str:
        name = self.text("dtype", "torch_dtype").removeprefix("torch.")
        if not name:
            return default
        if name not in TORCH:
            raise ConfigError(f"{self.where}: dtype {name!r} is not known")
        return TORCH[name]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
