"""What `explain` prints without --all: at most 14 lines with the empty one behind it, the first remedy by line 6."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import oomph
from oomph.errors import OomphError
from oomph.report.answer import Excerpt, Ledger, Notes, Paragraph, Reasons
from oomph.report.brief import Printed, brief_lines

HERE = Path(__file__).parent
TRUTH = HERE.parent / "truth"
REMEDIES = ("  Works ", "  Try ")


def logs() -> Iterator[tuple[str, str]]:
    for path in sorted((*(HERE / "fixtures").glob("*.log"), *(HERE / "whole").glob("*.log"))):
        yield path.stem, path.read_text(encoding="utf-8")
    for name in ("deaths-0.32.0", "deaths-llamacpp"):
        for line in gzip.decompress((TRUTH / f"{name}.jsonl.gz").read_bytes()).splitlines():
            row = json.loads(line)
            yield row["id"], row["log"]


def claims() -> Iterator[tuple[str, str]]:
    for line in (TRUTH / "paraphrases.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield row["id"], f"{row['text']}\n"


def faults(name: str, text: str, width: int, plan: bool) -> list[str]:
    try:
        answer = oomph.explain(text, plan=plan)
    except OomphError:
        return []
    lines = answer.text(width=width).rstrip("\n").split("\n")
    filled = [line for line in lines if line.strip()]
    remedy = next((number for number, line in enumerate(filled, 1) if line.startswith(REMEDIES)), 0)
    wrong = [f"{name}: {len(lines)} lines"] if len(lines) > 13 else []
    if answer.remedies and not 1 <= remedy <= 6:
        wrong.append(f"{name}: the first remedy is on line {remedy}")
    return wrong


@pytest.mark.parametrize("width", [80, 100])
def test_a_log_is_answered_at_a_glance(width: int) -> None:
    assert not [fault for name, log in logs() for fault in faults(name, log, width, width == 100)]


def test_a_sentence_is_answered_at_a_glance() -> None:
    assert not [fault for name, text in claims() for fault in faults(name, text, 80, plan=False)]


def test_all_of_it_is_behind_one_word() -> None:
    answer = oomph.explain((HERE / "fixtures" / "C01.log").read_text(encoding="utf-8"), plan=False)
    first, everything = answer.text(width=100), answer.text(width=100, everything=True)
    assert "--all" in first and "--all" not in everything
    assert all(one.why.split()[0] in everything for one in answer.rejected)
    assert len(everything.splitlines()) > len(first.splitlines())


@st.composite
def blocks(draw: st.DrawFn) -> list[Printed]:
    kinds = (
        Paragraph("Why", ()),
        Paragraph("Also", ()),
        Reasons("", "", (), 0),
        Ledger((), "", 0),
        Excerpt(()),
        Notes(()),
    )
    row = st.lists(
        st.text("ab .", min_size=1, max_size=70).map(lambda text: f"           {text}"), min_size=1, max_size=9
    )
    return [Printed(kind, draw(st.lists(row, max_size=5))) for kind in draw(st.permutations(kinds))]


@given(blocks(), st.integers(8, 20), st.integers(1, 5))
def test_no_first_screen_is_longer_than_it_may_be(printed: list[Printed], room: int, head: int) -> None:
    lines = brief_lines(["head"] * head, printed, room, 80)
    whole = head + sum(one.height for one in printed)
    assert len(lines) == (whole if whole <= room else room) or lines[-1].startswith("  --all")
    assert len(lines) <= max(room, head + 1)
