"""Facts that change with releases: written once, without gaps or overlaps."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from msgspec import Struct

from oomph.facts.changes import (
    Facts,
    Span,
    changes,
    evolving,
    group,
    members,
    names,
    parse_release,
    rows,
    since,
    table,
    until,
)


class Row(Span, frozen=True):
    name: str


class Kernel(Struct, frozen=True):
    heads: int
    blocks: tuple[int, ...] = (16,)


class Limits(Facts):
    utilization = changes(0.9, ("0.20.0", 0.92))
    auto_fit = since("0.14.0")
    chunks = until("0.11.1")


class All(Facts):
    limits = group(Limits)
    kernels = table({"flash": changes(Kernel(1)), "triton": changes(None, ("0.20.0", Kernel(2)))})
    rows = rows(Row("old", until="0.18.0"), Row("new", since="0.18.0"), Row("always"))
    architectures = members("A B", since={"0.13.0": "C D"}, until={"0.15.0": "E"})
    flash = evolving(Kernel, heads=changes(1, ("0.19.0", 2)), blocks=(32,), since="0.17.0", until="0.22.0")


def at(release: str) -> All:
    return All.at(parse_release(release))


@pytest.mark.parametrize(("release", "value"), [("0.8.5", 0.9), ("0.19.1", 0.9), ("0.20.0", 0.92), ("9.0", 0.92)])
def test_a_change_holds_from_its_release_on(release: str, value: float) -> None:
    assert at(release).limits.utilization == value


def test_what_begins_and_ends() -> None:
    assert [at(r).limits.auto_fit for r in ("0.13.9", "0.14.0")] == [False, True]
    assert [at(r).limits.chunks for r in ("0.11.0", "0.11.1")] == [True, False]


def test_tables_rows_and_names_of_a_release() -> None:
    old, new = at("0.14.0"), at("0.20.0")
    assert set(old.kernels) == {"flash"} and set(new.kernels) == {"flash", "triton"}
    assert [row.name for row in old.rows] == ["old", "always"] and [r.name for r in new.rows] == ["new", "always"]
    assert old.architectures == set("ABCDE") and at("0.12.0").architectures == set("ABE")
    assert new.architectures == set("ABCD")


def test_each_field_changes_on_its_own() -> None:
    assert at("0.16.0").flash is None and at("0.22.0").flash is None
    assert at("0.18.0").flash == Kernel(1, (32,)) and at("0.19.0").flash == Kernel(2, (32,))


def test_one_object_serves_all_releases_between_two_changes() -> None:
    assert at("0.20.0").limits is at("0.21.5").limits
    assert at("0.19.0").limits is not at("0.20.0").limits


def test_a_fact_cannot_be_set() -> None:
    with pytest.raises(AttributeError, match="it cannot be set"):
        at("0.20.0").limits.utilization = 0.5  # type: ignore[misc]


def test_what_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="do not rise"):
        changes(1, ("0.20.0", 2), ("0.19.0", 3))
    with pytest.raises(ValueError, match="do not rise"):
        changes(1, ("0.20.0", 2), ("0.20.0", 3))
    with pytest.raises(ValueError, match="is no release"):
        since("newest")
    with pytest.raises(ValueError, match="holds for no version"):
        Row("never", since="0.20.0", until="0.20.0")
    with pytest.raises(TypeError):
        evolving(Kernel, no_such_field=1)


def test_names() -> None:
    assert names("a  b") == ("a", "b") and names("") == ()


@given(st.lists(st.tuples(*[st.integers(0, 40)] * 4), unique=True, max_size=6), st.tuples(*[st.integers(0, 40)] * 4))
def test_every_release_has_exactly_one_value(steps: list[tuple[int, ...]], release: tuple[int, int, int, int]) -> None:
    texts = [".".join(map(str, step)) for step in sorted(steps)]
    dated = changes(-1, *((text, i) for i, text in enumerate(texts)))
    assert dated.at(release) == sum(step <= release for step in steps) - 1
