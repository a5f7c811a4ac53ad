"""What every reader of a quantisation config makes, and how its fields are read."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from oomph.errors import ConfigError
from oomph.ir import Quantization, Scheme

Kind = Literal["linear", "experts", "lm_head"]


class Quant(Struct, frozen=True):
    """`scheme(name, kind)`: how the module of that checkpoint name is stored; None = not quantised."""

    facts: Quantization
    scheme: Callable[[str, Kind], Scheme | None]
    tells_layers_apart: bool = True  # False: no number that is in a name decides its scheme


def names_of(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise ConfigError("quantization_config: a list of module names holds something that is not a name")
    return tuple(value)


def table_of(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = config.get(key) or {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"quantization_config: {key} is not an object")
    return value


def small_int(config: Mapping[str, Any], key: str, default: int) -> int:
    value = config.get(key, default)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value <= 1 << 20:
        raise ConfigError(f"quantization_config: {key} is {value!r}, not a sensible number")
    return value


def bits_of(config: Mapping[str, Any], key: str, default: int) -> int:
    """Bits of a stored value. None has no bits at all, and none more than a word of 32."""
    bits = small_int(config, key, default)
    if not 1 <= bits <= 32:
        raise ConfigError(f"quantization_config: {key} is {bits}, which is not a number of bits from 1 to 32")
    return bits


def group_size_of(config: Mapping[str, Any], default: int) -> int:
    """Values that share a scale; -1: a whole row."""
    size = small_int(config, "group_size", default)
    if size == 0:
        raise ConfigError("quantization_config: group_size is 0; a group has values, or is -1 for a whole row")
    return size


def make_quant(
    method: str,
    scheme: Scheme | None,
    ignore: tuple[str, ...],
    pick: Callable[[str, Kind], Scheme | None],
    kv: str = "",
    *,
    compared: tuple[str, ...] | None = None,
) -> Quant:
    """`compared`: the names and plain patterns with which `pick` compares a name; None where it does more than that."""
    apart = compared is None or any(character.isdigit() for text in compared for character in text)
    return Quant(Quantization(method, scheme, kv, ignore), pick, apart)
