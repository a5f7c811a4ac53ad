"""Which known release stands for one that an engine's tables do not have."""

from collections.abc import Sequence

from oomph.facts.changes import Release


def nearest_release(
    title: str, text: str, at: Release, releases: Sequence[tuple[str, Release]], unknown: str = "is no release"
) -> tuple[str, str]:
    """(the release, a note where the two differ). `releases`: names with what they compare by, the oldest first."""
    if at < releases[0][1]:
        return releases[0][0], f"{title} {text} is older than any known release: planned as {releases[0][0]}"
    release, parsed = [pair for pair in releases if pair[1] <= at][-1]
    if at > releases[-1][1]:
        return release, f"{title} {text} is newer than any known release: planned as {release}"
    return release, "" if at == parsed else f"{title} {text} {unknown}: planned as {release}"
