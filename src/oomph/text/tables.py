"""Small tables: rows of a condition and what follows from it, things by their key."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")
Key = TypeVar("Key", bound=Hashable)


def all_that_hold(*rows: tuple[object, T]) -> list[T]:
    """What follows from every condition that holds, in the order of the rows."""
    return [value for holds, value in rows if holds]


def grouped(things: Iterable[T], key: Callable[[T], Key]) -> dict[Key, list[T]]:
    """The things by their key, keys and things in the order in which they come."""
    groups: dict[Key, list[T]] = {}
    for thing in things:
        groups.setdefault(key(thing), []).append(thing)
    return groups


def first_that_holds(*rows: tuple[object, str]) -> str:
    """The words of the first condition that holds; "" where none does."""
    return next((words for holds, words in rows if holds), "")
