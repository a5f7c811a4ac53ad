"""Tables whose rows are a condition and what follows from it."""

from typing import TypeVar

T = TypeVar("T")


def all_that_hold(*rows: tuple[object, T]) -> list[T]:
    """What follows from every condition that holds, in the order of the rows."""
    return [value for holds, value in rows if holds]


def first_that_holds(*rows: tuple[object, str]) -> str:
    """The words of the first condition that holds; "" where none does."""
    return next((words for holds, words in rows if holds), "")
