"""Facts that change with an engine's releases, each written once.

A class of facts holds a value that changes as `changes(0.9, ("0.20.0", 0.92))`: its value in the oldest release, and
every release from which it is another one. A gap or an overlap cannot be written. `since` and `until` are the short
forms for what begins or ends with a release. `rows` are things that come and go on their own, each with its own span;
`table` maps keys to values that change.

`Facts.at(release)` gives the values in force in one release. One object serves all releases between two changes, so
that it may be a key of a cache.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, overload

from msgspec import Struct

Release = tuple[int, int, int, int]  # the fourth number is a post or hot-fix release

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")
K = TypeVar("K")
F = TypeVar("F", bound="Facts")


@lru_cache(maxsize=256)
def parse_release(text: str) -> Release:
    """'0.8.5.post1' -> (0, 8, 5, 1), for the releases that our own tables name."""
    *parts, last = text.split(".")
    numbers = [*parts, last.removeprefix("post")]
    is_release = len(parts) in (1, 2, 3) and all(number.isascii() and number.isdigit() for number in numbers)
    if not is_release or (len(parts) == 1 and last.startswith("post")):
        raise ValueError(f"{text!r} is no release")
    major, minor, patch, post = [*map(int, numbers), 0, 0][:4]
    return major, minor, patch, post


class Dated(Generic[T_co]):
    """A value that depends on the release. On a class of facts it is itself; on its instances, the value in force."""

    def __init__(self, steps: Iterable[Release], at: Callable[[Release], T_co]) -> None:
        """`steps`: the releases at which the value may change."""
        self.steps, self.at = tuple(sorted(set(steps))), at

    @overload
    def __get__(self, holder: None, owner: type) -> "Dated[T_co]": ...
    @overload
    def __get__(self, holder: object, owner: type) -> T_co: ...
    def __get__(self, holder: object, owner: type) -> object:
        return self  # an instance has the value in its own dictionary, where Python looks first


def changes(first: T, *later: tuple[str, T]) -> Dated[T]:
    """`first` in the oldest release, then each value from its release on."""
    steps, values = [parse_release(text) for text, _ in later], [first, *(value for _, value in later)]
    if sorted(set(steps)) != steps:
        raise ValueError(f"these releases do not rise: {', '.join(text for text, _ in later)}")
    return Dated(steps, lambda release: values[bisect_right(steps, release)])


def since(release: str) -> Dated[bool]:
    return changes(False, (release, True))


def until(release: str) -> Dated[bool]:
    """`release` is the first one without it."""
    return changes(True, (release, False))


class Span(Struct, frozen=True, kw_only=True):
    """The releases that have a row: since <= release < until; "" = open."""

    since: str = ""
    until: str = ""

    def __post_init__(self) -> None:
        if self.since and self.until and parse_release(self.since) >= parse_release(self.until):
            raise ValueError(f"a row since {self.since} until {self.until} holds for no version")

    @property
    def ends(self) -> tuple[Release, ...]:
        return tuple(parse_release(end) for end in (self.since, self.until) if end)

    def has(self, release: Release) -> bool:
        begun = not self.since or parse_release(self.since) <= release
        return begun and (not self.until or release < parse_release(self.until))


class DatedWord(NamedTuple):
    word: str
    since: str
    until: str


@lru_cache(maxsize=2048)
def dated_words(text: str) -> tuple[DatedWord, ...]:
    """`naive mori>=0.15.0<0.23.0`: each word with the releases that have it; "" = open."""
    out = []
    for part in text.split():
        word, _, until = part.partition("<")
        word, _, since = word.partition(">=")
        assert word and not (set(since + until) - set("0123456789.")), part
        out.append(DatedWord(word, since, until))
    return tuple(out)


S = TypeVar("S", bound=Span)


def rows(*members: S) -> Dated[tuple[S, ...]]:
    """Of things that come and go on their own, those that a release has, in this order."""
    ends = (end for row in members for end in row.ends)
    return Dated(ends, lambda release: tuple(row for row in members if row.has(release)))


def members(
    always: str = "", *, since: Mapping[str, str] | None = None, until: Mapping[str, str] | None = None
) -> Dated[frozenset[str]]:
    """A set of names: those of all releases, those that join it and those that leave it, by release."""
    spans = [
        (Span(), always),
        *[(Span(since=release), text) for release, text in (since or {}).items()],
        *[(Span(until=release), text) for release, text in (until or {}).items()],
    ]
    return Dated(
        (end for span, _ in spans for end in span.ends),
        lambda release: frozenset(name for span, text in spans if span.has(release) for name in text.split()),
    )


def table(entries: Mapping[K, Dated[T | None]]) -> Dated[dict[K, T]]:
    """A mapping whose values change; what is None in a release is not in it."""

    def at(release: Release) -> dict[K, T]:
        values = ((key, entry.at(release)) for key, entry in entries.items())
        return {key: value for key, value in values if value is not None}

    return Dated((step for entry in entries.values() for step in entry.steps), at)


def evolving(kind: Callable[..., T], *, since: str = "", until: str = "", **fields: Any) -> Dated[T | None]:
    """A value of several fields, each constant or changing on its own; None outside of since <= release < until."""
    span = Span(since=since, until=until)
    dated = {name: value for name, value in fields.items() if isinstance(value, Dated)}
    kind(**fields)  # a field that does not exist fails here

    def at(release: Release) -> T | None:
        values = {name: value.at(release) for name, value in dated.items()}
        return kind(**{**fields, **values}) if span.has(release) else None

    return Dated([*span.ends, *(step for value in dated.values() for step in value.steps)], at)


class Facts:
    """The base of a class of facts. Its instances hold the values of one release and cannot be changed."""

    _steps: ClassVar[tuple[Release, ...]]
    _in_force: ClassVar[dict[int, Any]]

    def __init_subclass__(cls) -> None:
        dated = [value for value in vars(cls).values() if isinstance(value, Dated)]
        cls._steps, cls._in_force = tuple(sorted({step for value in dated for step in value.steps})), {}

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


def group(kind: type[F]) -> Dated[F]:
    """A class of facts as one field of a larger one."""
    return Dated(kind._steps, kind.at)


def names(text: str) -> tuple[str, ...]:
    return tuple(text.split())
