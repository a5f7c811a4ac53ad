import pytest
from hypothesis import given, strategies as st

from oomph.errors import CommandError
from oomph.facts.vllm.versions import NEWEST, RELEASES, in_range, nearest, parse


def test_releases_are_in_order_and_distinct():
    parsed = [parse(r) for r in RELEASES]
    assert parsed == sorted(set(parsed))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.21.0", (0, 21, 0, 0)),
        ("v0.21.0", (0, 21, 0, 0)),
        ("0.21", (0, 21, 0, 0)),
        ("0.10.1.1", (0, 10, 1, 1)),
        ("0.8.5.post1", (0, 8, 5, 1)),
        ("0.21.0rc1", (0, 21, 0, 0)),
        ("0.21.0+cu129", (0, 21, 0, 0)),
        ("0.20.1rc1.dev123+gabcdef.cu129", (0, 20, 1, 0)),
    ],
)
def test_parse(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize("text", ["", "latest", "0", "0.x.1", "0.21.0 0", "١.٢.٣x", "0" * 5000])
def test_what_is_no_version_is_refused(text):
    with pytest.raises(CommandError):
        parse(text)


def test_since_is_inclusive_and_until_exclusive():
    assert in_range("0.18.0", "0.18.0", "0.20.0")
    assert not in_range("0.20.0", "0.18.0", "0.20.0")
    assert in_range("0.32.0") and in_range("0.8.5", "", "0.9.0")


@pytest.mark.parametrize(
    ("text", "release", "noted"),
    [
        ("0.21.0", "0.21.0", False),
        ("v0.21.0+cu129", "0.21.0", False),
        ("0.21.0rc2", "0.21.0", True),
        ("0.21.1rc0.dev44+g1234567", "0.21.0", True),
        ("0.16.0rc2.dev293+g2b84ac669", "0.17.0", True),  # main, long after the branch of 0.16.0 was cut
        ("0.13.0rc1.dev2024082000", "0.13.0", True),  # a day, no count
        ("0.32.0rc1.dev400", NEWEST, True),
        ("0.999.0", NEWEST, True),
        ("1.0", NEWEST, True),
        ("0.6.3", "0.8.5", True),
        ("0.9.2", "0.9.2", True),
        ("0.1.dev19754+g3a0914114", NEWEST, True),
    ],
)
def test_nearest(text, release, noted):
    known, note = nearest(text)
    assert (known, bool(note)) == (release, noted)


@given(st.text(max_size=20))
def test_any_text_is_a_version_or_a_command_error(text):
    try:
        known, _ = nearest(text)
    except CommandError:
        return
    assert known in RELEASES
