"""architecture.py: docs/screens/architecture.svg, the whole of oomph in one picture, from the folders it has."""

from __future__ import annotations

from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "screens" / "architecture.svg"
# a column: its title, and boxes of (folder below src/oomph, what it is)
COLUMNS = (
    ("what people have", (
        ("sources", "folder, hub, GGUF"), ("commands", "command, YAML, script"), ("logs", "log, post"),
    )),
    ("one representation", (
        ("ir", "Model, Deployment,|Observations, Plan"), ("catalog", "known models"),
        ("facts", "what changes|with a release"),
    )),
    ("engines", (
        ("engines/vllm", ""), ("engines/sglang", ""), ("engines/trtllm", ""), ("engines/llamacpp", ""),
        ("engines/ollama", ""),
    )),
    ("what stands on a plan", (
        ("advice", "what helps, planned"), ("search", "fit, gpus, models"), ("doctor", "explain"),
        ("simulate", "users over time"), ("pack", "several services"),
    )),
    ("answers", (
        ("report", "text, JSON, HTML"), ("cli", "commands"), ("web", "the page"), ("agents", "MCP"),
        ("emit", "manifests"), ("site", "static pages"),
    )),
)  # fmt: skip
WIDE, GAP, HIGH, TOP = 168, 34, 58, 64


def picture() -> str:
    tallest = max(len(boxes) for _, boxes in COLUMNS)
    width, height = len(COLUMNS) * (WIDE + GAP) + GAP, TOP + tallest * (HIGH + 10) + 20
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">']
    parts.append("<title>A question through oomph</title>")
    parts.append('<rect width="100%" height="100%" fill="#ffffff"/>')
    for number, (title, boxes) in enumerate(COLUMNS):
        left = GAP + number * (WIDE + GAP)
        parts.append(_text(left + WIDE / 2, 34, title, 14, bold=True))
        offset = (tallest - len(boxes)) * (HIGH + 10) / 2
        for place, (folder, words) in enumerate(boxes):
            parts.append(_box(left, TOP + offset + place * (HIGH + 10), folder, words))
        if number:
            middle = TOP + tallest * (HIGH + 10) / 2 - 5
            parts.append(_arrow(left - GAP + 5, left - 5, middle))
    return "".join(parts) + "</svg>\n"


def _box(x: float, y: float, folder: str, words: str) -> str:
    assert (ROOT / "src" / "oomph" / folder).is_dir(), folder
    lines = [line for line in words.split("|") if line]
    first = y + HIGH / 2 + 5 - 8 * len(lines)
    texts = [_text(x + WIDE / 2, first, folder + "/", 14, mono=True)]
    texts += [_text(x + WIDE / 2, first + 16 * (number + 1), line, 12) for number, line in enumerate(lines)]
    frame = f'<rect x="{x}" y="{y:.1f}" width="{WIDE}" height="{HIGH}" rx="6" fill="#eef3fc" stroke="#1456c7"/>'
    return frame + "".join(texts)


def _arrow(x: float, to: float, y: float) -> str:
    line = f'<path d="M{x} {y:.1f}H{to - 6}" stroke="#101215" stroke-width="2"/>'
    return line + f'<path d="M{to} {y:.1f}l-9 -5v10z" fill="#101215"/>'


def _text(x: float, y: float, text: str, size: int, *, bold: bool = False, mono: bool = False) -> str:
    family = "ui-monospace,monospace" if mono else "system-ui,sans-serif"
    weight = ' font-weight="600"' if bold else ""
    font = f'font-family="{family}" font-size="{size}"{weight} fill="#101215" text-anchor="middle"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {font}>{escape(text)}</text>'


if __name__ == "__main__":
    PICTURE.write_text(picture())
