"""SGLang's releases in order, and which of them stands for a version that people write."""

import re

from oomph.errors import CommandError
from oomph.facts.changes import Release
from oomph.facts.nearest import nearest_release
from oomph.text.late import late_pattern

RELEASES = (
    "0.5.7", "0.5.8", "0.5.8.post1", "0.5.9", "0.5.10", "0.5.10.post1", "0.5.11", "0.5.12", "0.5.12.post1",
    "0.5.13", "0.5.13.post1", "0.5.14", "0.5.15", "0.5.15.post1", "0.5.16", "0.5.17", "0.5.18", "0.5.19",
    "0.5.20", "0.5.21", "0.5.22", "0.5.23",
)  # fmt: skip
NEWEST = RELEASES[-1]
LOOKED_AT = "2026-11-15"  # the day on which it was the newest

_VERSION = late_pattern(
    r"[vV]?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?(?:\.(?:post)(\d{1,6}))?"
    r"(?P<tail>[.-]?(?:a|b|rc|alpha|beta|dev)\.?\d*)?(?P<local>[+-][0-9A-Za-z._+-]*)?",
    re.ASCII,
)


def parse(text: str) -> Release:
    """'v0.5.10.post1-cu129' -> (0, 5, 10, 1)."""
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise CommandError(f"{text!r} is not an SGLang version such as {NEWEST}")
    major, minor, patch, post = (int(match[i] or 0) for i in range(1, 5))
    return major, minor, patch, post


_PARSED = tuple((release, parse(release)) for release in RELEASES)


def nearest(version: str) -> tuple[str, str]:
    """The known release whose facts stand for `version`, and a note where the two differ ("" = they do not)."""
    return nearest_release("SGLang", version.strip(), parse(version), _PARSED)


def image_release(tag: str) -> str:
    """'v0.5.23-cu130' -> '0.5.23'; "" for latest, dev and the like."""
    match = re.match(r"v?(\d+\.\d+\.\d+(?:\.?post\d+)?)", tag)
    return re.sub(r"(?<=\d)\.?post", ".post", match[1]) if match else ""
