"""Of a log of any length what explains anything is kept: wherever it stands, whatever stands around it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import long_logs
import pytest
from hypothesis import given, settings, strategies as st

from oomph.doctor.explain import explain, observe_raw
from oomph.doctor.reading.meanings import FAILURES, TROUBLES
from oomph.logs import sift
from oomph.logs.reader import read_text
from oomph.logs.sift import Sift, loud_lines

FIXTURES = sorted((Path(__file__).parents[1] / "doctor" / "fixtures").glob("*.log"))
# Failures without a trigger, by a part of their line. Each is printed next to lines that have one.
BESIDE = ("set --mem-fraction-static", "error loading model", "component could not be created", "error: unrecognized",
          "assert param_data.shape", "Bus error")  # fmt: skip


def _traffic(size: int) -> str:
    """Lines that say nothing."""
    lines = (f"balancer {number:x} took {number % 977} ms over and went on in turn" for number in range(size // 40))
    return "\n".join(lines)[:size].rpartition("\n")[0]


AROUND = _traffic(sift.WHOLE + (1 << 19))
BEHIND = _traffic(sift.TAIL + (1 << 18))


def test_every_line_of_a_failure_is_loud() -> None:
    quiet = set()
    for path in FIXTURES:
        raw = read_text(path.read_text())
        texts = {line.number: line.text for line in raw.lines}
        for observation in observe_raw(raw)[1]:
            text = texts[observation.line]
            if (observation.kind in FAILURES or observation.kind in TROUBLES) and not list(loud_lines(text.encode())):
                quiet.add(text)
    assert not {text for text in quiet if not any(part in text for part in BESIDE)}


@pytest.mark.parametrize("path", FIXTURES[::9], ids=lambda path: path.stem)
def test_a_failure_in_the_middle_of_a_long_log_is_explained_as_it_is_alone(path: Path) -> None:
    text = path.read_text()
    few = "\n".join(AROUND.splitlines()[:40])
    alone, long = explain(f"{few}\n{text}\n{few}", plan=False), explain(f"{AROUND}\n{text}\n{BEHIND}", plan=False)
    assert (long.failed, long.stage, long.cause.id) == (alone.failed, alone.stage, alone.cause.id)
    assert [(entry.term, entry.bytes) for entry in long.ledger] == [(entry.term, entry.bytes) for entry in alone.ledger]


@pytest.mark.parametrize("kind", ["vllm", "prompts", "sglang", "trtllm", "llamacpp", "ollama", "json", "mix"])
def test_what_a_server_died_of_is_not_crowded_out_by_its_traffic(kind: str) -> None:
    log = read_text(b"".join(long_logs.log(kind, 6 << 20)).decode())
    kept = {line.text for line in log.lines}
    assert kept.issuperset(long_logs.death(kind).splitlines())
    assert sum(len(line.text) for line in log.lines) < 5 << 20


@pytest.mark.parametrize("kind", ["prompts", "llamacpp", "mix"])
def test_numbers_are_those_of_the_log(kind: str) -> None:
    text = b"".join(long_logs.log(kind, 4 << 20)).decode()
    lines = text.split("\n")
    for line in read_text(text).lines:
        assert lines[line.number - 1] == line.text


def test_a_flood_of_loud_lines_is_bounded_and_the_latest_are_there() -> None:
    flood = "\n".join(f"ERROR of client {number:x}: torch.OutOfMemoryError number {number}" for number in range(60_000))
    log = read_text(f"{AROUND}\n{flood}\n{AROUND}")
    numbers = [int(line.text.rsplit(" ", 1)[1]) for line in log.lines if "number" in line.text]
    assert {0, 1} <= set(numbers) and max(numbers) > 4000 and len(numbers) <= 2 * sift.ALIKE
    plain = "\n".join(f"failed to greet client number {number}" for number in range(60_000))
    few = [line for line in read_text(f"{AROUND}\n{plain}\n{AROUND}").lines if "greet" in line.text]
    assert 0 < len(few) <= sift.ALIKE


def _blocks(text: bytes, sizes: list[int]) -> Iterator[bytes]:
    """The text in blocks of whole lines of about these sizes."""
    at, turn = 0, 0
    while at < len(text):
        end = text.find(b"\n", at + sizes[turn % len(sizes)])
        yield text[at : end if end >= 0 else len(text)]
        at, turn = (end if end >= 0 else len(text)) + 1, turn + 1


@settings(max_examples=10)
@given(st.lists(st.integers(min_value=40_000, max_value=1 << 20), min_size=1, max_size=3), st.integers(0, 60_000))
def test_it_does_not_matter_where_a_block_ends(sizes: list[int], place: int) -> None:
    above, below = AROUND[: len(AROUND) - place].rpartition("\n")[0], AROUND[:90_000].rpartition("\n")[0]
    text = f"{above}\nKilled\n{below}".encode()
    taken, number = Sift(), 1
    for block in _blocks(text + b"\n" + BEHIND.encode(), sizes):
        taken.take(number, block)
        number += block.count(b"\n") + 1
    lines = dict(taken.lines())
    at = above.count("\n") + 2
    whole = text.split(b"\n")
    near = [n for n in range(at - 10, at + 10) if n - 1 < len(whole)]
    assert {n: lines.get(n) for n in near} == {n: whole[n - 1] for n in near}


def test_triggers_look_for_a_letter() -> None:
    """What begins with one letter is found ten times as fast as what may begin with several."""
    for trigger in sift.TRIGGERS:
        assert re.match(rb"[A-Za-z](?:\(|$)", trigger.pattern)


def test_a_line_with_a_plain_word_behind_another_trigger_is_plain() -> None:
    line = b"an Error that is long " + b"and says nothing " * 9 + b"until: CUDA out of memory"
    assert list(loud_lines(b"quiet\n" + line)) == [(6, 6 + len(line), False), (6, 6 + len(line), True)]


def test_a_log_of_three_megabytes_is_kept_whole() -> None:
    text = "\n".join(islice(AROUND.splitlines(), 20_000))
    assert len(text) < sift.WHOLE
    log = read_text(text)
    assert log.whole and [line.text for line in log.lines] == text.split("\n")
