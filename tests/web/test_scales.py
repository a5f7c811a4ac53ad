"""One scale of type and one of space: a size that is on neither is an accident."""

import re

import pytest

from oomph.web.style import static

STYLE = static("style.css")
TYPE = {"12.5px", "14px", "16px", "20px", "inherit"}
SPACE = {
    "0",
    "auto",
    "1px",
    "-1px",
    ".125rem",
    ".25rem",
    ".375rem",
    ".5rem",
    ".75rem",
    "1rem",
    "1.5rem",
    "2rem",
    "3rem",
}
SPACED = r"(?:padding|margin|gap|(?:row|column)-gap|(?:padding|margin)-\w+)"


def off_the_scales(style: str) -> set[str]:
    sizes = re.findall(r"font-size:([^;}!]+)", style) + re.findall(r"font:(?:[a-z\d]+ )*?([\d.]+(?:px|rem|em))", style)
    spaces = [size for one in re.findall(rf"[{{;]{SPACED}:([^;}}!]+)", style) for size in one.split()]
    return {size for size in sizes if size not in TYPE} | {size for size in spaces if size not in SPACE}


def test_every_size_is_on_a_scale() -> None:
    assert off_the_scales(STYLE) == set()


@pytest.mark.parametrize(
    "wrong", ["a{font-size:13px}", "a{margin:0 .3rem}", "a{color:red;gap:7px}", "a{font:15px/1 b}"]
)
def test_another_size_is_noticed(wrong: str) -> None:
    assert len(off_the_scales(wrong)) == 1
