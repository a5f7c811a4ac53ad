"""TensorRT-LLM's releases in order, and which of them stands for a version that people write.

Most people run release candidates, and facts change between two of them. A release is four numbers as everywhere; the
fourth is the number of the candidate, and `FINAL` is the finished release that follows all of them: 1.2.0rc6.post2 is
(1, 2, 0, 6), 1.2.0 is (1, 2, 0, FINAL). `dated("1.2.0rc7")` writes such a release for facts/changes.py.
"""

import re

from oomph.errors import CommandError
from oomph.facts.changes import Release
from oomph.facts.nearest import nearest_release
from oomph.text.late import late_pattern

FINAL = 1000


def _candidates(version: str, last: int) -> tuple[str, ...]:
    return tuple(f"{version}rc{number}" for number in range(last + 1))


RELEASES = (
    "0.20.0", "0.21.0",
    *_candidates("1.0.0", 6), "1.0.0",
    *_candidates("1.1.0", 5), "1.1.0",
    *_candidates("1.2.0", 8), "1.2.0", "1.2.1",
    *_candidates("1.3.0", 17),
)  # fmt: skip
NEWEST = "1.2.1"  # the newest finished release that a posted log names (October 2026)
LOOKED_AT = "2026-11-15"  # the day on which it was the newest

_VERSION = late_pattern(
    r"[vV]?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?(?:[.-]?rc[.-]?(\d{1,4}))?(?:\.?post(\d{1,4}))?"
    r"(?P<tail>[.-]?(?:a|b|alpha|beta|dev)\.?\d*)?(?P<local>[+-][0-9A-Za-z._+-]*)?",
    re.ASCII,
)


def parse(text: str) -> Release:
    """'v1.2.0rc6.post2' -> (1, 2, 0, 6)."""
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise CommandError(f"{text!r} is not a TensorRT-LLM version such as {NEWEST} or {RELEASES[-1]}")
    major, minor, patch = (int(match[i] or 0) for i in range(1, 4))
    return major, minor, patch, FINAL if match[4] is None else int(match[4])


def dated(release: str) -> str:
    """A release as `facts/changes.py` takes it: '1.2.0rc7' -> '1.2.0.7'."""
    return ".".join(map(str, parse(release)))


_PARSED = tuple((release, parse(release)) for release in RELEASES)


def nearest(version: str) -> tuple[str, str]:
    """The known release whose facts stand for `version`, and a note where the two differ ("" = they do not)."""
    return nearest_release("TensorRT-LLM", version.strip(), parse(version), _PARSED, "was not read")


def image_release(tag: str) -> str:
    """'1.2.0rc6.post2' and '1.3.0rc10-aarch64' -> the release; "" for latest, spark-single-gpu-dev and the like."""
    match = re.match(r"v?(\d+\.\d+\.\d+(?:\.?rc\d+)?(?:\.?post\d+)?)", tag)
    return match[1] if match else ""
