"""The page's style: the colours of the one table of parts, then what is in static/style.css."""

from functools import cache
from importlib.resources import files

from oomph.report.parts import PARTS

LIGHT_TEXT, DARK_TEXT = "#ffffff", "#101215"
# Beside the parts: the classes of a treemap by bits, counts of cards in a picture. (light, dark)
OTHERS = {
    "b32": ("#252936", "#dbdee5"),
    "b16": ("#96257d", "#ab429b"),
    "b8": ("#c28728", "#f9ba58"),
    "b4": ("#3d9cc0", "#12bff4"),
    "count1": ("#1456c7", "#4884f1"),
    "count2": ("#3d9cc0", "#12bff4"),
    "count4": ("#c28728", "#f9ba58"),
    "count8": ("#96257d", "#ab429b"),
    "unknown": ("#6b7079", "#9aa0aa"),
}


@cache
def stylesheet() -> str:
    return colours() + static("style.css")


def static(name: str) -> str:
    return files("oomph.web").joinpath("static").joinpath(name).read_text(encoding="utf-8")


def colours() -> str:
    pairs = {name.lower(): (part.light, part.dark) for name, part in PARTS.items()} | OTHERS
    variables = "".join(
        f"--{name}:light-dark({light},{dark});--on-{name}:light-dark({text_on(light)},{text_on(dark)});"
        for name, (light, dark) in pairs.items()
    )
    classes = "".join(
        f".{name}{{--part:var(--{name})}}.on-{name}{{fill:var(--on-{name})}}" for name in pairs
    )  # fmt: skip
    return f":root{{{variables}}}\n{classes}\n"


def text_on(colour: str) -> str:
    """Black or white, whichever stands out more."""
    return max((LIGHT_TEXT, DARK_TEXT), key=lambda text: contrast(text, colour))


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it: 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def linear(colour: str) -> tuple[float, float, float]:
    """The shares of red, green and blue light of an sRGB colour."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return red, green, blue
