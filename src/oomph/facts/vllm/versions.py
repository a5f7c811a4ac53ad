"""vLLM's releases in order, and how a fact's row says in which of them it holds.

A row holds for `since <= version < until`: `since` is the first release that has the fact, `until` the first that no
longer has it ("" = open on that side). `Range` is the base of every row; `pick` finds the row in force.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

from msgspec import Struct

from oomph.errors import CommandError

RELEASES = (
    "0.8.5", "0.8.5.post1", "0.9.0", "0.9.0.1", "0.9.1", "0.9.2", "0.10.0", "0.10.1", "0.10.1.1", "0.10.2",
    "0.11.0", "0.11.1", "0.11.2", "0.12.0", "0.13.0", "0.14.0", "0.14.1", "0.15.0", "0.15.1", "0.16.0",
    "0.17.0", "0.17.1", "0.18.0", "0.18.1", "0.19.0", "0.19.1", "0.20.0", "0.20.1", "0.20.2", "0.21.0",
    "0.22.0", "0.22.1", "0.23.0", "0.24.0", "0.25.0", "0.25.1", "0.26.0", "0.27.0", "0.27.1", "0.28.0",
    "0.29.0", "0.30.0", "0.31.0", "0.32.0",
)  # fmt: skip
NEWEST = RELEASES[-1]
OLDEST_FLAGS = "0.11.0"  # the first release whose every flag was read; older ones get its rows and a note

Version = tuple[int, int, int, int]

_VERSION = re.compile(
    r"[vV]?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?(?:\.(?:post)?(\d{1,6}))?"  # 0.21.0, v0.10.1.1, 0.8.5.post1
    r"(?P<pre>[.-]?(?:a|b|rc|alpha|beta)\.?\d*)?(?P<dev>\.dev\d*)?(?P<local>[+-][0-9A-Za-z._+-]*)?",
    re.ASCII,
)


@lru_cache(maxsize=512)
def parse(text: str) -> Version:
    """'0.21.0' -> (0, 21, 0, 0). The fourth number is a post or hot-fix release; rc, dev and +cu129 are dropped."""
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise CommandError(f"{text!r} is not a vLLM version such as {NEWEST}")
    major, minor, patch, post = (int(match[i] or 0) for i in range(1, 5))
    return major, minor, patch, post


_PARSED = tuple(parse(release) for release in RELEASES)


class Range(Struct, frozen=True, kw_only=True):
    """The releases for which a row holds: since <= version < until; "" = open."""

    since: str = ""
    until: str = ""

    def __post_init__(self) -> None:
        if self.since and self.until and parse(self.since) >= parse(self.until):
            raise ValueError(f"a row since {self.since} until {self.until} holds for no version")

    def holds(self, version: str) -> bool:
        return in_range(version, self.since, self.until)


R = TypeVar("R", bound=Range)


def in_range(version: str, since: str = "", until: str = "") -> bool:
    """since <= version < until; an empty bound is open."""
    at = parse(version)
    return (not since or parse(since) <= at) and (not until or at < parse(until))


def select(rows: Iterable[R], version: str) -> tuple[R, ...]:
    """All rows that hold for `version`, in their order."""
    return tuple(row for row in rows if row.holds(version))


def pick(rows: Sequence[R], version: str) -> R:
    """The first row that holds for `version`; outside of all rows, the nearest one (oldest or newest)."""
    for row in rows:
        if row.holds(version):
            return row
    if not rows:
        raise LookupError(f"no row for vLLM {version}")
    at = parse(version)
    begun = [row for row in rows if not row.since or parse(row.since) <= at]
    if begun:
        return max(begun, key=lambda row: parse(row.since) if row.since else (0, 0, 0, 0))
    return min(rows, key=lambda row: parse(row.since))


def nearest(text: str) -> tuple[str, str]:
    """The known release whose facts stand for `text`, and a note where the two differ ("" = they do not).

    A release candidate stands for its release; any other unknown build for the last release before it.
    """
    at = parse(text)
    stripped = text.strip()
    match = _VERSION.fullmatch(stripped)
    assert match is not None
    tail = next((match[name] for name in ("pre", "dev") if match[name]), "")
    if at < (0, 2, 0, 0) and tail:  # 0.1.dev19754+g3a0914114: setuptools-scm without a tag to count from
        return NEWEST, f"vLLM {stripped} was built from an untagged source: planned as {NEWEST}"
    below = [release for release, parsed in zip(RELEASES, _PARSED) if parsed <= at]
    if not below:
        return RELEASES[0], f"vLLM {stripped} is older than any known release: planned as {RELEASES[0]}"
    known = below[-1]
    if at > _PARSED[-1]:
        return known, f"vLLM {stripped} is newer than any known release: planned as {known}"
    if at != parse(known) or tail:
        return known, f"vLLM {stripped} is no release: planned as {known}"
    if at < parse(OLDEST_FLAGS):
        return known, f"vLLM {known} is older than {OLDEST_FLAGS}: its flags are read as those of {OLDEST_FLAGS}"
    return known, ""


def previous(release: str) -> str:
    """The release before a known one ("" before the first)."""
    index = RELEASES.index(release)
    return RELEASES[index - 1] if index else ""
