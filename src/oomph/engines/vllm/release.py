"""Which vLLM printed this log: its banner, else the positions of its lines, else what stands beside the log."""

import itertools
from collections.abc import Sequence
from functools import lru_cache

from oomph.errors import OomphError
from oomph.facts.vllm.logs import ROWS
from oomph.facts.vllm.positions import POSITIONS
from oomph.facts.vllm.versions import RELEASES, in_range, parse
from oomph.ir.observation import Observation


@lru_cache(maxsize=1)
def positions() -> dict[tuple[str, str], tuple[tuple[str, int], ...]]:
    table = {}
    for row in POSITIONS.splitlines():
        kind, file, *places = row.split()
        pairs = (place.rsplit(":", 1) for place in places)
        table[kind, file] = tuple((version, int(line)) for version, line in pairs)
    return table


def release(observations: Sequence[Observation]) -> tuple[str, str]:
    """(version, where it comes from); ("", "") when the log does not say."""
    stated = [
        observation
        for observation in observations
        if observation.kind in ("engine_config", "version") and observation.values.get("version")
    ]
    for observation in sorted(stated, key=lambda entry: entry.kind != "engine_config"):
        version = str(observation.values["version"]).strip().lstrip("v")
        if _known(version):
            return version, f"log line {observation.line}"
    beside = _beside(observations, "version_beside")
    releases, line = _by_position(observations)
    if releases:
        if beside and beside[0] in releases:
            return beside
        return releases[-1], f"position of the message in log line {line}"
    if beside:
        return beside
    at, line = _by_neighbours(observations)
    if at:
        return at, f"near the position of the message in log line {line}"
    return _beside(observations, "version_said") or ("", "")


def _beside(observations: Sequence[Observation], kind: str) -> tuple[str, str] | None:
    """pip, an image's tag, a wheel's name; only where they name one release, not two to compare."""
    releases = [
        observation
        for observation in observations
        if observation.kind == kind and _known(str(observation.values.get("version", "")))
    ]
    names = {str(observation.values["version"]) for observation in releases}
    return (names.pop(), f"line {releases[0].line}, beside the log") if len(names) == 1 else None


def bounds(observations: Sequence[Observation]) -> tuple[str, ...]:
    """The releases in which every line of the log is worded as it is here."""
    left: tuple[str, ...] = RELEASES
    for observation in observations:
        for row in ROWS:
            if row.kind == observation.kind and (row.since or row.until) and row.match(observation.text) is not None:
                narrower = tuple(v for v in left if in_range(v, row.since, row.until))
                left = narrower or left
                break
    return left


def _known(version: str) -> bool:
    """0.1.dev20073 is a build from a branch without tags: it says nothing."""
    try:
        return parse(version) >= (0, 2, 0, 0)
    except OomphError:
        return False


def _by_position(observations: Sequence[Observation]) -> tuple[tuple[str, ...], int]:
    left: tuple[str, ...] = ()
    line = 0
    for observation in observations:
        places = _places(observation)
        at = _line(observation)
        versions = tuple(v for v, place in places if place == at)
        both = tuple(v for v in left if v in versions) if left else versions
        if versions and (both or not left):
            left, line = both, line or observation.line
    return left, line


def _by_neighbours(observations: Sequence[Observation]) -> tuple[str, int]:
    """A build between two releases: its line lies between theirs."""
    for observation in observations:
        places, at = _places(observation), _line(observation)
        for (_, before), (version, after) in itertools.pairwise(places):
            if 0 < before < at < after and after - before < 200:
                return version, observation.line
    return "", 0


def _places(observation: Observation) -> tuple[tuple[str, int], ...]:
    return positions().get((observation.kind, str(observation.values.get("source", "")).partition(":")[0]), ())


def _line(observation: Observation) -> int:
    return int(str(observation.values.get("source", ":0")).partition(":")[2] or 0)
