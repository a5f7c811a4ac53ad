"""The one table of colours: told apart by everyone, and legible in both themes."""

from __future__ import annotations

import itertools
import math

import pytest

from oomph.report.parts import PARTS
from oomph.web.style import OTHERS, colours, contrast, linear, static, text_on

# How dichromats see linear RGB (Machado, Oliveira, Fernandes 2009, severity 1.0).
SIGHT = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "no green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "no blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
GROUNDS = {"light": "#fcfcfa", "dark": "#16181c"}
APART = 0.1  # in OKLab; neighbours in the palette of Okabe and Ito are 0.1 to 0.2 apart in the same measure


def seen(colour: str, sight: str) -> tuple[float, float, float]:
    """An OKLab colour (Ottosson 2020), as somebody with this sight sees it."""
    light = linear(colour)
    red, green, blue = (min(1.0, max(0.0, sum(w * c for w, c in zip(row, light)))) for row in SIGHT[sight])
    long = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3)
    middle = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3)
    short = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


def table(theme: str) -> dict[str, str]:
    """Parts that can stand in one bar: compute buffers take the place of activations, a budget that of the cache."""
    return {name: getattr(part, theme) for name, part in PARTS.items() if name not in ("compute", "budget")}


@pytest.mark.parametrize("theme", GROUNDS)
@pytest.mark.parametrize("sight", SIGHT)
def test_any_two_parts_are_told_apart(theme: str, sight: str) -> None:
    close = {
        (one, other): round(math.dist(seen(a, sight), seen(b, sight)), 3)
        for (one, a), (other, b) in itertools.combinations(table(theme).items(), 2)
        if math.dist(seen(a, sight), seen(b, sight)) < APART
    }
    assert close == {}


@pytest.mark.parametrize("theme", GROUNDS)
def test_parts_stand_out_and_their_names_are_legible(theme: str) -> None:
    extra = {name: pair[theme == "dark"] for name, pair in OTHERS.items()}
    for name, colour in {**table(theme), **extra}.items():
        assert contrast(colour, GROUNDS[theme]) >= 3, name  # WCAG 1.4.11, graphics
        assert contrast(colour, text_on(colour)) >= 4.5, name  # WCAG 1.4.3, text


def test_the_style_has_the_colours_of_the_table_and_no_other_for_them() -> None:
    text = colours()
    for name, part in PARTS.items():
        assert f"--{name.lower()}:light-dark({part.light},{part.dark})" in text
    style = static("style.css").lower()
    assert not any(part.light in style or part.dark in style for part in PARTS.values())


def test_terminal_and_page_have_the_same_hue() -> None:
    """The terminal's blue is the page's blue: by the larger of red, green and blue light."""
    hues = {"34": 2, "32": 1, "33": 0, "36": 2, "35": 0}
    for part in PARTS.values():
        light = linear(part.light)
        if part.ansi in hues and part.words != "buffers":
            assert light.index(max(light)) == hues[part.ansi], part
