"""Every pattern of oomph takes a time that is linear in a line's length, whatever stands in the line."""

from __future__ import annotations

import re

import pytest
from pattern_timing import Place, crafted, places

SCOUT, SHORT, MIDDLE, LONG = 192, 8 << 10, 32 << 10, 256 << 10  # LONG: the longest line that logs/reader.py lets pass
# CPU seconds. A linear pattern takes about a microsecond for each character; one that takes the square of the length
# needs 0.3 s and 5 minutes.
# What takes the cube of it needs milliseconds for a scout, and minutes for the short line, which is then not tried.
MOST_SCOUT, MOST_SHORT, MOST_MIDDLE, MOST_LONG = 0.004, 0.15, 0.5, 3.0


PARTS = 4  # so that several processes share the half minute


def test_the_patterns_of_logs_are_among_those_timed() -> None:
    everywhere = places()
    assert len(everywhere) > 500
    assert any("GiB for weight" in place.pattern.pattern for place in everywhere)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_pattern_is_linear(part: int) -> None:
    slow = [text for place in places()[part::PARTS] if (text := _too_slow(place))]
    assert not slow, "\n".join(slow)


def _too_slow(place: Place) -> str:
    scouts = sorted(((place.slowest([line])[0], line) for line in crafted(place.pattern, SCOUT)), reverse=True)
    for scouted, line in scouts[:2]:
        if scouted > MOST_SCOUT and (scouted := min(place.slowest([line])[0] for _ in range(3))) > MOST_SCOUT:
            return f"{place.where}: {place.pattern.pattern[:99]!r} takes {scouted:.3f} s on {line[:40]!r} x {SCOUT}"
        head = next((n for n in range(len(line)) if line[n : n + 24] == line[n + 24 : n + 48]), 0)
        unit = line[head : head + 24]
        seconds, measured = MOST_LONG, SHORT
        for size, most in ((SHORT, MOST_SHORT), (MIDDLE, MOST_MIDDLE), (LONG, MOST_LONG)):
            if seconds * (LONG / measured) ** 2 <= MOST_LONG:
                break  # so fast on this line that even the square of its length is not too slow on the long one
            measured = size
            longer = (line[:head] + unit * (size // len(unit) + 1))[:size] if head else line * (size // len(line))
            seconds = place.slowest([longer])[0]
            if seconds > most and (seconds := place.slowest([longer])[0]) > most:  # not by accident
                return f"{place.where}: {place.pattern.pattern[:99]!r} takes {seconds:.2f} s on {size} x {line[:40]!r}"
    return ""


@pytest.mark.parametrize("pattern", [r"[\d.]+ GiB for", r"\{\{\s*([^{}]{0,2000}?)\s*-?\}\}"], ids=["square", "cube"])
def test_a_square_and_a_cube_are_noticed(pattern: str) -> None:
    assert _too_slow(Place("here", re.compile(pattern), True))
