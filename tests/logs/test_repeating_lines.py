"""A long log whose lines repeat themselves is searched by its kinds of lines; what explains anything is kept."""

from __future__ import annotations

import pytest

from oomph.logs.reader import HEAD, TAIL, TRIGGERS, read_text

LINE = 'INFO:     10.1.1.{}:41202 - "POST /v1/chat/completions HTTP/1.1" 200 OK'
BEFORE = (HEAD + (4 << 20)) // len(LINE)


def test_no_trigger_has_a_digit() -> None:
    assert not any(character in b"0123456789" for trigger in TRIGGERS for character in trigger)


@pytest.mark.parametrize("trigger", [trigger.decode() for trigger in TRIGGERS])
def test_a_trigger_between_lines_that_repeat_is_kept(trigger: str) -> None:
    lines = [LINE.format(number % 250) for number in range(BEFORE)]
    log = read_text("\n".join([*lines, f"7 of 9: {trigger}", *lines]))
    assert any(line.text == f"7 of 9: {trigger}" and line.number == BEFORE + 1 for line in log.lines)
    assert not log.whole and log.lines[0].number == 1 and len(log.lines) < BEFORE


def test_lines_that_never_repeat_are_searched_as_they_are() -> None:
    lines = [f"{number * 2654435761 % 4294967296:x} {LINE}" for number in range(BEFORE)]
    words = ["".join(chr(97 + (number >> shift) % 26) for shift in range(0, 20, 2)) for number in range(BEFORE)]
    odd = [f"{word} {line}" for word, line in zip(words, lines)]
    log = read_text("\n".join([*odd, "torch.OutOfMemoryError: here", *odd]))
    assert any("OutOfMemoryError: here" in line.text for line in log.lines)
    assert sum(len(line.text) for line in log.lines) < HEAD + TAIL + (4 << 20)
