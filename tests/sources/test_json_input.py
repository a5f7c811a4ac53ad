import contextlib
import math
import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from oomph.errors import ConfigError, HeaderError, OomphError
from oomph.sources import json_input


def parse(raw: bytes) -> dict:
    return json_input.parse_object(raw, "config.json")


def test_a_config(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('\ufeff{"a": [1, 2.5, null, {"b": "ü"}]}', encoding="utf-8")
    assert json_input.read_object(path) == {"a": [1, 2.5, None, {"b": "ü"}]}


def test_infinity_is_in_real_configs() -> None:
    value = parse(b'{"time_step_limit": [0.0, Infinity], "x": -Infinity}')
    assert value == {"time_step_limit": [0.0, math.inf], "x": -math.inf}


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "is empty"),
        (b"  \n", "is empty"),
        (b"[1]", "holds a list where an object belongs"),
        (b"3", "holds a number"),
        (b'{"a": NaN}', "contains NaN"),
        (b'{"a": NaN, "b": Infinity}', "NaN"),
        (b'{"a": Infinity, "b": "\\ud800"}', "is not JSON"),
        (b'{"a": "\\ud800"}', "is not JSON"),
        (b'{"a": "\xff"}', "is not JSON"),
        (b'{"a": Infinity, "b": "\xff"}', "is not JSON"),
        (b'{"a": 1', "is not JSON"),
        (b'{"a": 1} x', "is not JSON"),
        (b'{"a": 1e999}', "is not JSON"),
        (b'{"a": 12345678901234567890123}', "larger than 64 bits"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "is not JSON"),
        (b'{"a": Infinity, "b": ' + b"9" * 10_000 + b"}", "is not JSON"),
        (b'{"a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "nested"),
        (b'{"a": Infinity, "b": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "nested"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", "Git LFS pointer"),
    ],
)
def test_refusals_are_one_sentence(raw: bytes, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as e:
        parse(raw)
    assert "config.json" in e.value.message
    assert "\n" not in e.value.message
    assert len(e.value.message) < 200


def test_depth_just_allowed() -> None:
    assert parse(b'{"a":' * 64 + b"1" + b"}" * 64)


def test_size_is_bounded_before_reading(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as f:
        f.truncate(1 << 40)
    with pytest.raises(ConfigError, match="more than"):
        json_input.read_object(path)


def test_what_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: no such file"):
        json_input.read_object(tmp_path / "config.json")
    with pytest.raises(ConfigError, match="not a regular file"):
        json_input.read_object(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="not a regular file"):
        json_input.read_object(tmp_path / "pipe")


def test_the_callers_error_class(tmp_path: Path) -> None:
    with pytest.raises(HeaderError):
        json_input.parse_object(b"x", "index", error=HeaderError)
    with pytest.raises(HeaderError):
        json_input.read_object(tmp_path, error=HeaderError)


@given(st.binary(max_size=200))
def test_any_bytes(raw: bytes) -> None:
    with contextlib.suppress(OomphError):
        parse(raw)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(), lambda x: st.lists(x), max_leaves=20
    )
)
def test_round_trip_with_python(value: object) -> None:
    import json

    assert parse(json.dumps({"v": value}).encode()) == {"v": value}
