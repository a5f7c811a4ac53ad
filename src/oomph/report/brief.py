"""The first screen of a long answer: as many lines as it may have, what matters most first; `--all` has the rest.

Each block comes in rows (a paragraph, a remedy, a reason) and gets its lines step by step. A row that is cut ends with
a sentence or with "..."; a command, a question and a sum are printed whole or not at all.
"""

from typing import NamedTuple

from oomph.report.answer import Block, Paragraph
from oomph.report.terminal import INDENT

Row = list[str]  # its lines

FIRST_REMEDY = 6  # the line, of those that are not empty, on which the first remedy stands at the latest
_STEPS = (
    ("Why", 1), ("Changes", 1), ("Inquiry", 4), ("Settle", 1), ("Also", 2), ("Inferred", 1), ("Why", 2), ("Changes", 2),
    ("Command", 5), ("Reasons", 1), ("Facts", 1), ("Changes", 3), ("Ledger", 3), ("Settle", 2), ("Inferred", 2),
    ("Notes", 1), ("Excerpt", 1), ("Why", 3), ("Reasons", 2), ("Items", 1), ("Command", 8), ("Excerpt", 2),
    ("", 99),  # each the rest of it, where there is room
)  # fmt: skip
_WHOLE = frozenset(("Command", "Inquiry", "Ledger"))


class Printed(NamedTuple):
    """A block in full."""

    block: Block
    rows: list[Row]

    @property
    def name(self) -> str:
        return self.block.name if isinstance(self.block, Paragraph) else type(self.block).__name__

    @property
    def height(self) -> int:
        return sum(map(len, self.rows))


def brief_lines(head: list[str], printed: list[Printed], room: int, width: int) -> list[str]:
    """At most `room` lines: `head`, then the blocks in their order, and what is left out where something is."""
    free = room - len(head)
    whole = sum(one.height for one in printed)
    above = FIRST_REMEDY - 1 - sum(1 for line in head if line.strip())  # how much may stand before the first remedy
    shares = _shares(printed, free, above)
    if whole == sum(shares):
        return [*head, *(line for one in printed for row in one.rows for line in row)]
    shares = _shares(printed, free - 1, above)
    lines = [line for one, share in zip(printed, shares) for line in _first(one.rows, share, width)]
    return [*head, *lines, f"  --all    {whole - sum(shares)} more lines: everything that was read, and why"]


def _shares(printed: list[Printed], free: int, before_remedy: int) -> list[int]:
    """How many lines each gets; what explains stands above the first remedy and has no more than the room there."""
    has_remedy = any(one.name == "Changes" and one.rows for one in printed)
    shares = [0] * len(printed)
    for name, lines in _STEPS:
        for number, one in enumerate(printed):
            if name not in ("", one.name):
                continue
            most = min(lines, one.height)
            if has_remedy and one.name in ("Why", "Inferred"):
                share_of_why = sum(share for share, other in zip(shares, printed) if other.name in ("Why", "Inferred"))
                most = min(most, max(1 if one.name == "Why" else 0, before_remedy - share_of_why + shares[number]))
            if one.name in _WHOLE and (most < one.height or most - shares[number] > free):
                continue
            more = max(0, min(most - shares[number], free))
            shares[number] += more
            free -= more
    return shares


def _first(rows: list[Row], lines: int, width: int) -> list[str]:
    """So many lines: of each row one, as far as they go, and the first rows whole where there are more."""
    shown = rows[:lines]
    spare = lines - len(shown)
    out: list[str] = []
    for row in shown:
        more = min(spare, len(row) - 1)
        spare -= more
        out += _cut(row, 1 + more, width)
    return out


def _cut(row: Row, lines: int, width: int) -> list[str]:
    """The first lines of a text: to the end of its last sentence there, else to a word that leaves room for "..."."""
    if len(row) <= lines:
        return row
    *above, last = row[:lines]
    end = len(last) if last.endswith(".") else last.rfind(". ") + 1
    if end > (INDENT if above else width // 3):
        return [*above, last[:end]]
    if len(last) + 4 > width:
        last = last[: width - 4].rpartition(" ")[0]
    return [*above, f"{last.rstrip(' ,;:')} ..."]
