"""vLLM's releases in order, and how strangers write them. What a release does is in facts.py."""

import re
from functools import lru_cache

from oomph.errors import CommandError
from oomph.facts.changes import Release, Span
from oomph.text.late import late_pattern

RELEASES = (
    "0.8.5", "0.8.5.post1", "0.9.0", "0.9.0.1", "0.9.1", "0.9.2", "0.10.0", "0.10.1", "0.10.1.1", "0.10.2",
    "0.11.0", "0.11.1", "0.11.2", "0.12.0", "0.13.0", "0.14.0", "0.14.1", "0.15.0", "0.15.1", "0.16.0",
    "0.17.0", "0.17.1", "0.18.0", "0.18.1", "0.19.0", "0.19.1", "0.20.0", "0.20.1", "0.20.2", "0.21.0",
    "0.22.0", "0.22.1", "0.23.0", "0.24.0", "0.25.0", "0.25.1", "0.26.0", "0.27.0", "0.27.1", "0.28.0",
    "0.29.0", "0.30.0", "0.31.0", "0.32.0",
)  # fmt: skip
NEWEST = RELEASES[-1]
LOOKED_AT = "2026-11-15"  # the day on which it was the newest
REGISTRY_OF = "0.32.0"  # whose registry the lists of architectures.py are
LAST_WITH_V0 = "0.10.2"  # the V0 engine and its messages left the tree in 0.11.0
# Half of what lies between two minor releases: their notes count 440 commits (0.16.0) to 699 (0.17.0). A build of the
# main branch so many commits behind a candidate's tag is nearer to the next minor release than to the candidate's.
MANY_COMMITS = 220
OLDEST_FLAGS = "0.11.0"  # the first release whose every flag was read; older ones get its rows and a note

_VERSION = late_pattern(
    r"[vV]?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?(?:\.(?:post)?(\d{1,6}))?"  # 0.21.0, v0.10.1.1, 0.8.5.post1
    r"(?P<pre>[.-]?(?:a|b|rc|alpha|beta)\.?\d*)?(?P<dev>\.dev\d*)?(?P<local>[+-][0-9A-Za-z._+-]*)?",
    re.ASCII,
)


@lru_cache(maxsize=512)
def parse(text: str) -> Release:
    """'0.21.0' -> (0, 21, 0, 0). The fourth number is a post or hot-fix release; rc, dev and +cu129 are dropped."""
    *parts, last = text.split(".")
    numbers = [*parts, last.removeprefix("post") if len(parts) == 3 else last]
    if len(numbers) in (3, 4) and all(len(n) <= 6 and n.isascii() and n.isdigit() for n in numbers):
        major, minor, patch, post = [*map(int, numbers), 0][:4]
        return major, minor, patch, post
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise CommandError(f"{text!r} is not a vLLM version such as {NEWEST}")
    major, minor, patch, post = (int(match[i] or 0) for i in range(1, 5))
    return major, minor, patch, post


_PARSED = tuple(parse(release) for release in RELEASES)


class Range(Span, frozen=True, kw_only=True):
    """A row of the tables that read commands, logs and variables: since <= version < until; "" = open."""

    def holds(self, version: str) -> bool:
        return self.has(parse(version))


def in_range(version: str, since: str = "", until: str = "") -> bool:
    """since <= version < until; an empty bound is open."""
    at = parse(version)
    return (not since or parse(since) <= at) and (not until or at < parse(until))


def nearest(version: str) -> tuple[str, str]:
    """The known release whose facts stand for `version`, and a note where the two differ ("" = they do not).

    A release candidate stands for its release, a build of the main branch long after its tag for the next minor one
    (the tag's branch was cut: main goes on); any other unknown build for the last release before it.
    """
    at = parse(version)
    if version in RELEASES and at >= parse(OLDEST_FLAGS):
        return version, ""
    stripped = version.strip()
    match = _VERSION.fullmatch(stripped)
    assert match is not None
    tail = next((match[name] for name in ("pre", "dev") if match[name]), "")
    if at < (0, 2, 0, 0) and tail:  # 0.1.dev19754+g3a0914114: setuptools-scm without a tag to count from
        return NEWEST, f"vLLM {stripped} was built from an untagged source: planned as {NEWEST}"
    below = [release for release, parsed in zip(RELEASES, _PARSED) if parsed <= at]
    if not below:
        return RELEASES[0], f"vLLM {stripped} is older than any known release: planned as {RELEASES[0]}"
    base = _next_minor(at) if _commits_behind(match) >= MANY_COMMITS else below[-1]
    if at > _PARSED[-1]:
        return base, f"vLLM {stripped} is newer than any known release: planned as {base}"
    if at != parse(base) or tail:
        return base, f"vLLM {stripped} is no release: planned as {base}"
    if at < parse(OLDEST_FLAGS):
        return base, f"vLLM {base} is older than {OLDEST_FLAGS}: its flags are read as those of {OLDEST_FLAGS}"
    return base, ""


def _commits_behind(match: re.Match[str]) -> int:
    """The commits behind a candidate's tag that setuptools-scm counts: 0.16.0rc2.dev293. A number as long as a day
    (dev2024082000) is none."""
    digits = (match["dev"] or "").removeprefix(".dev")
    return int(digits) if match["pre"] and 0 < len(digits) < 5 else 0


def _next_minor(at: Release) -> str:
    return next((release for release, parsed in zip(RELEASES, _PARSED) if parsed[:2] > at[:2]), RELEASES[-1])
