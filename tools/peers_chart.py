"""peers_chart.py: docs/screens/peers.svg, the last lines of the table in docs/peers.md (tools/peers.py) as bars."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE, PICTURE = ROOT / "docs" / "peers.md", ROOT / "docs" / "screens" / "peers.svg"
LEFT, WIDE, ROW = 90, 250, 30  # of the names, of a full bar, of one line
OWN, OTHER = "#1456c7", "#8b93a1"


def figures(page: str) -> list[tuple[str, int, int, float]]:
    """(tool, right answers, questions, CPU seconds of one)."""
    lines = [re.split(r"\s*\|\s*", line.strip("| ")) for line in page.split("<!-- table -->")[1].strip().splitlines()]
    tools, right, seconds = lines[0][2:], lines[-2][2:], lines[-1][2:]
    rows = []
    for tool, cell, cost in zip(tools, right, seconds):
        count, _, asked = cell.partition(" of ")
        rows.append((tool, int(count), int(asked), float(cost)))
    return rows


def chart(rows: list[tuple[str, int, int, float]]) -> str:
    height, slowest = 60 + ROW * len(rows), max(row[3] for row in rows)
    second = LEFT + WIDE + 110
    parts = [_text(LEFT, 28, f"right answers, of {rows[0][2]}", 13), _text(second, 28, "CPU seconds for an answer", 13)]
    for number, (tool, right, asked, seconds) in enumerate(rows):
        top, colour = 44 + ROW * number, OWN if number == 0 else OTHER
        parts += [_text(LEFT - 10, top + 15, tool, 14, "end"), _bar(LEFT, top, right / asked, colour)]
        parts += [_text(LEFT + WIDE * right / asked + 8, top + 15, str(right), 13)]
        parts += [_bar(second, top, seconds / slowest, colour)]
        parts += [_text(second + WIDE * seconds / slowest + 8, top + 15, f"{seconds:.2f}", 13)]
    frame = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {second + WIDE + 60} {height}" role="img">'
    title = "<title>Right answers and CPU seconds beside other tools</title>"
    return f'{frame}{title}<rect width="100%" height="100%" fill="#ffffff"/>{"".join(parts)}</svg>\n'


def _bar(x: float, y: float, share: float, colour: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{max(2, WIDE * share):.1f}" height="20" rx="2" fill="{colour}"/>'


def _text(x: float, y: float, text: str, size: int, anchor: str = "start") -> str:
    font = f'font-family="system-ui,sans-serif" font-size="{size}" fill="#101215" text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y}" {font}>{escape(text)}</text>'


if __name__ == "__main__":
    PICTURE.write_text(chart(figures(PAGE.read_text())))
