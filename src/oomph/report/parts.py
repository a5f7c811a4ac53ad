"""What takes the memory of a GPU: the one table of the parts' names, signs and colours, in every report.

The terminal's colour names are the hues of the page's colours. The page's colours were searched so that any two of them
stay apart for people with red, green or blue blindness, in both themes (tests/web/test_colours.py measures that).
"""

from msgspec import Struct


class Part(Struct, frozen=True):
    sign: str  # fills its share of a bar in a terminal
    ansi: str  # the terminal's colour
    words: str  # what people call it
    light: str  # the page's colour on a light ground
    dark: str  # and on a dark one


PARTS = {
    "others": Part("x", "90", "other processes", "#252936", "#dbdee5"),
    "context": Part("+", "35", "context", "#96257d", "#ab429b"),
    "weights": Part("#", "34", "weights", "#1456c7", "#4884f1"),
    "activations": Part("-", "33", "activations", "#c28728", "#f9ba58"),
    "graphs": Part("~", "36", "CUDA graphs", "#3d9cc0", "#12bff4"),
    "KV": Part("=", "32", "KV cache", "#2c5415", "#487831"),
    "compute": Part("-", "33", "compute buffers", "#c28728", "#f9ba58"),
    "buffers": Part("-", "33", "buffers", "#806e4e", "#a49674"),
    "budget": Part("=", "32", "the budget that must be free", "#2c5415", "#487831"),
}
# Which terms of a plan make up a part.
PART_TERMS: dict[str, tuple[str, ...]] = {
    "context": ("context", "non_torch"),
    "weights": ("weights",),
    "activations": ("activation_peak",),
    "graphs": ("cudagraph",),
    "KV": ("available_kv", "kv_cache", "state"),
    "compute": ("compute",),
    "buffers": ("runner",),
}
