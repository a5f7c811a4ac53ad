"""Bytes to and from what people write: the only place that knows 1024 from 1000."""

import re

from oomph.errors import InputError
from oomph.text.late import late_pattern

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40

_UNITS = {
    "": 1,
    "b": 1,
    "k": KIB,
    "kib": KIB,
    "kb": 1000,
    "m": MIB,
    "mib": MIB,
    "mb": 1000**2,
    "g": GIB,
    "gib": GIB,
    "gb": 1000**3,
    "t": TIB,
    "tib": TIB,
    "tb": 1000**4,
}
_SIZE = late_pattern(r"\s*([0-9][0-9_,]*(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*")


def parse_size(text: str, *, what: str) -> int:
    """'11.54GiB' -> bytes. 'GiB' and a bare 'G' are binary, 'GB' is decimal, as the engines' own flags read them."""
    match = _SIZE.fullmatch(text)
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise InputError(f"{what} {text!r} is not a size such as 11.54GiB, 512MiB or 8000000000")
    digits = match[1].replace("_", "").replace(",", "")
    value = float(digits) * unit
    if value >= 1 << 63:
        raise InputError(f"{what} {text!r} is larger than any memory")
    return int(digits) * unit if "." not in digits else round(value)


def parse_ram(text: str) -> int:
    """Memory is sold in powers of two: 64GB are 64 GiB. A container's limit is read by its own rules, not here."""
    return parse_size(re.sub(r"(?i)(?<=[0-9])\s*([gt])b\s*$", r"\1ib", text), what="--ram")


def parse_count(text: str, *, what: str) -> int:
    """'32k' -> 32_000 and '32K' -> 32_768, as vLLM's human-readable integers do (utils/argparse_utils.py)."""
    match = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*([kKmMgG]?)\s*", text)
    if match is None:
        raise InputError(f"{what} {text!r} is not a number such as 32768 or 32k")
    scale = {"": 1, "k": 1000, "K": KIB, "m": 1000**2, "M": MIB, "g": 1000**3, "G": GIB}[match[2]]
    value = float(match[1]) * scale
    if value != int(value):
        raise InputError(f"{what} {text!r} is not a whole number")
    return int(value)


def parse_tokens(text: str, *, what: str) -> int:
    """A context in oomph's own options: '8k' and '8K' are 8,192, '128k' is 131,072, '8000' stays 8,000."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKmM])\s*", text)
    return parse_count(f"{match[1]}{match[2].upper()}" if match else text, what=what)


def gib(n: int | float) -> str:
    """Three digits at most: '14.8 GiB', '0.44 GiB', '130 GiB'."""
    return f"{_three(n / GIB)} GiB"


def human(n: int | float) -> str:
    """The unit that gives one to three digits before the point."""
    for unit, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(n) >= unit:
            return f"{_three(n / unit)} {name}"
    return f"{int(n)} B"


def count(n: int | float) -> str:
    """Plain counts: '31.3B', '70.6M', '1,024'."""
    for unit, name in ((10**12, "T"), (10**9, "B"), (10**6, "M")):
        if abs(n) >= unit:
            return f"{_three(n / unit)}{name}"
    return f"{int(n):,}"


def _three(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def cdiv(number: int, step: int) -> int:
    return -(-number // step)


def power_of_two(number: int) -> int:
    """The least power of two that is not below a number."""
    return 1 << max(0, number - 1).bit_length()


def round_up(number: int, step: int) -> int:
    return cdiv(number, step) * step
