"""Facts that change with an engine's releases, each written once.

A class of facts holds a value that changes as `changes(0.9, ("0.20.0", 0.92))`: its value in the oldest release, and
every release from which it is another one. A gap or an overlap cannot be written. `since` and `until` are the short
forms for what begins or ends with a release. `rows` are things that come and go on their own, each with its own span;
`table` maps keys to values that change.

`Facts.at(release)` gives the values in force in one release. One object serves all releases between two changes, so
that it may be a key of a cache.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, ClassVar, Generic, TypeVar, overload

from msgspec import Struct

Release = tuple[int, int, int, int]  # the fourth number is a post or hot-fix release

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")
K = TypeVar("K")
F = TypeVar("F", bound="Facts")


@lru_cache(maxsize=256)
def parse_release(text: str) -> Release:
    """'0.8.5.post1' -> (0, 8, 5, 1), for the releases that our own tables name."""
    if not re.fullmatch(r"\d+(\.\d+){1,2}(\.(post)?\d+)?", text):
        raise ValueError(f"{text!r} is no release")
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    major, minor, patch, post = numbers + [0] * (4 - len(numbers))
    return major, minor, patch, post


class Dated(Generic[T_co]):
    """A value that depends on the release. On a class of facts it is itself; on its instances, the value in force."""

    steps: tuple[Release, ...]  # the releases at which the value may change, in rising order

    def at(self, release: Release) -> T_co:
        raise NotImplementedError

    @overload
    def __get__(self, holder: None, owner: type) -> Dated[T_co]: ...
    @overload
    def __get__(self, holder: object, owner: type) -> T_co: ...
    def __get__(self, holder: object, owner: type) -> object:
        return self  # an instance has the value in its own dictionary, where Python looks first


class _Changes(Dated[T]):
    def __init__(self, first: T, later: tuple[tuple[str, T], ...]) -> None:
        self.steps = tuple(parse_release(text) for text, _ in later)
        self._values = (first, *(value for _, value in later))
        if any(left >= right for left, right in zip(self.steps, self.steps[1:], strict=False)):
            raise ValueError(f"these releases do not rise: {', '.join(text for text, _ in later)}")

    def at(self, release: Release) -> T:
        return self._values[bisect_right(self.steps, release)]


def changes(first: T, *later: tuple[str, T]) -> Dated[T]:
    """`first` in the oldest release, then each value from its release on."""
    return _Changes(first, later)


def since(release: str) -> Dated[bool]:
    return _Changes(False, ((release, True),))


def until(release: str) -> Dated[bool]:
    """`release` is the first one without it."""
    return _Changes(True, ((release, False),))


class Span(Struct, frozen=True, kw_only=True):
    """The releases that have a row: since <= release < until; "" = open."""

    since: str = ""
    until: str = ""

    def __post_init__(self) -> None:
        if self.since and self.until and parse_release(self.since) >= parse_release(self.until):
            raise ValueError(f"a row since {self.since} until {self.until} holds for no version")

    def has(self, release: Release) -> bool:
        begun = not self.since or parse_release(self.since) <= release
        return begun and (not self.until or release < parse_release(self.until))


S = TypeVar("S", bound=Span)


class _Rows(Dated[tuple[S, ...]]):
    def __init__(self, members: tuple[S, ...]) -> None:
        self._members = members
        self.steps = _rising(parse_release(end) for row in members for end in (row.since, row.until) if end)

    def at(self, release: Release) -> tuple[S, ...]:
        return tuple(row for row in self._members if row.has(release))


def rows(*members: S) -> Dated[tuple[S, ...]]:
    """Of things that come and go on their own, those that a release has, in this order."""
    return _Rows(members)


class _Members(Dated[frozenset[str]]):
    def __init__(self, always: str, joined: Mapping[str, str], left: Mapping[str, str]) -> None:
        self._spans = [(name, Span()) for name in always.split()]
        self._spans += [(name, Span(since=release)) for release, text in joined.items() for name in text.split()]
        self._spans += [(name, Span(until=release)) for release, text in left.items() for name in text.split()]
        self.steps = _rising(map(parse_release, (*joined, *left)))

    def at(self, release: Release) -> frozenset[str]:
        return frozenset(name for name, span in self._spans if span.has(release))


def members(
    always: str = "", *, since: Mapping[str, str] | None = None, until: Mapping[str, str] | None = None
) -> Dated[frozenset[str]]:
    """A set of names: those of all releases, those that join it and those that leave it, by release."""
    return _Members(always, since or {}, until or {})


class _Table(Dated[dict[K, T]]):
    def __init__(self, entries: Mapping[K, Dated[T | None]]) -> None:
        self._entries = entries
        self.steps = _rising(step for entry in entries.values() for step in entry.steps)

    def at(self, release: Release) -> dict[K, T]:
        values = ((key, entry.at(release)) for key, entry in self._entries.items())
        return {key: value for key, value in values if value is not None}


def table(entries: Mapping[K, Dated[T | None]]) -> Dated[dict[K, T]]:
    """A mapping whose values change; what is None in a release is not in it."""
    return _Table(entries)


class _Evolving(Dated[T | None]):
    def __init__(self, kind: Callable[..., T], span: Span, fields: Mapping[str, Any]) -> None:
        self._kind, self._span, self._fields = kind, span, fields
        ends = (parse_release(end) for end in (span.since, span.until) if end)
        self.steps = _rising([*ends, *(step for v in fields.values() if isinstance(v, Dated) for step in v.steps)])
        self.at(self.steps[-1] if self.steps else parse_release("0.0"))  # a field that does not exist fails at once

    def at(self, release: Release) -> T | None:
        if not self._span.has(release):
            return None
        return self._kind(**{n: v.at(release) if isinstance(v, Dated) else v for n, v in self._fields.items()})


def evolving(kind: Callable[..., T], *, since: str = "", until: str = "", **fields: Any) -> Dated[T | None]:
    """A value of several fields, each constant or changing on its own; None outside of since <= release < until."""
    return _Evolving(kind, Span(since=since, until=until), fields)


class Facts:
    """The base of a class of facts. Its instances hold the values of one release and cannot be changed."""

    _steps: ClassVar[tuple[Release, ...]]
    _in_force: ClassVar[dict[int, Any]]

    def __init_subclass__(cls) -> None:
        cls._steps = _rising(step for value in vars(cls).values() if isinstance(value, Dated) for step in value.steps)
        cls._in_force = {}

    @classmethod
    def at(cls: type[F], release: Release) -> F:
        place = bisect_right(cls._steps, release)
        if place not in cls._in_force:
            facts = cls()
            values = {name: value.at(release) for name, value in vars(cls).items() if isinstance(value, Dated)}
            facts.__dict__.update(values)
            cls._in_force[place] = facts
        facts_in_force: F = cls._in_force[place]
        return facts_in_force

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} is a fact: it cannot be set")


class _Group(Dated[F]):
    def __init__(self, kind: type[F]) -> None:
        self._kind, self.steps = kind, kind._steps

    def at(self, release: Release) -> F:
        return self._kind.at(release)


def group(kind: type[F]) -> Dated[F]:
    """A class of facts as one field of a larger one."""
    return _Group(kind)


def names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _rising(steps: Iterable[Release]) -> tuple[Release, ...]:
    return tuple(sorted(set(steps)))
