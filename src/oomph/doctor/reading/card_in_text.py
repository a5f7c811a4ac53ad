"""The card that the prose around a pasted log speaks of."""

import re
from collections.abc import Sequence

from oomph.errors import OomphError
from oomph.facts.gpus import rows
from oomph.logs.clean import Line
from oomph.text.late import late_pattern

MANY_CARDS = 3
_SIZING = late_pattern(
    r"\b\d{1,3}(?:\.\d)?B\b[^.]{0,20}(?:→|->|=>|≈|~|:|\|)[^.]{0,12}\d{1,4} ?GB"
)  # "13B → 28 GB (...)"


def gpu_mentioned(lines: Sequence[Line]) -> tuple[str, int]:
    """The card's name in the prose around a pasted log, and how many: "2x 5070 Ti", "my T4", "on g5.12xlarge"."""
    from oomph.commands.named_gpus import declared, mentioned
    from oomph.sources.gpu import parse_gpus

    texts = (line.text[:400] for line in lines[:3000] if not line.file)
    prose = "\n".join(text for text in texts if not _SIZING.search(text))[: 64 << 10]
    if len(_all_names(prose.lower())) >= MANY_CARDS:
        return "", 0  # a table of sizes, or a comparison: none of them is the one that it ran on
    for words in (mentioned(prose), declared(prose).gpus):
        try:
            gpus = parse_gpus(words) if words else ()
        except OomphError:
            continue
        if gpus and any(row.name == gpus[0].name for row in rows()):
            return gpus[0].name, len(gpus)
    return _longest_name(prose.lower()), 0


def _all_names(prose: str) -> set[str]:
    """The cards that are named, each by the longest of its names."""
    names: set[str] = set()
    for row in sorted(rows(), key=lambda row: -len(row.name)):
        short = row.name.lower().removeprefix("rtx ")
        if len(short) >= 4 and short in prose and re.search(rf"(?<![\w.-]){re.escape(short)}(?![\w-])", prose):
            names.add(row.name)
            prose = prose.replace(short, " ")
    return names


def _longest_name(prose: str) -> str:
    """Of several cards that are named in full the one whose name says most."""
    card = ""
    for row in rows():
        short = row.name.lower().removeprefix("rtx ")
        if len(short) >= 4 and len(row.name) > len(card) and short in prose:
            card = row.name if re.search(rf"(?<![\w.-]){re.escape(short)}(?![\w-])", prose) else card
    return card
