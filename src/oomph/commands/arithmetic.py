"""The shell's $((...)), for whole numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping


def arithmetic(text: str, variables: Mapping[str, str | list[str]]) -> int | None:
    """1950 * 1310720, $N - 1: whole numbers, names, + - * / % and parentheses; None where it is more than that."""
    tokens = re.findall(r"\d+|\$?[A-Za-z_]\w*|[-+*/%()]|\S", text)
    at = 0

    def atom() -> int:
        nonlocal at
        token = tokens[at]
        at += 1
        if token == "(":
            value = total()
            at += tokens[at] == ")"
            return value
        if token in "+-":
            return atom() if token == "+" else -atom()
        if token.isdigit():
            return int(token)
        value_of = variables.get(token.lstrip("$"), "")
        return int(value_of) if isinstance(value_of, str) else int("")

    def product() -> int:
        nonlocal at
        value = atom()
        while at < len(tokens) and tokens[at] in "*/%":
            sign, at = tokens[at], at + 1
            other = atom()
            value = value * other if sign == "*" else _quotient(value, other) if sign == "/" else value % other
        return value

    def total() -> int:
        nonlocal at
        value = product()
        while at < len(tokens) and tokens[at] in "+-":
            sign, at = tokens[at], at + 1
            value += product() if sign == "+" else -product()
        return value

    try:
        value = total()
        return value if at == len(tokens) and abs(value) < 1 << 63 else None
    except (ValueError, IndexError, ZeroDivisionError, RecursionError, OverflowError):
        return None


def _quotient(dividend: int, divisor: int) -> int:
    """Towards zero, as C divides."""
    return abs(dividend) // abs(divisor) * (1 if (dividend < 0) == (divisor < 0) else -1)
